"""Multi-sample bounds, and Adam in one pass over all parameters.

Bounds are of a few particles: small loops, for which numpy's calls would take longer than the arithmetic.
"""

import math

import numpy as np

from phloem.arrays import FloatArray, LongArray, RealArray
from phloem.kernels.jit import at, from_address, kernel, vector_kernel, wide_vectors

DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8  # of Adam
LANES = 16  # partial sums side by side, so that sums are vectorised and still have a fixed order


@vector_kernel
def _shrinkage(addresses, starts, step_counts, mean, square, square_decay, clipping):
    """The factor for the gradient: 1 if its norm is usual or there is nothing to compare it with, 0 if not finite."""
    wide_vectors()
    slopes, spreads = np.empty(LANES, mean.dtype), np.empty(LANES, mean.dtype)
    total, usual = 0.0, 0.0
    for number in range(len(addresses)):
        if addresses[number, 1] == 0:
            continue
        source, second = from_address(mean, addresses[number, 1]), at(square, starts[number])
        slopes[:] = 0
        spreads[:] = 0
        count = starts[number + 1] - starts[number]
        for first in range(0, count - LANES + 1, LANES):
            for lane in range(LANES):
                slopes[lane] += source[first + lane] * source[first + lane]
                spreads[lane] += second[first + lane]
        for place in range(count - count % LANES, count):
            slopes[0] += source[place] * source[place]
            spreads[0] += second[place]
        total += np.float64(slopes.sum())
        if step_counts[number] > 0:
            usual += np.float64(spreads.sum()) / (1 - square_decay ** step_counts[number])
    if not total < math.inf:
        return 0.0
    if usual == 0.0 or total <= clipping * clipping * usual:
        return 1.0
    return clipping * math.sqrt(usual / total)


@vector_kernel
def adam_update(
    addresses: LongArray,
    starts: LongArray,
    step_counts: LongArray,
    mean: RealArray,
    square: RealArray,
    rate: float,
    decay: float,
    square_decay: float,
    epsilon: float,
    clipping: float,
) -> bool:
    """Adam (Kingma & Ba 2015): parameter -= rate · m̂ / (√v̂ + ε).

    A gradient whose norm, over all parameters, exceeds `clipping` times the norm expected from the second moments is
    scaled down to it. A gradient that is not finite moves nothing, and the result is False.

    addresses (parameters, 2): where each parameter and its gradient are in memory, with the moments' dtype; a parameter
    without a gradient has 0 there and does not move. starts (parameters + 1,): where the moments of each begin.
    step_counts: the number of steps that each has taken.
    """
    wide_vectors()
    kind = mean.dtype.type
    keep, add, keep_square, add_square = kind(decay), kind(1 - decay), kind(square_decay), kind(1 - square_decay)
    small = kind(epsilon)
    shrink = kind(_shrinkage(addresses, starts, step_counts, mean, square, square_decay, clipping))
    if shrink == 0:
        return False
    for number in range(len(addresses)):
        if addresses[number, 1] == 0:
            continue
        step_counts[number] += 1
        scale = kind(rate / (1 - decay ** step_counts[number]))
        root = kind(1 / math.sqrt(1 - square_decay ** step_counts[number]))
        target, source = from_address(mean, addresses[number, 0]), from_address(mean, addresses[number, 1])
        first, second = at(mean, starts[number]), at(square, starts[number])
        for place in range(starts[number + 1] - starts[number]):
            slope = shrink * source[place]
            moment = keep * first[place] + add * slope
            spread = keep_square * second[place] + add_square * slope * slope
            first[place] = moment
            second[place] = spread
            target[place] -= scale * moment / (root * math.sqrt(spread) + small)
    return True


@kernel
def log_mean_exp(values: FloatArray) -> float:
    """log (1/K) Σ_i exp(values_i), safe from overflow; -inf if all values are."""
    greatest = values.max()
    if greatest == -math.inf:
        return -math.inf
    total = 0.0
    for value in values:
        total += math.exp(value - greatest)
    return greatest + math.log(total / len(values))


@kernel
def leave_one_out_bounds(log_weights: FloatArray) -> FloatArray:
    """For each of K particles, the bound with its weight replaced by the geometric mean of the others, (K,)."""
    count = len(log_weights)
    bounds = np.empty(count)
    replaced = log_weights.copy()
    for particle in range(count):
        others = 0.0
        for other in range(count):
            if other != particle:
                others += log_weights[other]
        replaced[particle] = others / (count - 1)
        bounds[particle] = log_mean_exp(replaced)
        replaced[particle] = log_weights[particle]
    return bounds
