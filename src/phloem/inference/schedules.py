"""What changes as training goes on: the temperature and the learning rates, as functions of the step alone."""

import math
from typing import NamedTuple, Protocol

from phloem.config import TrainingConfig


class Decaying(Protocol):
    """The settings of a learning rate that falls."""

    @property
    def steps(self) -> int: ...
    @property
    def decay(self) -> str: ...
    @property
    def stairs(self) -> int: ...
    @property
    def stair_factor(self) -> float: ...


class Settings(NamedTuple):
    """What holds during one step."""

    inverse_temperature: float
    branch_rate: float
    topology_rate: float


def settings_at(step: int, config: TrainingConfig) -> Settings:
    """The settings of step 1, 2, …, `config.steps`.

    The likelihood's exponent rises in a straight line to 1 over the share `ramp` of the run.
    """
    ramp = config.ramp * config.steps
    inverse_temperature = min(1.0, config.first_inverse_temperature + step / ramp) if ramp else 1.0
    rate = config.rate * decay_at(step, config)
    return Settings(inverse_temperature, rate, rate * config.topology_rate_factor)


def decay_at(step: int, config: Decaying) -> float:
    """The share of the first rate that is left: half a cosine, from 1 to 0, or stairs of equal length."""
    done = (step - 1) / config.steps
    if config.decay == "cosine":
        return 0.5 * (1 + math.cos(math.pi * done))
    return config.stair_factor ** int(done * config.stairs)
