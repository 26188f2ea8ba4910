"""The substitution model: which one, what of it is fixed, and what is inferred; and the prior on branch lengths."""

import math
import re
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

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
INFERRED: Final = "inferred"
# The limits of `phloem.target`; a test keeps them the same.
MOST_CATEGORIES: Final = 64
SHAPES: Final = (0.001, 10_000.0)
SUM_TOLERANCE: Final = 1e-6
USUAL_CATEGORIES: Final = 4
LEAST_CATEGORIES: Final = 2  # with one, all sites have the same rate


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A substitution model. A parameter that is given is fixed, one that is not is inferred with the trees.

    name: of the model, alone or with additions as in GTR+I+G4: +F for frequencies counted in the alignment, +FO for
    inferred ones, +G for gamma rate categories (4, or as many as follow), +I for invariant sites. kappa: one number, or
    two for TN93 (A↔G, C↔T). frequencies: of A, C, G, T, `empirical`, or `inferred`, the default of models that have
    frequencies. rates: AC, AG, AT, CG, CT, GT. gamma: the number of rate categories. alpha: their shape. invariant: the
    proportion of invariant sites, or `inferred`.
    """

    name: str = "JC"
    kappa: tuple[float, ...] | None = None
    frequencies: tuple[float, ...] | Literal["empirical", "inferred"] | None = None
    rates: tuple[float, ...] | None = None
    gamma: int | None = None
    alpha: float | None = None
    median_rates: bool = False
    invariant: float | Literal["inferred"] | None = None

    def __post_init__(self) -> None:
        self._take_additions()
        if self.frequencies is None and "frequencies" in MODEL_PARAMETERS[self.name]:
            object.__setattr__(self, "frequencies", INFERRED)
        self._check_parameters()
        self._check_site_rates()

    @property
    def inferred(self) -> tuple[str, ...]:
        """The parameters that are inferred, by their names here."""
        takes = MODEL_PARAMETERS[self.name]
        open_ones = {
            "kappa": "kappa" in takes and self.kappa is None,
            "rates": "rates" in takes and self.rates is None,
            "frequencies": self.frequencies == INFERRED,
            "alpha": self.gamma is not None and self.alpha is None,
            "invariant": self.invariant == INFERRED,
        }
        return tuple(name for name, is_open in open_ones.items() if is_open)

    def fixed(self) -> "ModelConfig":
        """The same without anything to infer, for commands that do not: frequencies are counted, others are needed."""
        frequencies = EMPIRICAL if self.frequencies == INFERRED else self.frequencies
        for name in self.inferred:
            if name == "frequencies":
                continue
            option = "--gamma and --alpha belong together" if name == "alpha" else f"model {self.name} needs {name}"
            raise ConfigError(f"{option}. Give --{name}.")
        return replace(self, frequencies=frequencies)

    def __str__(self) -> str:
        """The name with its additions, as in HKY+F+I+G4."""
        frequencies = "+F" if self.frequencies == EMPIRICAL else ""
        invariant = "" if self.invariant is None else "+I"
        gamma = "" if self.gamma is None else f"+G{self.gamma}"
        return f"{self.name}{frequencies}{invariant}{gamma}"

    def _take_additions(self) -> None:
        """What follows a + in the name becomes settings, which must not say something else."""
        words = parse_name("model", self.name)
        object.__setattr__(self, "name", words.name)
        for setting, added in (("frequencies", words.frequencies), ("gamma", words.gamma)):
            given = getattr(self, setting)
            if added is not None and given is not None and given != added:
                shown = "those given" if isinstance(given, tuple) else given
                raise ConfigError(f"model {words.text}: it says {setting} {added}, and --{setting} {shown}. Say one.")
            if added is not None:
                object.__setattr__(self, setting, added)
        if words.invariant and self.invariant is None:
            object.__setattr__(self, "invariant", INFERRED)

    def _check_parameters(self) -> None:
        """The model's own and no others, each with the right count of possible numbers."""
        wanted = MODEL_PARAMETERS[self.name]
        for parameter, count in {"kappa": 2 if self.name == "TN93" else 1, "frequencies": 4, "rates": 6}.items():
            value = getattr(self, parameter)
            if isinstance(value, int | float):
                value = (float(value),)
                object.__setattr__(self, parameter, value)
            if value is not None and parameter not in wanted:
                raise ConfigError(f"model {self.name} has no {parameter}. Leave --{parameter} out.")
            if value is None or value in (EMPIRICAL, INFERRED):
                continue
            if isinstance(value, str) or len(value) != count:
                given = quoted(value) if isinstance(value, str) else len(value)
                raise ConfigError(f"--{parameter}: {self.name} takes {count} numbers, not {given}.")
            if not all(0 < number < math.inf for number in value):
                raise ConfigError(f"--{parameter} {list(value)}: give finite numbers above 0.")
            if parameter == "frequencies" and abs(math.fsum(value) - 1) > SUM_TOLERANCE:
                raise ConfigError(f"--frequencies sum to {math.fsum(value):g}: they must sum to 1.")

    def _check_site_rates(self) -> None:
        if self.gamma is None and self.alpha is not None:
            raise ConfigError("--alpha: it is the shape of gamma rate categories. Give --gamma, or a model with +G.")
        if self.median_rates and self.gamma is None:
            raise ConfigError("--median-rates: only gamma categories have medians. Give --gamma, or a model with +G.")
        if self.gamma is not None:
            least = LEAST_CATEGORIES if self.alpha is None else 1
            check_count("--gamma", self.gamma, least=least, most=MOST_CATEGORIES)
        if self.alpha is not None and not SHAPES[0] <= self.alpha <= SHAPES[1]:
            raise ConfigError(f"gamma shape {self.alpha:g}: --alpha must be from {SHAPES[0]:g} to {SHAPES[1]:g}.")
        invariant = self.invariant
        if isinstance(invariant, str):
            if invariant != INFERRED:
                raise ConfigError(f"--invariant {quoted(invariant)}: give a number from 0 up to 1, or {INFERRED}.")
        elif invariant is not None and not 0 <= invariant < 1:
            raise ConfigError(f"proportion of invariant sites {invariant:g}: --invariant must be from 0 up to 1.")


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


