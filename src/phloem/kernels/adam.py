"""Adam (Kingma & Ba 2015) in one pass over all parameters and their moments."""

import math

from phloem.kernels.arrays import LongArray, RealArray
from phloem.kernels.jit import vector_kernel, wide_vectors
from phloem.kernels.pointers import at, from_address


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
) -> None:
    """parameter -= rate · m̂ / (√v̂ + ε), with the moments' decay.

    addresses (parameters, 2): where each parameter and its gradient lie in memory, of the moments' type; those without
    a gradient have 0 there and stay. starts (parameters + 1,): where each one's moments begin. step_counts: how
    often each was moved before.
    """
    wide_vectors()
    kind = mean.dtype.type
    keep, add, keep_square, add_square = kind(decay), kind(1 - decay), kind(square_decay), kind(1 - square_decay)
    small = kind(epsilon)
    for number in range(len(addresses)):
        if addresses[number, 1] == 0:
            continue
        step_counts[number] += 1
        scale = kind(rate / (1 - decay ** step_counts[number]))
        root = kind(1 / math.sqrt(1 - square_decay ** step_counts[number]))
        target, source = from_address(mean, addresses[number, 0]), from_address(mean, addresses[number, 1])
        first, second = at(mean, starts[number]), at(square, starts[number])
        for place in range(starts[number + 1] - starts[number]):
            slope = source[place]
            moment = keep * first[place] + add * slope
            spread = keep_square * second[place] + add_square * slope * slope
            first[place] = moment
            second[place] = spread
            target[place] -= scale * moment / (root * math.sqrt(spread) + small)
