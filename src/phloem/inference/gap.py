"""Amortisation gaps: what a branch model loses on a topology against the best lognormals for that topology alone."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from phloem.errors import BadArgument
from phloem.inference.best_lognormal import optimize_lognormals
from phloem.inference.lognormal_weights import (
    Lognormals,
    even_noise,
    measure_shape,
    samples_at_a_time,
    weigh,
)
from phloem.kernels.arrays import BoolArray, FloatArray
from phloem.kernels.philox import fill_normal_rows
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.trees.topology import TopologyBatch
from phloem.variational.branch_models import BranchModel
from phloem.variational.lognormal import Lognormal

CURVATURES = 4_000_000  # numbers in the curvatures of the trees of a block: 32 MB
CONTROL_PAIRS = 4  # pairs of samples for each branch that the control variates are made of
OPTIMIZING = 0.6  # of the time, roughly

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, eq=False)
class AmortizationGaps:
    """Bounds E[log p(Y, τ, q) - log Q(q given τ)] of each topology with their standard errors, all (trees,).

    The bounds of a tree have common random numbers, so that the gap, their difference, is better known than either.
    """

    amortized: FloatArray  # with the model's lognormals
    amortized_error: FloatArray
    best: FloatArray  # with the best ones for the tree
    best_error: FloatArray
    gap: FloatArray
    gap_error: FloatArray
    shortfall: FloatArray  # by how much the best bound may be higher still, by estimate
    converged: BoolArray  # whether that is within the tolerance

    def __len__(self) -> int:
        return len(self.gap)

    def average(self, weights: FloatArray | None = None) -> tuple[float, float]:
        """The mean gap and its standard error: of all trees alike, or by weight."""
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
    """The gap of each topology, all of which the model must know; `samples` sets of lengths weigh each bound.

    The best lognormals are found to within `tolerance` nats, with random numbers of their own.
    """
    if samples < 4:
        raise BadArgument(f"amortisation gaps: {samples} samples. Give at least 4.")
    if not len(topologies):
        raise BadArgument("amortisation gaps: no topologies.")
    if branches.family is not Lognormal:
        raise BadArgument("amortisation gaps: the model's branch lengths are not lognormal.")
    with torch.no_grad():
        numbers = branches.numbers(topologies)
    size = max(1, CURVATURES // topologies.branch_count**2)
    parts = []
    for first in range(0, len(topologies), size):
        block = topologies[first : first + size]
        tell = _part_of(progress, first / len(topologies), len(block) / len(topologies))
        fit = optimize_lognormals(
            block,
            target,
            numbers[first : first + size],
            stream=stream.named("optimum"),
            tolerance=tolerance,
            progress=_part_of(tell, 0.0, OPTIMIZING),
        )
        both = [Lognormals.of(numbers[first : first + size]), Lognormals.of(fit.numbers)]
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

    An estimate is the mean of two log weights with opposite noise, in which all odd terms cancel, without the
    quadratic form that the log weight nearly is in the noise. That form has mean zero, as its coefficients come from
    noise of their own. Together this saves about three of four samples on DS1.
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
    """Progress within a part of the work."""
    return lambda share: progress(start + length * share) if progress else None
