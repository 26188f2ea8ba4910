"""A trained density: log-probabilities of topologies that, all together, sum to one."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phloem.config.density import DensityConfig
from phloem.energy.model import Unnormalized
from phloem.energy.noise import ListedNoise, Noise
from phloem.energy.normalization import Normalizer, estimate, log_sum
from phloem.kernels.arrays import FloatArray
from phloem.random_streams import RandomStream
from phloem.trees.generation import LARGEST_ENUMERATION, numbered_topologies, topology_count
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch

CHUNK = 20_000  # topologies of an enumeration at a time, so that millions take little memory

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, eq=False)
class TreeDensity:
    """q(τ) = base(τ)·exp(-F(τ)) / Z over all topologies of the taxa or, with listed noise, over those of the list."""

    config: DensityConfig
    sample: TreeSample  # what it was fitted to: distinct topologies, with weights that sum to one
    unnormalized: Unnormalized
    noise: Noise
    normalizer: Normalizer

    @property
    def taxa(self) -> tuple[str, ...]:
        return self.sample.taxa

    def log_prob(self, topologies: TopologyBatch) -> FloatArray:
        """log q(τ), (batch,); -inf for topologies that are not in the list, where there is one."""
        return self.unnormalized.log_density(topologies) - self.normalizer.log_value


def is_enumerable(noise: Noise) -> bool:
    """Whether all topologies that a density with this noise is about can be gone through."""
    return isinstance(noise, ListedNoise) or noise.taxon_count <= LARGEST_ENUMERATION


def enumerate_density(density: Unnormalized, noise: Noise, progress: Progress | None = None) -> FloatArray:
    """log q, not normalised, of the listed topologies or of all, in the order of `all_topologies`; chunk by chunk."""
    if noise.listed is not None:
        return density.log_density(noise.listed)
    count = topology_count(noise.taxon_count)
    values = np.empty(count)
    for start in range(0, count, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, count))
        values[numbers] = density.log_density(numbered_topologies(noise.taxon_count, numbers))
        if progress:
            progress((numbers[-1] + 1) / count)
    return values


def normalize(
    density: Unnormalized, noise: Noise, draws: int, *, stream: RandomStream, progress: Progress | None = None
) -> Normalizer:
    """log Z: by a sum over all topologies where they can be gone through, else from so many draws of the noise."""
    if is_enumerable(noise):
        values = enumerate_density(density, noise, progress)
        return Normalizer(log_sum(values), 0.0, len(values))
    return estimate(density, noise, draws, stream=stream, progress=progress)
