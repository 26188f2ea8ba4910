"""Tree probabilities from a tree sample: fit a subsplit network, and score trees with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.storage.files import check_can_write
from phloem.tasks.support import list_tree_files, read_samples, refuse_overwriting
from phloem.trees.sample import TreeSample, group_rows, pool
from phloem.variational.fitting import FitIteration, Method, fit_network
from phloem.variational.sbn import read_network, write_network

CHUNK = 10_000  # trees scored at a time, so that many take little memory


class FitSummary(NamedTuple):
    """What was fitted and written."""

    taxa: int
    topologies: int
    splits_left_out: int  # with them a closed support would be too large
    parameters: int
    iterations: int
    converged: bool
    log_likelihood: float  # mean over the sample, by weight


def fit_trees(
    sources: Sequence[str | Path],
    out: Path,
    *,
    method: Method,
    smoothing: float,
    closure: str = "none",
    burnin: int | float = 0,
    progress: Callable[[FitIteration], None] | None = None,
) -> FitSummary:
    """Fit a network to the trees of some files, each file counting the same, and write it."""
    refuse_overwriting(out, list_tree_files(sources))
    check_can_write(out)
    sample = pool(read_samples(sources, burnin=burnin))
    fit = fit_network(sample, method=method, smoothing=smoothing, closure=closure, progress=progress)
    write_network(fit.network, out)
    support = fit.network.support
    return FitSummary(
        taxa=len(support.taxa),
        topologies=support.topology_count,
        splits_left_out=support.splits_left_out,
        parameters=support.parameter_count,
        iterations=fit.iterations[-1].iteration,
        converged=fit.converged,
        log_likelihood=fit.iterations[-1].log_likelihood,
    )


@dataclass(frozen=True, slots=True)
class TreeScores:
    """Log-probabilities of trees in file order, and how the network compares with the sample as a whole."""

    sample: TreeSample  # with weights that sum to one
    log_probabilities: FloatArray  # (trees,)  -inf outside the support
    topologies: int  # distinct ones
    coverage: float  # share of the sample's weight within the support
    total_probability: float  # of the distinct topologies
    divergence: float | None  # Kullback–Leibler, from the sample to the network; None where it is infinite

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers; a probability of zero has no logarithm and gives null."""
        logs = [value if np.isfinite(value) else None for value in self.log_probabilities.tolist()]
        weights = self.sample.weights.tolist()
        return {
            "trees": [{"log_probability": log, "weight": w} for log, w in zip(logs, weights, strict=True)],
            "topologies": self.topologies,
            "coverage": self.coverage,
            "total_probability": self.total_probability,
            "divergence": self.divergence,
        }


def score_trees(network_file: Path, sources: Sequence[str | Path], *, burnin: int | float = 0) -> TreeScores:
    """Log-probabilities of the trees of some files under a fitted network."""
    network = read_network(network_file)
    sample = pool(read_samples(sources, taxa=network.support.taxa, burnin=burnin))
    chunks = [sample.topologies[start : start + CHUNK] for start in range(0, len(sample), CHUNK)]
    logs = np.concatenate([network.log_prob(chunk).detach().numpy() for chunk in chunks])
    first, group = group_rows(sample.topologies.parent)
    weights = np.bincount(group, weights=sample.weights)
    distinct = logs[first]
    observed = weights > 0
    inside = np.isfinite(distinct)
    divergence = None
    if inside[observed].all():
        divergence = float(weights[observed] @ (np.log(weights[observed]) - distinct[observed]))
    return TreeScores(
        sample=sample,
        log_probabilities=logs,
        topologies=len(first),
        coverage=float(weights[inside].sum()),
        total_probability=float(np.exp(distinct).sum()),
        divergence=divergence,
    )
