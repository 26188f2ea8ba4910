"""Amortisation gaps: what a branch model loses on a topology against the best lognormals for that topology alone.

A log weight is log p(Y, τ, q) - log Q(q given τ); its mean is the tree's evidence lower bound. In the noise ε it is
nearly a quadratic form, since y = log q = location + scale·ε and log p(Y, τ, q) + Σ y is nearly quadratic in y.
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
from phloem.kernels.variational.branches import HALF_LOG_TWO_PI, LARGEST_LOG_LENGTH
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.trees.topology import TopologyBatch
from phloem.variational.joint import LOCATION_OFFSET, BranchModel, Lognormal

Rows = slice | LongArray | BoolArray
Progress = Callable[[float], None]
CHUNK_NODES = 50_000  # of trees evaluated at a time, so that many samples take little memory
FEWEST_PAIRS = 64  # of samples in a set of noise, or twice the number of branches
MOST_ROUNDS = 5  # each with twice the noise of the one before
MOST_EVALUATIONS = 60  # for one set of noise
USUAL_EVALUATIONS = (10, 4)  # for the first set, and for each of the others
USUAL_ROUNDS = 2
SETTLED = 0.1  # of the tolerance: a tree has settled when its next Newton step promises less
LONGEST_STEP = 1.0  # in the logarithm of a length
LARGEST_RESCALING = 0.5  # in the logarithm of a scale
LEAST_CURVATURE = 0.02  # of the largest: a lower limit for flatter directions
ENOUGH = 1e-4  # of the gain promised by the slope (Armijo)
SMALLEST_STEP = 1e-3
CURVATURES = 4_000_000  # values in the curvatures of a block of trees: 32 MB
CONTROL_PAIRS = 4  # pairs of samples per branch for the control variates
OPTIMIZING = 0.6  # of the time, roughly


class Lognormals(NamedTuple):
    """Mean and logarithm of the standard deviation of log q, for every branch of every tree."""

    location: FloatArray  # (trees, branches)
    log_scale: FloatArray  # (trees, branches)

    @classmethod
    def of(cls, parameters: Tensor) -> "Lognormals":
        """From a branch model's parameters, (trees, branches, 2)."""
        distribution = Lognormal(parameters.detach())
        return cls(distribution.location.numpy().copy(), distribution.log_scale.numpy().copy())

    def parameters(self) -> Tensor:
        """As a branch model gives them, (trees, branches, 2)."""
        return torch.from_numpy(np.stack([self.location - LOCATION_OFFSET, self.log_scale], axis=2))

    def rows(self, trees: Rows) -> "Lognormals":
        """A copy for some of the trees."""
        return Lognormals(*(np.array(part[trees]) for part in self))


class Weighed(NamedTuple):
    """Log weights of sampled lengths, and the gradient of log p(Y, τ, q) + Σ log q with respect to the log lengths."""

    log_weights: FloatArray  # (samples, trees)
    gradients: FloatArray | None  # (samples, trees, branches)


class Shape(NamedTuple):
    """Mean, slope and curvature of the log weights in units of the noise, by Stein's identities: E g and E g εᵀ."""

    mean: FloatArray  # (trees,)
    slope: FloatArray  # (trees, branches)
    curvature: FloatArray  # (trees, branches, branches)  symmetric; -1 on the diagonal where the scales are the best

    def rows(self, trees: Rows) -> "Shape":
        """A copy for some of the trees."""
        return Shape(*(np.array(part[trees]) for part in self))


