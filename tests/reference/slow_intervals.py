"""Medians and shortest intervals in the plainest way: every pair of values is tried."""

from collections.abc import Sequence
from fractions import Fraction


def shortest_interval(values: Sequence[float], weights: Sequence[Fraction], share: Fraction) -> tuple[float, float]:
    """The lowest of the narrowest intervals between two values that hold more than the share; else the range."""
    total = sum(weights)
    weighted = [value for value, weight in zip(values, weights, strict=True) if weight > 0]
    best = (max(weighted) - min(weighted), min(weighted), max(weighted))
    for lower in weighted:
        for upper in weighted:
            held = sum(weight for value, weight in zip(values, weights, strict=True) if lower <= value <= upper)
            if held > share * total:
                best = min(best, (upper - lower, lower, upper))
    return best[1], best[2]


def median(values: Sequence[float], weights: Sequence[Fraction]) -> float:
    """Halfway between the least and the greatest value that has at most half of the weight on either side of it."""
    half = sum(weights) / 2
    middle = [
        value
        for value, own in zip(values, weights, strict=True)
        if own > 0
        and sum(weight for other, weight in zip(values, weights, strict=True) if other < value) <= half
        and sum(weight for other, weight in zip(values, weights, strict=True) if other > value) <= half
    ]
    return (min(middle) + max(middle)) / 2
