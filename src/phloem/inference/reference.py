"""Against a reference sample, such as MrBayes': how far is the posterior from it?"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from phloem.kernels.arrays import FloatArray
from phloem.trees.comparison import SplitDeviation, split_deviation, total_variation
from phloem.trees.credible import credible_set_size
from phloem.trees.sample import TreeSample
from phloem.trees.splits import split_frequencies
from phloem.variational.sbn import SubsplitNetwork


class ReferenceComparison(NamedTuple):
    """Distances to a reference p. Q(τ) is what the networks say; `weighted` is of the draws with their weights."""

    topologies: int  # distinct ones in the reference
    outside_support: float  # the reference's probability on topologies that no network can generate
    divergence: float | None  # KL of p, renormalised on the support, to Q(τ); None if all of p is outside
    total_variation: float  # between p and Q(τ)
    weighted_total_variation: float
    weighted_splits: SplitDeviation
    credible_sets: tuple[int, int]  # topologies in the 95 % credible sets: the reference's, the weighted draws'


def compare_with_reference(
    reference: TreeSample, networks: Sequence[SubsplitNetwork], shares: Sequence[float], posterior: TreeSample
) -> ReferenceComparison:
    """Compare networks, mixed by their shares, and the weighted topologies of their draws with a reference.

    All are of the same taxa in the same order.
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
        outside_support=1 - covered,
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
