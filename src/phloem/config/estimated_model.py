"""Substitution models whose parameters are estimated from the data, in the words that users know from IQ-TREE."""

import re
from dataclasses import dataclass

from phloem.config.model import ALIASES, MODEL_PARAMETERS, MOST_CATEGORIES
from phloem.errors import ConfigError, quoted

USUAL_CATEGORIES = 4
LEAST_CATEGORIES = 2  # one category is no rates that differ


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
    """The model that words such as HKY, GTR+G or hky85+F+I+G4 describe; `option` is where the user gave them."""
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
            "Other models that IQ-TREE knows are for its own bootstrap, the method iqtree."
        )
    return EstimatedModel(name, gamma, "I" in kinds)
