"""Trained densities: normalised log-probabilities of topologies, and estimates of the normaliser."""

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

HEAVIEST_TAIL = 0.7  # Pareto k̂ up to which an error can be believed
ENOUGH_ALIKE = 0.5  # effective draws as a share of all: no single draw matters much
NOISE_CHUNK = 10_000  # draws of the noise at a time, so that many take little memory
CHUNK = 20_000  # topologies of an enumeration at a time, so that millions take little memory
Progress = Callable[[float], None]


class Normalizer(NamedTuple):
    """log Z, which is subtracted from unnormalised log-densities, and how well it is known."""

    log_value: float
    error: float  # standard error; 0 for a sum over all topologies
    topologies: int | None  # summed over; None if it was estimated from draws
    draws: int = 0
    effective_draws: float = math.nan
    pareto_shape: float | None = None  # of the weights

    @property
    def is_exact(self) -> bool:
        return self.topologies is not None

    @property
    def is_reliable(self) -> bool:
        """Whether its error can be believed: it is exact, or the weights are nearly alike or not too heavy-tailed."""
        alike = self.effective_draws >= ENOUGH_ALIKE * self.draws
        return self.is_exact or alike or (self.pareto_shape is not None and self.pareto_shape <= HEAVIEST_TAIL)

    def as_json(self) -> dict[str, Any]:
        """Its values; null for what was not measured."""
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
    """log Σ exp, without overflow; raises if the model has diverged."""
    with np.errstate(invalid="ignore"):
        value = float(np.logaddexp.reduce(logarithms))
    if not math.isfinite(value):
        raise TrainingFailed(
            "density: the model has diverged to values that are not finite. Use a lower learning rate (--rate)."
        )
    return value


@dataclass(frozen=True, slots=True, eq=False)
class TreeDensity:
    """q(τ) = base(τ)·exp(-F(τ)) / Z over all topologies on the taxa or, with listed noise, over the list."""

    config: DensityConfig
    observed: TreeSample  # what it was fitted to: distinct topologies with weights that sum to one
    unnormalized: Unnormalized
    noise: Noise
    normalizer: Normalizer

    @property
    def taxa(self) -> tuple[str, ...]:
        return self.observed.taxa

    def log_prob(self, topologies: TopologyBatch) -> FloatArray:
        """log q(τ), (batch,); with listed noise, -inf for topologies that are not in the list."""
        return self.unnormalized.log_density(topologies) - self.normalizer.log_value


def is_enumerable(noise: Noise) -> bool:
    """Whether all topologies with positive density under this noise can be enumerated."""
    return isinstance(noise, ListedNoise) or noise.taxon_count <= LARGEST_ENUMERATION


def enumerate_density(density: Unnormalized, noise: Noise, progress: Progress | None = None) -> FloatArray:
    """Unnormalised log q of the listed topologies, or of all in the order of `all_topologies`."""
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
    """log Z: by a sum over all topologies if they can be enumerated, else estimated from draws of the noise."""
    if is_enumerable(noise):
        values = enumerate_density(density, noise, progress)
        return Normalizer(log_sum(values), 0.0, len(values))
    return estimate(density, noise, draws, stream=stream, progress=progress)
