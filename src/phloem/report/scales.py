"""Axes: round numbers at even distances."""

import math
from typing import NamedTuple

from phloem.report.wording import MINUS


class Tick(NamedTuple):
    """A number of an axis and where it stands, in percent of the axis."""

    place: float
    label: str


def nice_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, the nearest that is not above a rough value, if one of them is."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (5, 2, 1) if factor * power <= rough * (1 + 1e-9))


def ticks(low: float, high: float, most: int = 6) -> list[Tick]:
    """Round numbers from `low` to `high`, at most so many, at least one if there is any."""
    if not high > low:
        return [Tick(50.0, _label(low, 0))]
    step = nice_step((high - low) / most)
    while (numbers := _multiples(step, low, high)) and len(numbers) > most:
        step = nice_step(step * 2.5)
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    return [Tick(100 * (number - low) / (high - low), _label(number, places)) for number in numbers]


def log_ticks(low: float, high: float) -> list[Tick]:
    """Powers of ten between two logarithms to base 10, and 2 and 5 times them where there are few."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    digits = (1, 2, 5) if high - low < 2 else (1,)
    every = max(1, math.ceil(len(powers) / 6))
    numbers = [digit * 10.0**power for power in powers[::every] for digit in digits]
    places = [(100 * (math.log10(number) - low) / (high - low), number) for number in numbers]
    return [Tick(place, f"{number:g}") for place, number in places if -1e-6 <= place <= 100 + 1e-6]


def whole_powers(low: int, high: int, most: int = 6) -> list[int]:
    """Powers of ten at even distances from `high` downwards, at most so many."""
    every = math.ceil((high - low + 1) / most)
    return list(range(high, low - 1, -every))[::-1]


def _multiples(step: float, low: float, high: float) -> list[float]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _label(number: float, places: int) -> str:
    return f"{number:,.{places}f}".replace("-", MINUS)
