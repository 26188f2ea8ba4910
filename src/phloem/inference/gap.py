"""Amortisation gaps: what a branch model loses on a topology against the best of its family for that topology alone.

A log weight is log p(Y, τ, q) - log Q(q given τ); its mean is the tree's evidence lower bound, a function of the
parameters of all branches of the tree. For fixed noise that function is smooth, and is maximised by a quasi-Newton
method which moves all trees at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import BoolArray, FloatArray, LongArray
from phloem.errors import BadArgument
from phloem.kernels.philox import fill_normal_rows
from phloem.random_streams import RandomStream
from phloem.target.estimation import uphill_direction
from phloem.target.posterior import TreePosterior
from phloem.trees.topology import TopologyBatch
from phloem.variational.families import BranchDistribution
from phloem.variational.joint import BranchModel

Family = type[BranchDistribution]
Progress = Callable[[float], None]
CHUNK_NODES = 50_000  # of trees evaluated at a time, so that many samples take little memory
FEWEST_PAIRS = 64  # of samples in a set of noise, or twice the number of branches
MOST_ROUNDS = 5  # each with twice the noise of the one before
MOST_EVALUATIONS = 150  # for one set of noise
USUAL_EVALUATIONS = (25, 8)  # for the first set, and for each of the others
USUAL_ROUNDS = 2
SETTLED = 0.1  # of the tolerance: a tree has settled when its next step promises less
LONGEST_STEP = 0.7  # in any parameter
REMEMBERED = 10  # steps that tell of the curvature
INFORMING = 32  # samples that tell of the parameters' scales
LEAST_INFORMATION = 1e-3  # a parameter that hardly matters should not run away
ENOUGH = 1e-4  # of the gain promised by the slope (Armijo)
SMALLEST_STEP = 1e-4
BLOCK_NUMBERS = 2_000_000  # remembered for a block of trees: 16 MB
OPTIMIZING = 0.6  # of the time, roughly


class Weighed(NamedTuple):
    """Log weights of sampled lengths, and the gradient of each tree's sum of them for the parameters."""

    log_weights: FloatArray  # (samples, trees)
    gradient: FloatArray | None  # (trees, branches, parameters)


def weigh(
    target: TreePosterior,
    topologies: TopologyBatch,
    family: Family,
    parameters: FloatArray,
    noise: FloatArray,
    *,
    with_gradient: bool = False,
) -> Weighed:
    """Weight the lengths given by noise (samples, trees, branches); noise for one tree is shared by all."""
    samples, trees, branches = len(noise), len(topologies), topologies.branch_count
    repeated = topologies[np.tile(np.arange(trees), samples)]
    own_noise = np.broadcast_to(noise, (samples, trees, branches)).reshape(-1, branches)
    operation = family.from_noise(repeated, np.ascontiguousarray(own_noise), path_only=False)
    assert operation is not None
    lengths, log_density = operation.values((True,), torch.from_numpy(parameters).repeat(samples, 1, 1))
    log_joint, slopes = target.log_joint_by_hand(repeated, lengths, 1.0)
    log_weights = (log_joint - log_density).numpy().reshape(samples, trees)
    if not with_gradient:
        return Weighed(log_weights, None)
    ones = torch.ones(samples * trees, dtype=torch.float64)
    (gradient,) = operation.gradients((True,), slopes.lengths, -ones)
    assert gradient is not None
    return Weighed(log_weights, gradient.numpy().reshape(samples, *parameters.shape).sum(axis=0))


class Slope(NamedTuple):
    """The bound of each tree, its gradient, and how much lengths tell of each parameter (Fisher's information)."""

    mean: FloatArray  # (trees,)
    gradient: FloatArray  # (trees, branches, parameters)
    information: FloatArray  # likewise


