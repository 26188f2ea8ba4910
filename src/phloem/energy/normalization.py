"""log Z: summed over all topologies where they are few, else estimated by importance sampling."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phloem.energy.model import Unnormalized
from phloem.energy.noise import Noise
from phloem.errors import TrainingFailed
from phloem.inference.diagnostics import effective_sample_size, log_mean_error, pareto_shape
from phloem.kernels.arrays import FloatArray
from phloem.random_streams import RandomStream

HEAVIEST_TAIL = 0.7
ENOUGH_ALIKE = 0.5  # effective draws, as a share of all: no single one can matter much
CHUNK = 10_000  # trees of the noise at a time, so that many take little memory


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
    for start in range(0, draws, CHUNK):
        drawn = noise.draw(min(CHUNK, draws - start), stream=stream.at(stream.step, start))
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
