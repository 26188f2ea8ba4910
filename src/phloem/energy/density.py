"""A trained density: log-probabilities of topologies that sum to one, and the normaliser that makes them so."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.config.density import DensityConfig
from phloem.energy.model import Unnormalized
from phloem.energy.noise import ListedNoise, Noise
from phloem.errors import TrainingFailed
from phloem.inference.diagnostics import effective_sample_size, log_mean_error, pareto_shape
from phloem.random_streams import RandomStream
from phloem.trees.generation import LARGEST_ENUMERATION, numbered_topologies, topology_count
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch

HEAVIEST_TAIL = 0.7
ENOUGH_ALIKE = 0.5  # effective draws, as a share of all: no single one can matter much
NOISE_CHUNK = 10_000  # trees of the noise at a time, so that many take little memory
CHUNK = 20_000  # topologies of an enumeration at a time, so that millions take little memory
Progress = Callable[[float], None]


class Normalizer(NamedTuple):
    """What is to be taken off a density's logarithms for it to sum to one, and how well it is known."""

    log_value: float
    error: float  # standard error; 0 for a sum over all topologies
    topologies: int | None  # that were summed, None where draws were
    draws: int = 0
    effective_draws: float = math.nan
    pareto_shape: float | None = None  # of the weights

    @property
    def is_exact(self) -> bool:
        return self.topologies is not None

    @property
    def is_reliable(self) -> bool:
        """Whether its error can be believed: weights that are nearly alike, or have a tail that is not too heavy."""
        alike = self.effective_draws >= ENOUGH_ALIKE * self.draws
        return self.is_exact or alike or (self.pareto_shape is not None and self.pareto_shape <= HEAVIEST_TAIL)

    def as_json(self) -> dict[str, Any]:
        """Plain numbers; what was not measured is null."""
        found = self._asdict()
        found["effective_draws"] = None if math.isnan(self.effective_draws) else self.effective_draws
        return {"method": "sum" if self.is_exact else "importance", **found, "reliable": self.is_reliable}


def estimate(
    density: Unnormalized,
    noise: Noise,
    draws: int,
    *,
    stream: RandomStream,
    progress: Callable[[float], None] | None = None,
) -> Normalizer:
    """Ẑ = mean of q/p_noise over draws of the noise, with the standard error of its logarithm."""
    parts = []
    for start in range(0, draws, NOISE_CHUNK):
        drawn = noise.draw(min(NOISE_CHUNK, draws - start), stream=stream.at(stream.step, start))
        parts.append(density.log_density(drawn.topologies) - drawn.log_prob)
        if progress:
            progress((start + len(parts[-1])) / draws)
    log_weights = np.concatenate(parts)
    return Normalizer(
        log_sum(log_weights) - math.log(draws),
        log_mean_error(log_weights),
        None,
        draws,
        effective_sample_size(log_weights),
        pareto_shape(log_weights),
    )


def log_sum(logarithms: FloatArray) -> float:
    """log Σ exp, without overflow; of a model that gives no numbers any more there is none."""
    with np.errstate(invalid="ignore"):
        value = float(np.logaddexp.reduce(logarithms))
    if not math.isfinite(value):
        raise TrainingFailed(
            "density: the model gives no finite numbers any more. Use a lower learning rate (--rate 0.0003)."
        )
    return value


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