def samples_at_a_time(topologies: TopologyBatch) -> int:
    """Samples of all these trees in a chunk."""
    return max(1, CHUNK_NODES // (topologies.node_count * len(topologies)))


def weigh(
    target: TreePosterior,
    topologies: TopologyBatch,
    lognormals: Lognormals,
    noise: FloatArray,
    *,
    with_gradients: bool = False,
) -> Weighed:
    """Weight the lengths given by noise (samples, trees, branches); noise for one tree is shared by all."""
    samples, shape = len(noise), (len(noise), *lognormals.location.shape)
    log_lengths = np.minimum(lognormals.location + np.exp(lognormals.log_scale) * noise, LARGEST_LOG_LENGTH)
    lengths = torch.from_numpy(np.exp(log_lengths).reshape(-1, shape[2]))
    lengths.requires_grad_(with_gradients)
    repeated = topologies[np.tile(np.arange(len(topologies)), samples)]
    log_joint = target.log_joint(repeated, lengths)
    log_density = -(log_lengths + lognormals.log_scale + 0.5 * noise**2 + HALF_LOG_TWO_PI).sum(axis=2)
    gradients = None
    if with_gradients:
        log_joint.sum().backward()
        assert lengths.grad is not None
        gradients = (lengths.grad * lengths.detach()).numpy().reshape(shape) + 1.0
    return Weighed(log_joint.detach().numpy().reshape(shape[:2]) - log_density, gradients)


def measure_shape(target: TreePosterior, topologies: TopologyBatch, lognormals: Lognormals, noise: FloatArray) -> Shape:
    """The shape of all trees' log weights from the same noise (samples, branches)."""
    trees, branches = lognormals.location.shape
    mean, slope = np.zeros(trees), np.zeros((trees, branches))
    curvature = np.zeros((trees, branches, branches))
    chunk = samples_at_a_time(topologies)
    scale = np.exp(lognormals.log_scale)
    for first in range(0, len(noise), chunk):
        part = noise[first : first + chunk]
        weighed = weigh(target, topologies, lognormals, part[:, None], with_gradients=True)
        assert weighed.gradients is not None
        scaled = weighed.gradients * scale  # (samples, trees, branches)
        mean += weighed.log_weights.sum(axis=0)
        slope += scaled.sum(axis=0)
        curvature += scaled.transpose(1, 2, 0) @ part
    curvature = (curvature + curvature.transpose(0, 2, 1)) / 2
    return Shape(mean / len(noise), slope / len(noise), curvature / len(noise))


def even_noise(pairs: int, branches: int, *, stream: RandomStream) -> FloatArray:
    """Noise (2·pairs, branches) with the mean, the covariance and the odd moments of the standard normal, exactly.

    A quadratic function of it has the exact mean, and a cubic one too. There must be more pairs than branches.
    """
    half = stream.generator().standard_normal((pairs, branches))
    factor = np.linalg.cholesky(half.T @ half / pairs)
    half = np.linalg.solve(factor, half.T).T
    return np.concatenate([half, -half])


class LognormalFit(NamedTuple):
    """The best parameters found for each topology, as `Lognormal` takes them."""

    parameters: Tensor  # (trees, 2n-3, 2)
    shortfall: FloatArray  # (trees,)  how much higher the best bound may be, by estimate
    converged: BoolArray  # (trees,)  whether the shortfall is within the tolerance


def optimize_lognormals(
    topologies: TopologyBatch,
    target: TreePosterior,
    start: Tensor,
    *,
    stream: RandomStream,
    tolerance: float = 0.005,
    progress: Progress | None = None,
) -> LognormalFit:
    """Maximise E[log p(Y, τ, q) - log Q(q given τ)] over the parameters of each topology's lognormals, from `start`.

    For fixed noise the bound is a smooth function of the parameters, maximised by Newton steps whose curvature comes
    from the same samples. The error due to the noise is estimated from a second, independent set of noise: the second
    set's bound is lower at the first set's optimum than at its own by twice what either optimum loses, as the two
    errors are independent. The midpoint of both optima loses less than either, and is taken.

    start: (trees, 2n-3, 2), as a branch model gives them. All trees are moved together. Those whose bound can still
    grow by more than `tolerance` nats, by estimate, are tried again with twice the noise; after the last round they
    count as not converged.
    """
    if not 0 < tolerance <= 1:
        raise BadArgument(f"best lognormals: a tolerance of {tolerance:g} nats. Give one above 0 and at most 1.")
    trees, branches = len(topologies), topologies.branch_count
    best = Lognormals.of(start)
    if best.location.shape != (trees, branches):
        raise BadArgument(f"best lognormals: parameters of shape {tuple(start.shape)} for {trees} trees.")
    shortfall, converged = np.full(trees, np.inf), np.zeros(trees, np.bool_)
    pairs = max(FEWEST_PAIRS, 2 * branches)
    work = _Work(pairs, progress)
    for round_ in range(MOST_ROUNDS):
        going = np.flatnonzero(~converged)
        some = topologies[going]
        noise, other_noise = (even_noise(pairs, branches, stream=stream.at(2 * round_ + place)) for place in range(2))
        first = _climb(some, target, best.rows(going), noise, tolerance, work)
        second = _climb(some, target, first.at, other_noise, tolerance, work)
        best.location[going] = (first.at.location + second.at.location) / 2
        best.log_scale[going] = (first.at.log_scale + second.at.log_scale) / 2
        shortfall[going] = _lost_between(first.at, second.at, second.shape) / 2
        converged[going] = first.settled & second.settled & (shortfall[going] <= tolerance)
        if converged.all():
            break
        pairs *= 2
    return LognormalFit(best.parameters(), shortfall, converged)


class _Climbed(NamedTuple):
    """The maximum of the bound for one set of noise."""

    at: Lognormals
    shape: Shape
    settled: BoolArray  # (trees,)


def _climb(
    topologies: TopologyBatch,
    target: TreePosterior,
    start: Lognormals,
    noise: FloatArray,
    tolerance: float,
    work: "_Work",
) -> _Climbed:
    """Newton's method with a step size for each tree; all trees that still move share an evaluation."""
    at = start.rows(slice(None))
    shape = measure_shape(target, topologies, at, noise)
    step, promise = _newton_step(at, shape)
    size = np.ones(len(topologies))
    moving = np.isfinite(shape.mean) & (promise / 2 > SETTLED * tolerance)
    settled = np.isfinite(shape.mean) & ~moving
    for _ in range(MOST_EVALUATIONS):
        if not moving.any():
            break
        trees = np.flatnonzero(moving)
        moved = Lognormals(
            at.location[trees] + size[trees, None] * step.location[trees],
            at.log_scale[trees] + size[trees, None] * step.log_scale[trees],
        )
        found = measure_shape(target, topologies[trees], moved, noise)
        work.done(noise, len(trees) / len(topologies))
        good = found.mean >= shape.mean[trees] + ENOUGH * size[trees] * promise[trees]
        gained = trees[good]
        for old, new in zip((*at, *shape), (*moved, *found), strict=True):
            old[gained] = new[good]
        next_step, next_promise = _newton_step(moved.rows(good), found.rows(good))
        step.location[gained], step.log_scale[gained], promise[gained] = *next_step, next_promise
        size[trees] = np.where(good, 1.0, size[trees] / 2)
        settled[gained] = next_promise / 2 <= SETTLED * tolerance
        moving = moving & ~settled & (size >= SMALLEST_STEP)
    return _Climbed(at, shape, settled)


def _newton_step(at: Lognormals, shape: Shape) -> tuple[Lognormals, FloatArray]:
    """An ascent step for every tree, and the gain that the slope alone promises for it, (trees,).

    Locations: the curvature's inverse times the slope. Scales: 1/σ² is the mean curvature at the best place.
    """
    scale = np.exp(at.log_scale)
    finite = np.where(np.isfinite(shape.curvature), shape.curvature, 0.0)
    values, vectors = np.linalg.eigh(finite)  # where the bound is not concave, its mirror image is used
    values = np.abs(values)
    values = np.maximum(values, LEAST_CURVATURE * values.max(axis=1, keepdims=True) + 1e-12)
    along = (vectors.transpose(0, 2, 1) @ shape.slope[:, :, None]) / values[:, :, None]
    location = scale * (vectors @ along)[:, :, 0]
    location /= np.maximum(np.abs(location).max(axis=1, keepdims=True) / LONGEST_STEP, 1.0)
    diagonal = np.diagonal(finite, axis1=1, axis2=2)
    bounded = np.clip(-diagonal, np.exp(-2 * LARGEST_RESCALING), np.exp(2 * LARGEST_RESCALING))
    log_scale = -0.5 * np.log(bounded)
    promise = (location * shape.slope / scale + log_scale * (diagonal + 1.0)).sum(axis=1)
    return Lognormals(location, log_scale), promise


def _lost_between(first: Lognormals, second: Lognormals, shape: Shape) -> FloatArray:
    """How much the bound drops from its maximum `second` to `first`, to second order, (trees,)."""
    location = (first.location - second.location) / np.exp(second.log_scale)
    log_scale = first.log_scale - second.log_scale
    bent = -(location[:, None] @ shape.curvature @ location[:, :, None])[:, 0, 0] / 2
    lost: FloatArray = np.maximum(bent, 0.0) + (log_scale**2).sum(axis=1)
    return lost


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

    amortized: FloatArray  # with the model's lognormals
    amortized_error: FloatArray
    best: FloatArray  # with the best lognormals for the tree
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

    The best lognormals are found to within `tolerance` nats, with separate random numbers.
    """
    if samples < 4:
        raise BadArgument(f"amortisation gaps: {samples} samples. Give at least 4.")
    if not len(topologies):
        raise BadArgument("amortisation gaps: no topologies given.")
    if branches.family is not Lognormal:
        raise BadArgument("amortisation gaps: the model's branch lengths are not lognormal.")
    with torch.no_grad():
        parameters = branches.branch_parameters(topologies)
    size = max(1, CURVATURES // topologies.branch_count**2)
    parts = []
    for first in range(0, len(topologies), size):
        block = topologies[first : first + size]
        tell = _part_of(progress, first / len(topologies), len(block) / len(topologies))
        fit = optimize_lognormals(
            block,
            target,
            parameters[first : first + size],
            stream=stream.named("optimum"),
            tolerance=tolerance,
            progress=_part_of(tell, 0.0, OPTIMIZING),
        )
        both = [Lognormals.of(parameters[first : first + size]), Lognormals.of(fit.parameters)]
        amortized, best = _pair_bounds(
            block, target, both, samples // 2, stream.at(first), _part_of(tell, OPTIMIZING, 1 - OPTIMIZING)
        )
        estimates = (_mean_and_error(pairs) for pairs in (amortized, best, best - amortized))
        parts.append([column for estimate in estimates for column in estimate] + [fit.shortfall, fit.converged])
    return AmortizationGaps(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _pair_bounds(
    topologies: TopologyBatch,
    target: TreePosterior,
    several: list[Lognormals],
    pairs: int,
    stream: RandomStream,
    progress: Progress,
) -> list[FloatArray]:
    """For each of several sets of lognormals independent estimates of the trees' bounds, (pairs, trees).

    An estimate is the mean of two log weights with opposite noise, in which all odd terms cancel, minus a quadratic
    form in the noise that approximates the log weight and has mean zero, as its coefficients come from separate noise
    (a control variate). Together this saves about three of four samples on DS1.
    """
    trees, branches = len(topologies), topologies.branch_count
    control = even_noise(CONTROL_PAIRS * max(branches, 16), branches, stream=stream.named("control"))
    forms = [measure_shape(target, topologies, each, control).curvature + np.eye(branches) for each in several]
    bounds = [np.empty((pairs, trees)) for _ in several]
    chunk = samples_at_a_time(topologies)
    key = stream.named("bounds").key()
    for first in range(0, pairs, chunk):
        last = min(first + chunk, pairs)
        noise = np.empty((last - first, trees, branches))
        fill_normal_rows(key, first * trees, stream.step, noise.reshape(-1, branches))
        for each, form, bound in zip(several, forms, bounds, strict=True):
            opposite = [weigh(target, topologies, each, sign * noise).log_weights for sign in (1, -1)]
            bound[first:last] = (opposite[0] + opposite[1]) / 2 - _form_of(noise, form)
        progress(last / pairs)
    return bounds


def _form_of(noise: FloatArray, form: FloatArray) -> FloatArray:
    """½ (εᵀ M ε - trace M) for noise (pairs, trees, branches) and forms (trees, branches, branches), (pairs, trees)."""
    product = noise.transpose(1, 0, 2) @ form  # (trees, pairs, branches)
    squares = (product.transpose(1, 0, 2) * noise).sum(axis=2)
    values: FloatArray = (squares - np.trace(form, axis1=1, axis2=2)) / 2
    return values


def _mean_and_error(pairs: FloatArray) -> tuple[FloatArray, FloatArray]:
    with np.errstate(invalid="ignore"):  # a bound of -inf has no error
        return pairs.mean(axis=0), pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs))


def _part_of(progress: Progress | None, start: float, length: float) -> Progress:
    """Progress of a part of the work, as progress of the whole."""
    return lambda share: progress(start + length * share) if progress else None
