"""A trained density: log-probabilities of topologies that, all together, sum to one."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phloem.energy.model import Unnormalized
from phloem.energy.noise import MOST_TAXA_TO_LIST, ListedNoise, Noise
from phloem.energy.normalization import Normalizer, estimate, log_sum, sum_all
from phloem.kernels.arrays import FloatArray
from phloem.random_streams import RandomStream
from phloem.trees.generation import LARGEST_ENUMERATION, all_topologies, numbered_topologies, topology_count
from phloem.trees.topology import TopologyBatch

CHUNK = 20_000  # topologies of an enumeration at a time, so that millions take little memory

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, eq=False)
class TreeDensity:
    """q(τ) = base(τ)·exp(-F(τ)) / Z over all topologies of the taxa or, with listed noise, over those of the list."""

    taxa: tuple[str, ...]
    unnormalized: Unnormalized
    noise: Noise
    normalizer: Normalizer

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


def quick_normalizer(noise: Noise, draws: int) -> Callable[[Unnormalized, RandomStream], Normalizer]:
    """log Z for the reports of a training: a sum only over few topologies."""
    listed = all_topologies(noise.taxon_count) if noise.taxon_count <= MOST_TAXA_TO_LIST else None
    if isinstance(noise, ListedNoise):
        listed = noise.listed
    if listed is not None:
        return lambda density, _stream: sum_all(density, listed)
    return lambda density, stream: estimate(density, noise, draws, stream=stream)
