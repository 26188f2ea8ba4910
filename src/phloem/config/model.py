"""The substitution model: with fixed parameters, or with parameters that a search estimates."""

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

from phloem.config.settings import check_count
from phloem.errors import ConfigError, quoted

# The parameters that each model takes; all others must be left out.
MODEL_PARAMETERS: Final[dict[str, frozenset[str]]] = {
    "JC": frozenset(),
    "K80": frozenset({"kappa"}),
    "F81": frozenset({"frequencies"}),
    "HKY": frozenset({"kappa", "frequencies"}),
    "TN93": frozenset({"kappa", "frequencies"}),
    "SYM": frozenset({"rates"}),
    "GTR": frozenset({"rates", "frequencies"}),
}
ALIASES: Final = {"JC69": "JC", "HKY85": "HKY", "K2P": "K80", "TN": "TN93"}
EMPIRICAL: Final = "empirical"
# The limits of `phloem.target`; a test keeps them the same.
MOST_CATEGORIES: Final = 64
SHAPES: Final = (0.001, 10_000.0)
SUM_TOLERANCE: Final = 1e-6
USUAL_CATEGORIES: Final = 4
LEAST_CATEGORIES: Final = 2  # with one, all sites have the same rate


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A substitution model with fixed parameters.

    kappa: one number, or two for TN93 (A↔G, C↔T). frequencies: of A, C, G, T, or `empirical` (counted in the
    alignment), the default of models that have frequencies. rates: AC, AG, AT, CG, CT, GT. gamma: the number of rate
    categories, with shape alpha. invariant: the proportion of invariant sites.
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
            raise ConfigError(f"model {quoted(self.name)}: choose one of {', '.join(MODEL_PARAMETERS)}.")
        if self.frequencies is None and "frequencies" in MODEL_PARAMETERS[self.name]:
            object.__setattr__(self, "frequencies", EMPIRICAL)
        self._check_parameters()
        self._check_site_rates()

    def _check_parameters(self) -> None:
        """The model's own and no others, each with the right count of possible numbers."""
        wanted = MODEL_PARAMETERS[self.name]
        for parameter, count in {"kappa": 2 if self.name == "TN93" else 1, "frequencies": 4, "rates": 6}.items():
            value = getattr(self, parameter)
            if value is not None and parameter not in wanted:
                raise ConfigError(f"model {self.name} has no {parameter}. Leave --{parameter} out.")
            if value is None and parameter in wanted:
                raise ConfigError(f"model {self.name} needs {parameter}. Give --{parameter}.")
            if value is None or value == EMPIRICAL:
                continue
            if isinstance(value, str) or len(value) != count:
                given = quoted(value) if isinstance(value, str) else len(value)
                raise ConfigError(f"--{parameter}: {self.name} takes {count} numbers, not {given}.")
            if not all(0 < number < math.inf for number in value):
                raise ConfigError(f"--{parameter} {list(value)}: give finite numbers above 0.")
            if parameter == "frequencies" and abs(math.fsum(value) - 1) > SUM_TOLERANCE:
                raise ConfigError(f"--frequencies sum to {math.fsum(value):g}: they must sum to 1.")

    def _check_site_rates(self) -> None:
        if (self.gamma is None) != (self.alpha is None):
            raise ConfigError("--gamma and --alpha belong together: give both or neither.")
        if self.median_rates and self.gamma is None:
            raise ConfigError("--median-rates: only gamma categories have medians. Give --gamma and --alpha.")
        if self.gamma is not None:
            check_count("--gamma", self.gamma, most=MOST_CATEGORIES)
        if self.alpha is not None and not SHAPES[0] <= self.alpha <= SHAPES[1]:
            raise ConfigError(f"gamma shape {self.alpha:g}: --alpha must be from {SHAPES[0]:g} to {SHAPES[1]:g}.")
        if self.invariant is not None and not 0 <= self.invariant < 1:
            raise ConfigError(f"proportion of invariant sites {self.invariant:g}: --invariant must be from 0 up to 1.")


@dataclass(frozen=True, slots=True)
class EstimatedModel:
    """Which model to fit: its name, the number of gamma rate categories if any, and whether some sites are invariant.

    Frequencies, where the model has any, are counted in the alignment; all other parameters are free.
    """

    name: str
    gamma: int | None = None
    invariant: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", ALIASES.get(self.name.upper(), self.name.upper()))
        if self.name not in MODEL_PARAMETERS:
            raise ConfigError(f"model {quoted(self.name)}: choose one of {', '.join(MODEL_PARAMETERS)}.")
        if self.gamma is not None and not LEAST_CATEGORIES <= self.gamma <= MOST_CATEGORIES:
            raise ConfigError(f"{self.gamma} rate categories: give {LEAST_CATEGORIES} to {MOST_CATEGORIES}.")

    def __str__(self) -> str:
        invariant = "+I" if self.invariant else ""
        gamma = "" if self.gamma is None else f"+G{self.gamma}"
        return f"{self.name}{invariant}{gamma}"


def parse_estimated_model(option: str, text: str) -> EstimatedModel:
    """The model that a name such as HKY, GTR+G or hky85+F+I+G4 describes. option: where the user gave it."""
    name, *additions = text.upper().split("+")
    name = ALIASES.get(name, name)
    allowed = {"F": "frequencies" in MODEL_PARAMETERS.get(name, ()), "I": True, "G": True}
    gamma = None
    kinds = []
    for addition in additions:
        if found := re.fullmatch(r"G([0-9]{0,3})", addition):
            gamma = int(found[1] or USUAL_CATEGORIES)
        kinds.append("G" if found else addition)
    known = name in MODEL_PARAMETERS and all(allowed.get(kind, False) for kind in kinds)
    possible = gamma is None or LEAST_CATEGORIES <= gamma <= MOST_CATEGORIES
    if not known or not possible or len(set(kinds)) < len(kinds):
        raise ConfigError(
            f"{option} {quoted(text)}: give {', '.join(MODEL_PARAMETERS)}, alone or with +I and +G or "
            f"+G{LEAST_CATEGORIES} to +G{MOST_CATEGORIES}, such as GTR+I+G4. "
            "IQ-TREE's other models need its own bootstrap, the method iqtree."
        )
    return EstimatedModel(name, gamma, "I" in kinds)