class ModelWords(NamedTuple):
    """What a name such as hky85+F+I+G4 says."""

    text: str
    name: str
    frequencies: Literal["empirical", "inferred"] | None
    gamma: int | None
    invariant: bool


def parse_name(option: str, text: str, advice: str = "") -> ModelWords:
    """The model that a name describes. option: where the user gave it."""
    name, *additions = text.upper().split("+")
    name = ALIASES.get(name, name)
    has_frequencies = "frequencies" in MODEL_PARAMETERS.get(name, ())
    allowed = {"F": has_frequencies, "FO": has_frequencies, "I": True, "G": True}
    gamma = None
    kinds = []
    for addition in additions:
        if found := re.fullmatch(r"G([0-9]{0,3})", addition):
            gamma = int(found[1] or USUAL_CATEGORIES)
        kinds.append("G" if found else addition)
    known = name in MODEL_PARAMETERS and all(allowed.get(kind, False) for kind in kinds)
    possible = gamma is None or LEAST_CATEGORIES <= gamma <= MOST_CATEGORIES
    if not known or not possible or len(set(kinds)) < len(kinds) or {"F", "FO"} <= set(kinds):
        raise ConfigError(
            f"{option} {quoted(text)}: give one of {', '.join(MODEL_PARAMETERS)}, alone or with +F or +FO, +I, and +G "
            f"or +G{LEAST_CATEGORIES} to +G{MOST_CATEGORIES}, such as GTR+I+G4.{advice}"
        )
    frequencies: Literal["empirical", "inferred"] | None = None
    if "F" in kinds:
        frequencies = "empirical"
    elif "FO" in kinds:
        frequencies = "inferred"
    return ModelWords(text, name, frequencies, gamma, "I" in kinds)


def parse_estimated_model(option: str, text: str) -> EstimatedModel:
    """The model that a name such as HKY, GTR+G or hky85+F+I+G4 describes. option: where the user gave it."""
    words = parse_name(option, text, " IQ-TREE's other models need its own bootstrap, the method iqtree.")
    if words.frequencies == INFERRED:
        raise ConfigError(f"{option} {quoted(text)}: a search counts frequencies. Leave +FO out.")
    return EstimatedModel(words.name, words.gamma, words.invariant)


# Which numbers each takes, by name, and what they are if they are not given.
LENGTH_PRIORS: Final[dict[str, dict[str, float]]] = {
    "exponential": {},
    "gamma-dirichlet": {"shape": 1.0, "rate": 0.1},
    "uniform": {"longest": 10.0},
}


class LengthPriorWords(NamedTuple):
    """What a text such as `gamma-dirichlet:1,0.1` says. The exponential's rate is a setting of its own."""

    kind: str
    numbers: tuple[float, ...]


def parse_length_prior(option: str, text: str) -> LengthPriorWords:
    """The prior that a text describes. option: where the user gave it."""
    kind, colon, rest = text.strip().lower().partition(":")
    usual = LENGTH_PRIORS.get(kind)
    try:
        numbers = tuple(float(number) for number in rest.split(",")) if colon else tuple((usual or {}).values())
    except ValueError:
        numbers = (math.nan,)
    if usual is None or len(numbers) != len(usual) or not all(0 < number < math.inf for number in numbers):
        raise ConfigError(
            f"{option} {quoted(text)}: give exponential, whose rate is --prior-rate, gamma-dirichlet or "
            "gamma-dirichlet:SHAPE,RATE of the tree length, or uniform or uniform:LONGEST."
        )
    return LengthPriorWords(kind, numbers)