def measure_slope(
    target: TreePosterior, topologies: TopologyBatch, family: Family, parameters: FloatArray, noise: FloatArray
) -> Slope:
    """The slope of all trees' bounds from the same noise (samples, branches)."""
    mean, gradient = np.zeros(len(topologies)), np.zeros(parameters.shape)
    chunk = max(1, CHUNK_NODES // (topologies.node_count * len(topologies)))
    for first in range(0, len(noise), chunk):
        part = noise[first : first + chunk, None]
        weighed = weigh(target, topologies, family, parameters, part, with_gradient=True)
        assert weighed.gradient is not None
        mean += weighed.log_weights.sum(axis=0)
        gradient += weighed.gradient
    return Slope(mean / len(noise), gradient / len(noise), _information(topologies, family, parameters, noise))


def _information(topologies: TopologyBatch, family: Family, parameters: FloatArray, noise: FloatArray) -> FloatArray:
    """The mean square of the log-density's derivative for each parameter, with the lengths held fixed.

    Where the family fits well, this is the curvature of the bound.
    """
    some = noise[:: max(1, len(noise) // INFORMING)]
    repeated = topologies[np.tile(np.arange(len(topologies)), len(some))]
    tensor = torch.from_numpy(parameters).repeat(len(some), 1, 1).requires_grad_()
    operation = family.from_noise(repeated, np.repeat(some, len(topologies), axis=0), path_only=False)
    assert operation is not None
    lengths, _ = operation.values((True,), tensor.detach())
    (scores,) = torch.autograd.grad(family(tensor, repeated).log_prob(lengths).sum(), tensor)
    squares: FloatArray = (scores.numpy() ** 2).reshape(len(some), *parameters.shape).mean(axis=0)
    return np.maximum(np.nan_to_num(squares, nan=1.0, posinf=1e12), LEAST_INFORMATION)


def even_noise(pairs: int, branches: int, *, stream: RandomStream) -> FloatArray:
    """Noise (2·pairs, branches) with the mean, the covariance and the odd moments of the standard normal, exactly.

    A quadratic function of it has the exact mean, and a cubic one too. There must be more pairs than branches.
    """
    half = stream.generator().standard_normal((pairs, branches))
    factor = np.linalg.cholesky(half.T @ half / pairs)
    half = np.linalg.solve(factor, half.T).T
    return np.concatenate([half, -half])


class BestMembers(NamedTuple):
    """The best parameters found for each topology, as the family takes them."""

    parameters: Tensor  # (trees, 2n-3, parameters)
    shortfall: FloatArray  # (trees,)  how much higher the best bound may be, by estimate
    converged: BoolArray  # (trees,)  whether the shortfall is within the tolerance


def best_members(
    family: Family,
    topologies: TopologyBatch,
    target: TreePosterior,
    start: Tensor,
    *,
    stream: RandomStream,
    tolerance: float = 0.005,
    progress: Progress | None = None,
) -> BestMembers:
    """Maximise E[log p(Y, τ, q) - log Q(q given τ)] over the parameters of each topology's branches, from `start`.

    The error due to the noise is estimated from a second, independent set of noise: the second set's bound is lower at
    the first set's optimum than at its own by twice what either optimum loses, as the two errors are independent. The
    midpoint of both optima loses less than either, and is taken.

    start: (trees, 2n-3, parameters), as a branch model gives them. Trees whose bound can still grow by more than
    `tolerance` nats, by estimate, are tried again with twice the noise; after the last round they count as not
    converged.
    """
    if not 0 < tolerance <= 1:
        raise BadArgument(f"best {family.__name__}: a tolerance of {tolerance:g} nats. Give one above 0 and at most 1.")
    shape = (len(topologies), topologies.branch_count, family.parameters_per_branch)
    if tuple(start.shape) != shape:
        raise BadArgument(f"best {family.__name__}: parameters of shape {tuple(start.shape)} for {shape[0]} trees.")
    best: FloatArray = start.detach().double().numpy().copy()
    shortfall, converged = np.full(shape[0], np.inf), np.zeros(shape[0], np.bool_)
    pairs = max(FEWEST_PAIRS, 2 * shape[1])
    work = _Work(pairs, progress)
    for round_ in range(MOST_ROUNDS):
        going = np.flatnonzero(~converged)
        some = topologies[going]
        noise, other_noise = (even_noise(pairs, shape[1], stream=stream.at(2 * round_ + place)) for place in range(2))
        first = _climb(family, some, target, best[going], noise, tolerance, work)
        second = _climb(family, some, target, first.at, other_noise, tolerance, work)
        best[going] = (first.at + second.at) / 2
        shortfall[going] = np.maximum(second.risen, 0.0) / 2
        converged[going] = first.settled & second.settled & (shortfall[going] <= tolerance)
        if converged.all():
            break
        pairs *= 2
    return BestMembers(torch.from_numpy(best), shortfall, converged)


class _Climbed(NamedTuple):
    """The maximum of the bound for one set of noise."""

    at: FloatArray  # (trees, branches, parameters)
    risen: FloatArray  # (trees,)  how far the bound is above that of the start
    settled: BoolArray  # (trees,)


def _climb(
    family: Family,
    topologies: TopologyBatch,
    target: TreePosterior,
    start: FloatArray,
    noise: FloatArray,
    tolerance: float,
    work: "_Work",
) -> _Climbed:
    """L-BFGS with a step size for each tree; all trees that still move share an evaluation."""
    at = start.copy()
    slope = measure_slope(target, topologies, family, at, noise)
    first_mean = slope.mean.copy()
    memory = _Memory(at.shape)
    step, promise = memory.step(slope, np.arange(len(at)))
    size = np.ones(len(at))
    finite = np.isfinite(slope.mean)
    moving = finite & (promise / 2 > SETTLED * tolerance)
    settled = finite & ~moving
    for _ in range(MOST_EVALUATIONS):
        if not moving.any():
            break
        trees = np.flatnonzero(moving)
        moved = at[trees] + size[trees, None, None] * step[trees]
        found = measure_slope(target, topologies[trees], family, moved, noise)
        work.done(noise, len(trees) / len(at))
        good = found.mean >= slope.mean[trees] + ENOUGH * size[trees] * promise[trees]
        gained = trees[good]
        memory.note(gained, moved[good] - at[gained], slope.gradient[gained] - found.gradient[good])
        at[gained] = moved[good]
        for old, new in zip(slope, found, strict=True):
            old[gained] = new[good]
        step[gained], promise[gained] = memory.step(slope, gained)
        size[trees] = np.where(good, 1.0, size[trees] / 2)
        settled[gained] = promise[gained] / 2 <= SETTLED * tolerance
        moving = moving & ~settled & (size >= SMALLEST_STEP)
    return _Climbed(at, slope.mean - first_mean, settled)


class _Memory:
    """The last steps of every tree with the change of the gradient, the newest first."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._moves = np.zeros((REMEMBERED, *shape))
        self._changes = np.zeros((REMEMBERED, *shape))

    def note(self, trees: LongArray, moves: FloatArray, changes: FloatArray) -> None:
        """Remember a step of these trees."""
        for memory, new in ((self._moves, moves), (self._changes, changes)):
            memory[1:, trees] = memory[:-1, trees]
            memory[0, trees] = new

    def step(self, slope: Slope, trees: LongArray) -> tuple[FloatArray, FloatArray]:
        """The next step of some trees, and the gain that the slope alone promises for it, (trees,)."""
        gradient, information, moves, changes = (
            array.reshape(*array.shape[:-2], array.shape[-2] * array.shape[-1])
            for array in (
                slope.gradient[trees],
                slope.information[trees],
                self._moves[:, trees],
                self._changes[:, trees],
            )
        )
        step = uphill_direction(gradient, moves, changes, information)
        step /= np.maximum(np.abs(step).max(axis=1, keepdims=True) / LONGEST_STEP, 1.0)
        return step.reshape(slope.gradient[trees].shape), (step * gradient).sum(axis=1)


class _Work:
    """Progress as a share of the usual amount of work."""

    def __init__(self, pairs: int, progress: Progress | None) -> None:
        first, other = USUAL_EVALUATIONS
        rounds = sum(2**number for number in range(USUAL_ROUNDS))
        self._usual = 2 * pairs * (first - other + 2 * other * rounds)
        self._spent = 0.0
        self._progress = progress

    def done(self, noise: FloatArray, share: float) -> None:
        """Count a set of noise as evaluated for a share of the trees."""
        self._spent += share * len(noise)
        if self._progress:
            self._progress(min(0.99, self._spent / self._usual))


@dataclass(frozen=True, slots=True, eq=False)
class AmortizationGaps:
    """Bounds E[log p(Y, τ, q) - log Q(q given τ)] of each topology with their standard errors, all (trees,).

    A tree's bounds use common random numbers, so their difference, the gap, has a smaller error than either.
    """

    amortized: FloatArray  # with the model's parameters
    amortized_error: FloatArray
    best: FloatArray  # with the best parameters for the tree
    best_error: FloatArray
    gap: FloatArray
    gap_error: FloatArray
    shortfall: FloatArray  # how much higher the best bound may be, by estimate
    converged: BoolArray  # whether that is within the tolerance

    def __len__(self) -> int:
        return len(self.gap)

    def average(self, weights: FloatArray | None = None) -> tuple[float, float]:
        """The mean gap and its standard error, plain or weighted."""
        shares = np.ones(len(self)) if weights is None else np.asarray(weights, np.float64)
        if shares.shape != self.gap.shape or not shares.sum() > 0:
            raise BadArgument(f"amortisation gaps: {len(shares)} weights for {len(self)} trees, or all are zero.")
        shares = shares / shares.sum()
        return float(shares @ self.gap), float(np.sqrt(shares**2 @ self.gap_error**2))


def amortization_gaps(
    branches: BranchModel,
    target: TreePosterior,
    topologies: TopologyBatch,
    *,
    stream: RandomStream,
    samples: int = 5000,
    tolerance: float = 0.005,
    progress: Progress | None = None,
) -> AmortizationGaps:
    """The gap of each topology, all of which the model must know; each bound is the mean of `samples` log weights.

    The best parameters are found to within `tolerance` nats, with separate random numbers.
    """
    if samples < 4:
        raise BadArgument(f"amortisation gaps: {samples} samples. Give at least 4.")
    if not len(topologies):
        raise BadArgument("amortisation gaps: no topologies given.")
    family = branches.family
    if family.from_noise(topologies[:1], np.zeros((1, topologies.branch_count)), path_only=False) is None:
        raise BadArgument(f"amortisation gaps: {family.__name__} has no `from_noise`, which they need.")
    with torch.no_grad():
        parameters = branches.branch_parameters(topologies)
    size = max(1, BLOCK_NUMBERS // (2 * REMEMBERED * parameters[0].numel()))
    parts = []
    for first in range(0, len(topologies), size):
        block, own = topologies[first : first + size], parameters[first : first + size]
        tell = _part_of(progress, first / len(topologies), len(block) / len(topologies))
        fit = best_members(
            family,
            block,
            target,
            own,
            stream=stream.named("optimum"),
            tolerance=tolerance,
            progress=_part_of(tell, 0.0, OPTIMIZING),
        )
        both = [each.double().numpy() for each in (own, fit.parameters)]
        amortized, best = _pair_bounds(
            family, block, target, both, samples // 2, stream.at(first), _part_of(tell, OPTIMIZING, 1 - OPTIMIZING)
        )
        estimates = (_mean_and_error(pairs) for pairs in (amortized, best, best - amortized))
        parts.append([column for estimate in estimates for column in estimate] + [fit.shortfall, fit.converged])
    return AmortizationGaps(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _pair_bounds(
    family: Family,
    topologies: TopologyBatch,
    target: TreePosterior,
    several: list[FloatArray],
    pairs: int,
    stream: RandomStream,
    progress: Progress,
) -> list[FloatArray]:
    """For each of several sets of parameters independent estimates of the trees' bounds, (pairs, trees).

    An estimate is the mean of two log weights with opposite noise, in which what is odd in the noise cancels.
    """
    trees, branches = len(topologies), topologies.branch_count
    bounds = [np.empty((pairs, trees)) for _ in several]
    chunk = max(1, CHUNK_NODES // (topologies.node_count * trees))
    key = stream.named("bounds").key()
    for first in range(0, pairs, chunk):
        last = min(first + chunk, pairs)
        noise = np.empty((last - first, trees, branches))
        fill_normal_rows(key, first * trees, stream.step, noise.reshape(-1, branches))
        for each, bound in zip(several, bounds, strict=True):
            opposite = [weigh(target, topologies, family, each, sign * noise).log_weights for sign in (1, -1)]
            bound[first:last] = (opposite[0] + opposite[1]) / 2
        progress(last / pairs)
    return bounds


def _mean_and_error(pairs: FloatArray) -> tuple[FloatArray, FloatArray]:
    with np.errstate(invalid="ignore"):  # a bound of -inf has no error
        return pairs.mean(axis=0), pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs))


def _part_of(progress: Progress | None, start: float, length: float) -> Progress:
    """Progress of a part of the work, as progress of the whole."""
    return lambda share: progress(start + length * share) if progress else None
