"""Noise for contrastive estimation: distributions over topologies that can be sampled and have known probabilities."""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple, final

import numpy as np
import torch

from phloem.arrays import FloatArray, LongArray
from phloem.config.density import DensityConfig
from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies, topology_count
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch, TopologyIndex
from phloem.variational.fitting import fit_network
from phloem.variational.sbn import SubsplitNetwork

MOST_TAXA_TO_LIST = 8  # with 10,395 topologies, whose raw features take 5 MB
PSEUDO_COUNT = 1e-6  # of every subsplit, as a share of the sample


class NoiseDraw(NamedTuple):
    """Topologies with their log-probabilities."""

    topologies: TopologyBatch
    log_prob: FloatArray  # (batch,)


class Noise(ABC):
    """A distribution over topologies on n taxa.

    If it gives only a few topologies, all equally probable, `listed` has them, and `places` draws from the list without
    building trees.
    """

    taxon_count: int
    listed: TopologyBatch | None = None

    @abstractmethod
    def draw(self, count: int, *, stream: RandomStream) -> NoiseDraw:
        """Independent topologies, drawn with the stream's random numbers."""

    @abstractmethod
    def log_prob(self, topologies: TopologyBatch) -> FloatArray:
        """Log-probabilities, (batch,); -inf for topologies that it never gives."""

    def places(self, count: int, *, stream: RandomStream) -> LongArray:
        """Draws as places in `listed`."""
        assert self.listed is not None
        return stream.generator().integers(len(self.listed), size=count)


@final
class UniformNoise(Noise):
    """The uniform distribution over all topologies."""

    def __init__(self, taxon_count: int) -> None:
        self.taxon_count = taxon_count
        self.listed = all_topologies(taxon_count) if taxon_count <= MOST_TAXA_TO_LIST else None
        self._log_prob = -math.log(topology_count(taxon_count))

    def draw(self, count: int, *, stream: RandomStream) -> NoiseDraw:
        """Uniform topologies."""
        return NoiseDraw(random_topologies(self.taxon_count, count, stream=stream), np.full(count, self._log_prob))

    def log_prob(self, topologies: TopologyBatch) -> FloatArray:
        """-log (2n-5)!!."""
        return np.full(len(topologies), self._log_prob)


@final
class ListedNoise(Noise):
    """The uniform distribution over some topologies."""

    listed: TopologyBatch

    def __init__(self, topologies: TopologyBatch) -> None:
        self.listed, _ = topologies.distinct()
        self.taxon_count = topologies.taxon_count
        self._index = TopologyIndex(self.listed)

    def draw(self, count: int, *, stream: RandomStream) -> NoiseDraw:
        """Topologies from the list."""
        places = self.places(count, stream=stream)
        return NoiseDraw(self.listed[places], np.full(count, -math.log(len(self.listed))))

    def log_prob(self, topologies: TopologyBatch) -> FloatArray:
        """Minus the logarithm of the list's length; -inf for topologies that are not in it."""
        found = self._index.find(topologies) >= 0
        return np.where(found, -math.log(len(self.listed)), -np.inf)


@final
class SubsplitNoise(Noise):
    """A subsplit network mixed with a small share of the uniform distribution.

    A network alone gives nothing outside its support, where the density could then rise unnoticed.
    """

    def __init__(self, network: SubsplitNetwork, uniform_share: float) -> None:
        if not 0 < uniform_share < 1:
            raise BadArgument(f"noise: a uniform share of {uniform_share:g}. Give one between 0 and 1.")
        self.network = network
        self.taxon_count = len(network.support.taxa)
        self.uniform_share = uniform_share
        self._log_uniform = math.log(uniform_share) - math.log(topology_count(self.taxon_count))

    def draw(self, count: int, *, stream: RandomStream) -> NoiseDraw:
        """Topologies from the network, some of them replaced by uniform ones."""
        topologies = self.network.sample(count, stream=stream.named("network"))
        replaced = np.flatnonzero(stream.named("share").generator().random(count) < self.uniform_share)
        if len(replaced):
            others = random_topologies(self.taxon_count, len(replaced), stream=stream.named("uniform"))
            parents = topologies.parent.copy()
            parents[replaced] = others.parent
            topologies = TopologyBatch.from_canonical(parents)
        return NoiseDraw(topologies, self.log_prob(topologies))

    def log_prob(self, topologies: TopologyBatch) -> FloatArray:
        """log ((1-ε)·Q(τ) + ε/(2n-5)!!)."""
        with torch.no_grad():
            inside = self.network.log_prob(topologies).numpy()
        mixed: FloatArray = np.logaddexp(math.log1p(-self.uniform_share) + inside, self._log_uniform)
        return mixed


def choose_noise(sample: TreeSample, config: DensityConfig) -> Noise:
    """The noise named by the config, for a sample."""
    if config.noise == "uniform":
        return UniformNoise(len(sample.taxa))
    if config.noise == "listed":
        return ListedNoise(sample.topologies)
    fit = fit_network(sample, smoothing=PSEUDO_COUNT)
    return SubsplitNoise(fit.network, config.uniform_share)


def choose_base(noise: Noise, config: DensityConfig) -> Noise:
    """What the energy is relative to: the noise or, if the config says so, the uniform distribution."""
    return UniformNoise(noise.taxon_count) if config.noise == "sbn" and config.base == "uniform" else noise
