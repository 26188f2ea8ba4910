"""Every setting with its default. A setting that makes no sense cannot exist."""

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from phloem.errors import ConfigError, quoted

# Which parameters each model takes; all others must be left out.
MODEL_PARAMETERS: dict[str, frozenset[str]] = {
    "JC": frozenset(),
    "K80": frozenset({"kappa"}),
    "F81": frozenset({"frequencies"}),
    "HKY": frozenset({"kappa", "frequencies"}),
    "TN93": frozenset({"kappa", "frequencies"}),
    "SYM": frozenset({"rates"}),
    "GTR": frozenset({"rates", "frequencies"}),
}
ALIASES = {"JC69": "JC", "HKY85": "HKY", "K2P": "K80", "TN": "TN93"}
EMPIRICAL: Final = "empirical"


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A substitution model with fixed parameters.

    kappa: one number, or for TN93 two (A↔G, C↔T). frequencies: of A, C, G, T, or `empirical` to count them in
    the alignment. rates: AC, AG, AT, CG, CT, GT. gamma: number of rate categories, with shape alpha.
    """

    name: str = "JC"
    kappa: tuple[float, ...] | None = None
    frequencies: tuple[float, ...] | Literal["empirical"] | None = None
    rates: tuple[float, ...] | None = None
    gamma: int | None = None
    alpha: float | None = None
    median_rates: bool = False
    invariant: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", ALIASES.get(self.name.upper(), self.name.upper()))
        if self.name not in MODEL_PARAMETERS:
            raise ConfigError(f"model {self.name}: choose one of {', '.join(MODEL_PARAMETERS)}.")
        wanted = MODEL_PARAMETERS[self.name]
        for parameter in ("kappa", "frequencies", "rates"):
            value = getattr(self, parameter)
            if value is not None and parameter not in wanted:
                raise ConfigError(f"model {self.name} has no {parameter}. Leave --{parameter} out.")
            if value is None and parameter in wanted:
                raise ConfigError(f"model {self.name} needs {parameter}. Give --{parameter}.")
        counts = {"kappa": 2 if self.name == "TN93" else 1, "frequencies": 4, "rates": 6}
        for parameter, count in counts.items():
            value = getattr(self, parameter)
            if value is not None and value != EMPIRICAL and len(value) != count:
                raise ConfigError(f"--{parameter}: {self.name} takes {count} numbers, not {len(value)}.")
        if (self.gamma is None) != (self.alpha is None):
            raise ConfigError("--gamma and --alpha belong together: give both or neither.")
        if self.median_rates and self.gamma is None:
            raise ConfigError("--median-rates: only gamma categories have medians. Give --gamma and --alpha.")


# What IQ-TREE asks for.
LEAST_BOOTSTRAP_TREES = 1000
MOST_REPLICATES = 10_000
PLAIN_MODEL = re.compile(r"[A-Za-z0-9+*{},./][A-Za-z0-9+*{},./-]*")


@dataclass(frozen=True, slots=True)
class BootstrapConfig:
    """Ultrafast bootstrap by IQ-TREE: independent replicates of `count` trees each.

    model: in IQ-TREE's words. threads: replicates at work at the same time, each on one core; None for all cores.
    timeout: seconds for one replicate.
    """

    count: int = 1000
    replicates: int = 10
    seed: int = 1
    model: str = "JC"
    threads: int | None = None
    timeout: float = 86_400.0

    def __post_init__(self) -> None:
        if self.count < LEAST_BOOTSTRAP_TREES:
            raise ConfigError(f"--count {self.count}: IQ-TREE makes {LEAST_BOOTSTRAP_TREES} bootstrap trees or more.")
        if not 1 <= self.replicates <= MOST_REPLICATES:
            raise ConfigError(f"--replicates {self.replicates}: give a number from 1 to {MOST_REPLICATES}.")
        if self.seed < 0:
            raise ConfigError(f"--seed {self.seed}: it must not be negative.")
        if not PLAIN_MODEL.fullmatch(self.model):
            raise ConfigError(f"--model {quoted(self.model)}: give one of IQ-TREE's names, such as JC, HKY or GTR+G4.")
        if self.threads is not None and self.threads < 1:
            raise ConfigError(f"--threads {self.threads}: at least 1 is needed.")
        if not self.timeout > 0:
            raise ConfigError(f"--timeout {self.timeout:g}: give a number of seconds above 0.")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} {quoted(value)}: choose one of {', '.join(choices)}.")


def _check_count(name: str, value: int, least: int = 1) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} {value}: give a whole number, {least} or more.")


# Names of what `variational` and `inference` have; a test holds the lists together.
BRANCH_MODELS: Final = ("split", "psp", "mlp", "gcn", "gin", "gin-text", "sage", "ggnn", "edge", "edge-text")
ESTIMATORS: Final = ("vimco", "rws")
DECAYS: Final = ("cosine", "stairs")
MOST_PARTICLES: Final = 10_000


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """How the posterior is trained. The defaults are the preset `standard`; see `PRESETS`.

    particles: trees a step. estimator: of the gradient for topologies. doubly_reparameterized: less noise in that for
    branch lengths, with the same expectation. ramp: the share of the steps over which the likelihood is tempered, its
    exponent rising from `first_inverse_temperature` to 1. rate: the first learning rate of branch lengths; that of
    topologies is `topology_rate_factor` times it. clipping: a gradient for branch lengths of more than so many times
    its usual norm is scaled down to that. decay: `cosine` takes both rates down to 0; `stairs` multiplies them by
    `stair_factor` at the end of each of `stairs` equal parts. So a schedule stretches with the number of steps.
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

    def __post_init__(self) -> None:
        _check_choice("--estimator", self.estimator, ESTIMATORS)
        _check_choice("decay", self.decay, DECAYS)
        for name, count in (("--steps", self.steps), ("--particles", self.particles), ("stairs", self.stairs)):
            _check_count(name, count)
        fewest = 2 if self.estimator == "vimco" else 1
        if not fewest <= self.particles <= MOST_PARTICLES:
            raise ConfigError(f"--particles {self.particles}: {self.estimator} takes {fewest} to {MOST_PARTICLES:,}.")
        for name, share in (("ramp", self.ramp), ("first_inverse_temperature", self.first_inverse_temperature)):
            if not 0 <= share <= 1:
                raise ConfigError(f"{name} {share:g}: give a number from 0 to 1.")
        if not self.clipping > 0:
            raise ConfigError(f"clipping {self.clipping:g}: give a number above 0, or inf for none.")
        for name in ("rate", "topology_rate_factor", "stair_factor"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ConfigError(f"{name} {value:g}: give a number above 0.")


# The published schedule, what we advise, and a first look (docs/schedules.md has what they were chosen by).
PRESETS: Final = {
    "paper": TrainingConfig(
        steps=400_000,
        doubly_reparameterized=False,
        ramp=0.25,
        rate=0.001,
        topology_rate_factor=1.0,
        clipping=math.inf,
        decay="stairs",
    ),
    "standard": TrainingConfig(),
    "quick": TrainingConfig(steps=8_000, topology_rate_factor=10.0),
}


def preset(name: str, **changes: Any) -> TrainingConfig:
    """The training of a preset, with some settings changed; those that are None are the preset's own."""
    _check_choice("--preset", name, tuple(PRESETS))
    return replace(PRESETS[name], **{key: value for key, value in changes.items() if value is not None})


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
        for name in ("samples", "repeats", "reports", "report_samples"):
            _check_count(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class InferConfig:
    """All that decides a result of `phloem infer`, given the alignment and the trees for its support.

    credible: each tree file counts with its most frequent topologies up to this share. prior_rate: of the exponential
    prior on branch lengths. depth, width: of the graph network. seed: the same seed gives the same posterior.
    """

    branches: str = "edge"
    depth: int = 2
    width: int = 100
    credible: float = 0.95
    prior_rate: float = 10.0
    seed: int = 1
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        _check_choice("--branches", self.branches, BRANCH_MODELS)
        _check_count("--seed", self.seed, least=0)
        _check_count("depth", self.depth, least=0)
        _check_count("width", self.width)
        if not 0 < self.credible <= 1:
            raise ConfigError(f"credible {self.credible:g}: give a share above 0, up to 1.")
        if not 0 < self.prior_rate < math.inf:
            raise ConfigError(f"prior_rate {self.prior_rate:g}: give a number above 0.")
