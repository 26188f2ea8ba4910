"""The prior on branch lengths by its name, with its numbers after a colon."""

import math
from typing import Final, NamedTuple

from phloem.errors import ConfigError, quoted

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
