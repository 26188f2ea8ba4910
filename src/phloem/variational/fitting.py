"""Maximum likelihood for subsplit networks: from a weighted tree sample to probabilities of trees it never saw."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch

from phloem.errors import BadArgument
from phloem.kernels import sbn
from phloem.kernels.arrays import FloatArray
from phloem.trees.sample import TreeSample
from phloem.variational.collection import collect_support
from phloem.variational.sbn import SubsplitNetwork, count_entries, log_rootings
from phloem.variational.support import SubsplitSupport

Method = Literal["em", "average"]
METHODS: tuple[Method, ...] = ("em", "average")


class FitStep(NamedTuple):
    """Where a fit stands after some iterations of EM; iteration 0 is simple averaging."""

    iteration: int
    log_likelihood: float  # mean over the sample, by weight
    objective: float  # with the logarithm of the Dirichlet prior; never falls


@dataclass(frozen=True, slots=True)
class SubsplitFit:
    """A network fitted to a sample, and how it got there."""

    network: SubsplitNetwork
    steps: tuple[FitStep, ...]
    converged: bool


def fit_network(
    sample: TreeSample,
    *,
    method: Method = "em",
    smoothing: float = 0.0,
    tolerance: float = 1e-6,
    most_iterations: int = 10_000,
    progress: Callable[[FitStep], None] | None = None,
) -> SubsplitFit:
    """Fit a network on the support of a sample's trees, those of weight zero left out (Zhang & Matsen 2018).

    The data are unrooted and the network's trees rooted. "average" counts every rooting of a tree the same; "em"
    starts there and then weighs rootings by their probability, again and again, until the objective rises by less
    than `tolerance`. `smoothing` is a pseudo-count for every table entry, as a share of the sample: it gives the mode
    under a Dirichlet prior, which keeps rare subsplits from probability zero.
    """
    if method not in METHODS:
        raise BadArgument(f"method {method}: choose one of {', '.join(METHODS)}.")
    if not 0 <= smoothing <= 1:
        raise BadArgument(f"smoothing {smoothing:g}: it is a share of the sample. Give a number from 0 to 1.")
    if not (tolerance > 0 and most_iterations >= 1):
        raise BadArgument(f"tolerance {tolerance:g}, {most_iterations} iterations: both must be positive.")
    observed = sample.normalized().distinct()
    observed = observed[observed.weights > 0]
    support = collect_support([observed])
    located = support.locate(observed.topologies)

    rootings = observed.topologies.branch_count
    shares = np.full((len(observed), rootings), 1 / rootings)
    steps: list[FitStep] = []
    while True:
        counts = count_entries(support, located, shares, observed.weights)
        network = SubsplitNetwork(support, _most_likely_logits(support, counts[: support.parameter_count] + smoothing))
        tables = network.tables()
        log_probs, shares = sbn.sum_rootings(log_rootings(located, tables))
        log_likelihood = float(observed.weights @ log_probs)
        parameters = tables.log_probabilities[: support.parameter_count]
        log_prior = float(smoothing * parameters.sum()) if smoothing else 0.0
        steps.append(FitStep(len(steps), log_likelihood, log_likelihood + log_prior))
        if progress:
            progress(steps[-1])
        converged = len(steps) > 1 and steps[-1].objective - steps[-2].objective < tolerance
        if method == "average" or converged or len(steps) > most_iterations:
            return SubsplitFit(network, tuple(steps), converged or method == "average")


def _most_likely_logits(support: SubsplitSupport, counts: FloatArray) -> torch.Tensor:
    """Logarithms of how often each entry is used; a table that has become too rare for any count is uniform."""
    starts = support.free_starts
    unused = sbn.sum_tables(counts, starts) == 0
    with np.errstate(divide="ignore"):
        logits = np.log(counts)
    logits[np.repeat(unused, np.diff(starts))] = 0
    return torch.from_numpy(logits)
