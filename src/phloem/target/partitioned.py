"""A substitution model for each part of an alignment."""

from dataclasses import dataclass
from typing import Any

from phloem.config.model import ALIASES
from phloem.errors import BadArgument
from phloem.target.substitution import SubstitutionModel


@dataclass(frozen=True, slots=True, eq=False)
class PartitionedModel:
    """Models of an alignment's parts, whose parameters need no gradients; equal numbers of rate categories."""

    names: tuple[str, ...]
    parts: tuple[SubstitutionModel, ...]

    def __post_init__(self) -> None:
        kinds = {(m.site_rates.categories, m.site_rates.method) for m in self.parts if m.site_rates.shape is not None}
        if len(kinds) > 1:
            counts = " and ".join(str(count) for count, _ in sorted(kinds))
            raise BadArgument(f"parts with {counts} rate categories: give all of them the same number.")

    @property
    def name(self) -> str:
        """Those of the parts' models, each once."""
        return ", ".join(dict.fromkeys(map(short_name, self.parts)))

    @property
    def is_fixed(self) -> bool:
        """Always, as these models have no gradients."""
        return True

    @property
    def treats_states_alike(self) -> bool:
        """Whether every model does."""
        return all(model.treats_states_alike for model in self.parts)

    def describe(self) -> dict[str, Any]:
        """Names and parameters as plain numbers."""
        return {
            "name": self.name,
            "parts": {name: m.describe() for name, m in zip(self.names, self.parts, strict=True)},
        }

    def in_words(self) -> str:
        """All of it in a line."""
        named = zip(self.names, self.parts, strict=True)
        return f"{len(self.parts)} parts: " + "; ".join(f"{name} {model.in_words()}" for name, model in named)


def short_name(model: SubstitutionModel) -> str:
    """As in HKY+I+G4."""
    rates = model.site_rates
    invariant = "" if rates.invariant is None else "+I"
    gamma = "" if rates.shape is None else f"+G{rates.categories}"
    return f"{ALIASES.get(model.name, model.name)}{invariant}{gamma}"
