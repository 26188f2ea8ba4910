"""Every setting with its default. A setting that makes no sense cannot exist."""

import re
from dataclasses import dataclass
from typing import Final, Literal

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
