"""Agreement: between several runs, and with a reference sample such as MrBayes'."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from phloem.arrays import FloatArray
from phloem.inference.diagnostics import log_mean_error
from phloem.inference.draws import Draws, shares
from phloem.inference.particles import lower_bound
from phloem.trees.sample import TreeSample, credible_set_size
from phloem.trees.splits import SplitDeviation, split_deviation, split_frequencies, total_variation
from phloem.variational.sbn import SubsplitNetwork


class Measured(NamedTuple):
    """A value and its standard error."""

    value: float
    error: float


class Agreement(NamedTuple):
    """How well several runs agree."""

    log_marginal_likelihoods: tuple[Measured, ...]  # of each run, from all its draws
    shares: tuple[float, ...]  # of each run in the combined posterior
    difference: Measured  # between the largest and the smallest log marginal likelihood
    splits: SplitDeviation


def marginal_likelihood(draws: Draws) -> Measured:
    """log (1/S) Σw over all draws."""
    log_weights = draws.log_weights
    return Measured(float(lower_bound(log_weights)), log_mean_error(log_weights))


def compare_runs(runs: Sequence[Draws]) -> Agreement:
    """Compare the draws of several runs."""
    estimates = tuple(marginal_likelihood(run) for run in runs)
    values = [estimate.value for estimate in estimates]
    highest, lowest = int(np.argmax(values)), int(np.argmin(values))
    error = math.hypot(estimates[highest].error, estimates[lowest].error)
    frequencies = [split_frequencies(run.weighted().topology_sample()) for run in runs]
    return Agreement(
        log_marginal_likelihoods=estimates,
        shares=tuple(shares(np.array(values)).tolist()),
        difference=Measured(values[highest] - values[lowest], error if highest != lowest else 0.0),
        splits=split_deviation(frequencies),
    )


class ReferenceComparison(NamedTuple):
    """Distances from a reference p to the networks' Q(τ) and, where named `weighted`, to the weighted draws."""

    topologies: int  # distinct topologies in the reference
    outside_support: float  # the reference's probability on topologies that no network can generate
    divergence: float | None  # KL from p, renormalised on the support, to Q(τ); None if all of p is outside
    total_variation: float  # between p and Q(τ)
    weighted_total_variation: float
    weighted_splits: SplitDeviation
    credible_sets: tuple[int, int]  # topologies in the 95 % credible sets: the reference's, the weighted draws'


def compare_with_reference(
    reference: TreeSample, networks: Sequence[SubsplitNetwork], shares: Sequence[float], posterior: TreeSample
) -> ReferenceComparison:
    """Compare networks, mixed by their shares, and the weighted topologies of their draws with a reference.

    All must have the same taxa in the same order.
    """
    reference = reference.distinct().normalized()
    reference = reference[np.argsort(-reference.weights, kind="stable")]
    inside = np.logical_or.reduce([network.support.generates(reference.topologies) for network in networks])
    log_q = _mixture(reference, networks, shares)
    p = reference.weights
    covered = float(p[inside].sum())
    divergence = None
    if covered > 0:
        kept = inside & (p > 0)
        divergence = float(p[kept] / covered @ (np.log(p[kept] / covered) - log_q[kept]))
    q = np.exp(log_q)
    weighted = split_deviation([split_frequencies(sample) for sample in (reference, posterior)])
    return ReferenceComparison(
        topologies=len(reference),
        outside_support=max(0.0, 1 - covered),
        divergence=divergence,
        total_variation=0.5 * float(np.abs(p - q).sum() + max(0.0, 1 - q.sum())),
        weighted_total_variation=total_variation(reference, posterior),
        weighted_splits=weighted,
        credible_sets=(credible_set_size(p, 0.95), credible_set_size(posterior.weights, 0.95)),
    )


def _mixture(sample: TreeSample, networks: Sequence[SubsplitNetwork], shares: Sequence[float]) -> FloatArray:
    """log Σ_r share_r Q_r(τ) of every topology."""
    with torch.no_grad():
        parts = [
            network.log_prob(sample.topologies) + math.log(share)
            for network, share in zip(networks, shares, strict=True)
            if share > 0
        ]
        result: FloatArray = torch.logsumexp(torch.stack(parts), dim=0).numpy()
    return result
