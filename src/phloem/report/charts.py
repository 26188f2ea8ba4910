"""Histograms and training curves with round axes, in percent of the plot, ready for the templates."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.report.wording import MINUS

if TYPE_CHECKING:  # it imports torch, which a page need not wait for
    from phloem.inference.training import Report

BINS = 36
RUN_LOOKS = 6  # colours for runs in the style sheet, used in turn
MOST_POINTS = 400  # per curve


class Tick(NamedTuple):
    """A number on an axis and its place, in percent of the axis."""

    place: float
    label: str


def nice_step(rough: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten up to a rough value."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (5, 2, 1) if factor * power <= rough * (1 + 1e-9))


def ticks(low: float, high: float, most: int = 6) -> list[Tick]:
    """At most `most` round numbers from `low` to `high`."""
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
    """At most `most` evenly spaced powers of ten from `high` downwards."""
    every = math.ceil((high - low + 1) / most)
    return list(range(high, low - 1, -every))[::-1]


def _multiples(step: float, low: float, high: float) -> list[float]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _label(number: float, places: int) -> str:
    return f"{number:,.{places}f}".replace("-", MINUS)


class Bar(NamedTuple):
    """A bar of a histogram."""

    x: str
    y: str
    width: str
    height: str
    is_inside: bool  # of the marked interval


class Histogram(NamedTuple):
    """A weighted histogram with the mean and an interval."""

    bars: list[Bar]
    ticks: list[Tick]
    mean: float  # percent of the axis


class Curve(NamedTuple):
    """The curve of one run, in a box of 1000 by 1000."""

    points: str
    look: int
    label: str


class CurveChart(NamedTuple):
    """Curves over the training steps."""

    title: str
    curves: list[Curve]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    tempered: float  # percent of the width, from the left, in which the likelihood is tempered
    is_cut: bool  # whether some values are outside the plot


def histogram(
    values: FloatArray,
    weights: FloatArray,
    *,
    inside: tuple[float, float],
    mean: float,
    log: bool = False,
    most_ticks: int = 6,
) -> Histogram | None:
    """Weighted counts in equal bins over the whole range; None if there is nothing to count.

    With `log`, values are logarithms to base 10 and the axis has powers of ten.
    """
    use = np.isfinite(values) & (weights > 0)
    if not use.any():
        return None
    low, high = float(values[use].min()), float(values[use].max())
    if not high - low > 1e-9 * max(1.0, abs(low)):  # a single value: one bar in the middle
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    counts, edges = np.histogram(values[use], BINS, (low, high), weights=weights[use])
    tallest = float(counts.max())
    bars = [
        Bar(
            f"{100 * place / BINS:.3f}%",
            f"{100 - 100 * share / tallest:.2f}%",
            f"{100 / BINS:.3f}%",
            f"{100 * share / tallest:.2f}%",
            bool(inside[0] <= middle <= inside[1]),
        )
        for place, (share, middle) in enumerate(zip(counts, (edges[1:] + edges[:-1]) / 2, strict=True))
        if share > 0
    ]
    axis = log_ticks(low, high) if log else ticks(low, high, most_ticks)
    return Histogram(bars, axis, 100 * (mean - low) / (high - low))


def training_charts(histories: "Sequence[Sequence[Report]]") -> list[CurveChart]:
    """The multi-sample bound and the ELBO of every run; empty if no run has a report."""
    if not any(histories):
        return []
    last = max(report.step for history in histories for report in history)
    return [
        chart
        for title, field in (("Multi-sample bound", "lower_bound"), ("ELBO", "elbo"))
        if (chart := _chart(title, field, histories, last)) is not None
    ]


def _chart(title: str, field: str, histories: "Sequence[Sequence[Report]]", last: int) -> CurveChart | None:
    lines = [
        [(report.step, float(getattr(report, field))) for report in history if math.isfinite(getattr(report, field))]
        for history in histories
    ]
    if not any(lines):
        return None
    low, high = _shown_range(lines, histories, last)
    everything = [value for line in lines for _, value in line]
    curves = [
        Curve(curve_points(line, last, low, high), run % RUN_LOOKS, f"run {run + 1}") for run, line in enumerate(lines)
    ]
    tempered = max(
        (report.step for history in histories for report in history if report.inverse_temperature < 1), default=0
    )
    return CurveChart(
        title,
        curves,
        ticks(0, last, 5),
        ticks(low, high, 5),
        100 * tempered / last,
        min(everything) < low or max(everything) > high,
    )


def _shown_range(
    lines: list[list[tuple[int, float]]], histories: "Sequence[Sequence[Report]]", last: int
) -> tuple[float, float]:
    """A range that shows the end of training: that of the last third, as far as it is not tempered."""
    untempered = min(
        (report.step for history in histories for report in history if report.inverse_temperature >= 1), default=last
    )
    start = max(2 * last // 3, min(untempered, last))
    late = [value for line in lines for step, value in line if step > start]
    if len(late) < 4:
        late = [value for line in lines for _, value in line[-8:]]
    low, high = min(late), max(late)
    spread = max(high - low, 0.5)
    return low - spread, high + 0.4 * spread  # more below, where the curves come from


def curve_points(line: list[tuple[int, float]], last: int, low: float, high: float) -> str:
    """The points of a curve; those far outside are moved closer, so that no number is huge."""
    every = max(1, math.ceil(len(line) / MOST_POINTS))
    kept = line[::every] + (line[-1:] if (len(line) - 1) % every else [])
    return " ".join(
        f"{1000 * step / last:.1f},{min(3000.0, max(-2000.0, 1000 * (high - value) / (high - low))):.1f}"
        for step, value in kept
    )
