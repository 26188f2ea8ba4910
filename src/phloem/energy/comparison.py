"""A density compared with other estimates from the same tree sample: its frequencies, and subsplit networks."""

import math
from typing import Final, NamedTuple

import numpy as np
import torch

from phloem.arrays import FloatArray
from phloem.energy.density import TreeDensity
from phloem.energy.noise import PSEUDO_COUNT
from phloem.errors import BadArgument
from phloem.trees.generation import topology_count
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyIndex
from phloem.variational.fitting import Method, fit_network

NAMES: Final[dict[Method, str]] = {"average": "SBN-SA", "em": "SBN-EM"}


class Compared(NamedTuple):
    """How well an estimate predicts held-out trees."""

    estimate: str
    log_probability: float  # weighted mean over the trees
    divergence: float  # Kullback–Leibler, from the trees' own frequencies


def compare(density: TreeDensity, held_out: TreeSample, smoothing: float) -> tuple[Compared, ...]:
    """The density, the frequencies of the sample that it was fitted to, and subsplit networks fitted to that sample.

    smoothing: the share of every other estimate that is spread uniformly over all topologies, so that no tree has
    probability zero. SBN-SA counts all rootings alike, SBN-EM maximises the likelihood.
    """
    if not 0 < smoothing < 1:
        raise BadArgument(f"--smoothing {smoothing:g}: give a share between 0 and 1.")
    trees = held_out.normalized().distinct()
    trees = trees[trees.weights > 0]
    estimates = {"energy": density.log_prob(trees.topologies)}
    log_uniform = math.log(smoothing) - math.log(topology_count(len(trees.taxa)))
    others = {"frequencies": _log_frequencies(density.observed, trees)}
    for method, name in NAMES.items():
        fit = fit_network(density.observed, method=method, smoothing=PSEUDO_COUNT)
        with torch.no_grad():
            others[name] = fit.network.log_prob(trees.topologies).numpy()
    for name, log_prob in others.items():
        estimates[name] = np.logaddexp(math.log1p(-smoothing) + log_prob, log_uniform)
    own = float(trees.weights @ np.log(trees.weights))
    means = {name: float(trees.weights @ log_prob) for name, log_prob in estimates.items()}
    return tuple(Compared(name, mean, own - mean) for name, mean in means.items())


def seen_share(sample: TreeSample, trees: TreeSample) -> float:
    """The share of the trees' weight on topologies of the sample."""
    known = sample[sample.weights > 0]
    seen = TopologyIndex(known.topologies).find(trees.topologies) >= 0
    return float(trees.normalized().weights[seen].sum())


def _log_frequencies(sample: TreeSample, trees: TreeSample) -> FloatArray:
    """The log weight in the sample of distinct topologies; -inf for those that it lacks."""
    places = TopologyIndex(sample.topologies).find(trees.topologies)
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(np.where(places >= 0, sample.weights[places], 0.0))
    return logs
