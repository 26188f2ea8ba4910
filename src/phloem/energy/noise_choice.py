"""From a sample and a name to the noise that the sample is told apart from."""

import numpy as np

from phloem.config.density import DensityConfig
from phloem.energy.noise import ListedNoise, Noise, SubsplitNoise, UniformNoise
from phloem.trees.generation import nni_neighbors
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.variational.fitting import fit_network

NEIGHBOR_SHARE = 0.05
MOST_NEIGHBORS = 500_000  # trees: those of the most frequent topologies
TOLERANCE = 1e-4  # of EM, in nats: noise need not be fitted to the last digit


def choose_noise(sample: TreeSample, config: DensityConfig) -> Noise:
    """The noise that the config names, for a sample."""
    if config.noise == "uniform":
        return UniformNoise(len(sample.taxa))
    if config.noise == "listed":
        return ListedNoise(sample.topologies)
    fit = fit_network(with_neighbors(sample, NEIGHBOR_SHARE), tolerance=TOLERANCE)
    return SubsplitNoise(fit.network, config.uniform_share)


def choose_base(noise: Noise, config: DensityConfig) -> Noise:
    """What the energy is relative to: the noise, or, if the config says so, all topologies alike."""
    return UniformNoise(noise.taxon_count) if config.noise == "sbn" and config.base == "uniform" else noise


def with_neighbors(sample: TreeSample, share: float, most: int = MOST_NEIGHBORS) -> TreeSample:
    """The sample's distinct topologies, and for a share of the weight those one interchange away from them.

    A network that is fitted to the sample alone gives nothing just beside its support. There the density would never
    be looked at, and all that the data say is that it is low.
    """
    observed = sample.distinct().normalized()
    observed = observed[np.argsort(-observed.weights, kind="stable")]
    observed = observed[observed.weights > 0]
    each = 2 * (len(sample.taxa) - 3)
    centers = observed[: max(1, most // max(1, each))]
    around = nni_neighbors(centers.topologies)
    if not len(around):  # three taxa have one topology
        return observed
    weights = np.repeat(centers.weights / centers.weights.sum(), each) / each
    return TreeSample(
        sample.taxa,
        TopologyBatch.concatenate([observed.topologies, around]),
        np.concatenate([(1 - share) * observed.weights, share * weights]),
        None,
    ).distinct()
