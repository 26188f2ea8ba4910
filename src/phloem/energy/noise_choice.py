"""From a sample and a name to the noise that the sample is told apart from."""

from phloem.config.density import DensityConfig
from phloem.energy.noise import ListedNoise, Noise, SubsplitNoise, UniformNoise
from phloem.trees.sample import TreeSample
from phloem.variational.fitting import fit_network

PSEUDO_COUNT = 1e-6  # of every subsplit, as a share of the sample


def choose_noise(sample: TreeSample, config: DensityConfig) -> Noise:
    """The noise that the config names, for a sample."""
    if config.noise == "uniform":
        return UniformNoise(len(sample.taxa))
    if config.noise == "listed":
        return ListedNoise(sample.topologies)
    fit = fit_network(sample, smoothing=PSEUDO_COUNT)
    return SubsplitNoise(fit.network, config.uniform_share)


def choose_base(noise: Noise, config: DensityConfig) -> Noise:
    """What the energy is relative to: the noise, or, if the config says so, all topologies alike."""
    return UniformNoise(noise.taxon_count) if config.noise == "sbn" and config.base == "uniform" else noise
