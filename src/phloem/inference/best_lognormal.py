"""The best diagonal lognormal for the branch lengths of each of many topologies.

For fixed noise the bound is a smooth function of the numbers, maximised by Newton steps whose curvature comes from the
same samples. How far the noise leads astray is seen from a second, independent set of noise: the second set's bound is
lower at the first set's optimum than at its own by twice what either optimum loses, as each strays on its own. The
middle of both loses less than either, and is taken.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from torch import Tensor

from phloem.errors import BadArgument
from phloem.inference.lognormal_weights import Lognormals, Shape, even_noise, measure_shape
from phloem.kernels.arrays import BoolArray, FloatArray
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.trees.topology import TopologyBatch

FEWEST_PAIRS = 64  # of samples in a set of noise, or twice as many as there are branches
MOST_ROUNDS = 5  # each with twice the noise of the one before
MOST_EVALUATIONS = 60  # for one set of noise
USUAL_EVALUATIONS = (10, 4)  # for the first set, and for each of the others
USUAL_ROUNDS = 2
SETTLED = 0.1  # of the tolerance: a tree rests when its next step promises less
LONGEST_STEP = 1.0  # in the logarithm of a length
LARGEST_RESCALING = 0.5  # in the logarithm of a scale
LEAST_CURVATURE = 0.02  # of the largest: directions that are flatter count as this much curved
ENOUGH = 1e-4  # of the gain that the slope promises (Armijo)
SMALLEST_STEP = 1e-3

Progress = Callable[[float], None]


class LognormalFit(NamedTuple):
    """The best numbers found for each topology, as `Lognormal` takes them."""

    numbers: Tensor  # (trees, 2n-3, 2)
    shortfall: FloatArray  # (trees,)  how much higher the best bound is at most, by estimate
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
    """Maximise E[log p(Y, τ, q) - log Q(q given τ)] over the numbers of each topology's lognormals, from `start`.

    start: (trees, 2n-3, 2), as a branch model gives them. All trees are moved together. Those whose bound can still
    grow by more than `tolerance` nats, by estimate, go on with twice the noise, and count as not converged at the end.
    """
    if not 0 < tolerance <= 1:
        raise BadArgument(f"best lognormals: a tolerance of {tolerance:g}. It must be above 0, and 1 nat at most.")
    trees, branches = len(topologies), topologies.branch_count
    best = Lognormals.of(start)
    if best.location.shape != (trees, branches):
        raise BadArgument(f"best lognormals: numbers of shape {tuple(start.shape)} for {trees} trees.")
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
    return LognormalFit(best.numbers(), shortfall, converged)


class _Climbed(NamedTuple):
    """Where the bound of one set of noise is highest."""

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
    """Newton steps, each tree with a step size of its own, all trees that still move in one evaluation."""
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
    """An uphill step for every tree, and the gain that the slope alone promises for it, (trees,).

    Locations: the curvature's inverse times the slope. Scales: 1/σ² is the mean curvature at the best place.
    """
    scale = np.exp(at.log_scale)
    finite = np.where(np.isfinite(shape.curvature), shape.curvature, 0.0)
    values, vectors = np.linalg.eigh(finite)  # where the bound is not concave, its mirror image is climbed
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
    """How much lower than at its maximum `second` its bound is at `first`, to second order, (trees,)."""
    location = (first.location - second.location) / np.exp(second.log_scale)
    log_scale = first.log_scale - second.log_scale
    bent = -(location[:, None] @ shape.curvature @ location[:, :, None])[:, 0, 0] / 2
    lost: FloatArray = np.maximum(bent, 0.0) + (log_scale**2).sum(axis=1)
    return lost


class _Work:
    """How much of the usual work is done."""

    def __init__(self, pairs: int, progress: Progress | None) -> None:
        first, other = USUAL_EVALUATIONS
        rounds = sum(2**number for number in range(USUAL_ROUNDS))
        self._usual = 2 * pairs * (first - other + 2 * other * rounds)
        self._spent = 0.0
        self._progress = progress

    def done(self, noise: FloatArray, share: float) -> None:
        """All samples of a set were weighed for a share of the trees."""
        self._spent += share * len(noise)
        if self._progress:
            self._progress(min(0.99, self._spent / self._usual))
