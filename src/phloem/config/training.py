"""How the posterior is trained, and how the result is measured."""

from dataclasses import dataclass
from typing import Final

from phloem.config.checks import check_choice, check_count, check_positive, check_share
from phloem.errors import ConfigError

# Names of what `inference` has; a test holds the lists together.
ESTIMATORS: Final = ("vimco", "rws")
DECAYS: Final = ("cosine", "stairs")
STOPS: Final = ("steps", "auto")
MOST_PARTICLES: Final = 10_000
MOST_DRAWS: Final = 10_000_000
MOST_REPEATS: Final = 10_000


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """How the posterior is trained. The defaults are the preset `standard`; see `PRESETS`.

    particles: trees a step. estimator: of the gradient for topologies. doubly_reparameterized: less noise in that for
    branch lengths, with the same expectation. ramp: the share of the steps over which the likelihood is tempered, its
    exponent rising from `first_inverse_temperature` to 1. rate: the first learning rate of branch lengths; that of
    topologies is `topology_rate_factor` times it. clipping: a gradient for branch lengths of more than so many times
    its usual norm is scaled down to that. decay: `cosine` takes both rates down to 0; `stairs` multiplies them by
    `stair_factor` at the end of each of `stairs` equal parts. So a schedule stretches with the number of steps.
    stop: `steps` trains for all of them; `auto` ends training early, once the bound has been flat at full temperature.
    """

    steps: int = 40_000
    particles: int = 10
    estimator: str = "vimco"
    doubly_reparameterized: bool = True
    ramp: float = 0.75
    first_inverse_temperature: float = 0.001
    rate: float = 0.003
    topology_rate_factor: float = 3.0
    clipping: float = 3.0
    decay: str = "cosine"
    stairs: int = 20
    stair_factor: float = 0.75
    stop: str = "steps"

    def __post_init__(self) -> None:
        check_choice("--estimator", self.estimator, ESTIMATORS)
        check_choice("decay", self.decay, DECAYS)
        check_choice("--stop", self.stop, STOPS)
        for name, count in (("--steps", self.steps), ("--particles", self.particles), ("stairs", self.stairs)):
            check_count(name, count)
        fewest = 2 if self.estimator == "vimco" else 1
        if not fewest <= self.particles <= MOST_PARTICLES:
            raise ConfigError(f"--particles {self.particles}: {self.estimator} takes {fewest} to {MOST_PARTICLES:,}.")
        for name in ("ramp", "first_inverse_temperature"):
            check_share(name, getattr(self, name))
        if not self.clipping > 0:
            raise ConfigError(f"clipping {self.clipping:g}: give a number above 0, or inf for none.")
        for name in ("rate", "topology_rate_factor", "stair_factor"):
            check_positive(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """How the result is measured: `repeats` estimates of `samples` trees each, and reports during training.

    reports: how often training is reported on, each time with an ELBO of `report_samples` trees.
    """

    samples: int = 1000
    repeats: int = 100
    reports: int = 100
    report_samples: int = 200

    def __post_init__(self) -> None:
        check_count("--samples", self.samples, most=MOST_DRAWS)
        check_count("--repeats", self.repeats, most=MOST_REPEATS)
        check_count("reports", self.reports)
        check_count("report_samples", self.report_samples, most=MOST_DRAWS)
