"""The panels of the density experiment: axes, curves and estimates, ready to be drawn."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, LongArray
from phloem.experiments.density.results import Band, DensityExperiment, Repeat, Variant
from phloem.report.charts import RUN_LOOKS, Tick, curve_points, log_ticks, ticks, whole_powers
from phloem.report.wording import powers_of_ten

MARGIN = 0.08  # decades above and below all values
LINEAR = 0.7  # decades' height that a logarithmic axis spends on what is below its threshold, down to 0
BELOW = 0.2  # decades' height below 0, so that a line at 0 is no edge
LEAST_THRESHOLD, USUAL_THRESHOLD = -9, -3
SEEN = 0.4  # of a mean: how far down its deviation is followed at least
NEGLIGIBLE = 1e-6  # of the target's probability: what the least probable topologies that are left out have together
DEPTH = 4  # decades that estimates may lie below the least target shown; lower ones are drawn at the edge
LOG_TEN = math.log(10)
EDGE = 0.02  # of the axis, below the least value: dots are not cut by the edge


class LogAxis(NamedTuple):
    """Logarithms to base 10; what is not above 0 lies at the lower end."""

    low: float
    high: float

    def percents(self, values: FloatArray) -> FloatArray:
        """Heights above the lower end, in percent of the axis."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(values <= 0, self.low, np.log10(values))
        return np.asarray(100 * (np.maximum(logs, self.low) - self.low) / (self.high - self.low))

    def ticks(self) -> list[Tick]:
        """Powers of ten, and numbers between them where there are few."""
        return log_ticks(self.low, self.high)


class ExcessAxis(NamedTuple):
    """Linear from 0 to a power of ten, logarithmic from there on, so that both 0 and every decade are seen."""

    threshold: int
    high: float  # a logarithm

    def percents(self, values: FloatArray) -> FloatArray:
        """Heights above the lower end, in percent of the axis."""
        relative = values / 10.0**self.threshold
        with np.errstate(divide="ignore", invalid="ignore"):
            heights = np.where(relative < 1, LINEAR * relative, LINEAR + np.log10(relative))
        return np.asarray(100 * (np.maximum(heights, -BELOW) + BELOW) / (LINEAR + self.high - self.threshold + BELOW))

    def powers(self) -> list[int]:
        """Of ten, from the threshold on: where the axis has ticks, besides 0."""
        return list(range(self.threshold, math.floor(self.high) + 1))

    def ticks(self) -> list[Tick]:
        """0 and the powers of ten."""
        places = self.percents(np.array([0.0, *(10.0**power for power in self.powers())])).tolist()
        return [Tick(place, label) for place, label in zip(places, ["0", *powers_of_ten(self.powers())], strict=True)]


def log_axis(values: Iterable[float]) -> LogAxis:
    """An axis on which every value above 0 has its place."""
    logs = [math.log10(value) for value in values if value > 0 and math.isfinite(value)] or [0.0]
    return LogAxis(min(logs) - MARGIN, max(logs) + MARGIN)


def excess_axis(values: Iterable[float]) -> ExcessAxis:
    """An axis whose threshold is not above any value that is above 0, as far as double precision can be trusted."""
    logs = [math.log10(value) for value in values if value > 0 and math.isfinite(value)] or [USUAL_THRESHOLD]
    threshold = max(math.floor(min(logs)), LEAST_THRESHOLD)
    return ExcessAxis(threshold, max(max(logs), threshold + 1) + MARGIN)


class Line(NamedTuple):
    """A repeat that ended before others of its variant, which is in no mean."""

    steps: LongArray
    values: FloatArray


class VariantCurve(NamedTuple):
    """The mean of a variant with its deviation, and the repeats beside it."""

    variant: Variant
    band: Band
    stopped: list[Line]


class ExcessCurves(NamedTuple):
    """How far losses are above J*."""

    curves: list[VariantCurve]
    axis: ExcessAxis


class DivergenceCurves(NamedTuple):
    """Divergences from the target to the models."""

    curves: list[VariantCurve]
    axis: LogAxis


def excess_curves(found: Sequence[Variant], best_loss: float) -> ExcessCurves:
    """The expected loss less J*."""
    curves = [
        VariantCurve(
            variant,
            variant.losses.shifted(-best_loss),
            [_line(repeat.steps, np.array(repeat.losses) - best_loss) for repeat in variant.stopped],
        )
        for variant in found
    ]
    return ExcessCurves(curves, excess_axis(_values(curves)))


def divergence_curves(found: Sequence[Variant]) -> DivergenceCurves:
    """KL(target ‖ model)."""
    curves = [
        VariantCurve(
            variant,
            variant.divergences,
            [_line(repeat.steps, np.array(repeat.divergences)) for repeat in variant.stopped],
        )
        for variant in found
    ]
    return DivergenceCurves(curves, log_axis(_values(curves)))


def last_step(found: Sequence[Variant]) -> int:
    """Where the horizontal axis ends."""
    return max(1, *(variant.steps for variant in found))


def repeats_in_words(found: Sequence[Variant]) -> str:
    """`3 repeats` or `2 to 3 repeats` of the variants that have a deviation; nothing where none has."""
    counts = sorted({len(variant.repeats) for variant in found if len(variant.repeats) > 1})
    if not counts:
        return ""
    return f"{counts[0]} repeats" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} repeats"


def _line(steps: Sequence[int], values: FloatArray) -> Line:
    return Line(np.array(steps, np.int64), values)


def _values(curves: Sequence[VariantCurve]) -> Iterator[float]:
    """All that must be seen. The lower end of a deviation may be near 0, decades away: a part of it is enough."""
    for curve in curves:
        yield from curve.band.mean.tolist()
        if curve.band.deviation is not None:
            yield from (curve.band.mean + curve.band.deviation).tolist()
            yield from np.maximum(curve.band.mean - curve.band.deviation, curve.band.mean * SEEN).tolist()
        for line in curve.stopped:
            yield from line.values.tolist()


class Estimates(NamedTuple):
    """Topologies with their true and estimated probabilities, and how many are not among them."""

    variant: Variant
    repeat: Repeat
    target: FloatArray  # (topologies,)
    model: FloatArray  # (topologies,)  not below the range
    zeros: int  # topologies whose target is 0
    tiny: int  # topologies left out because their targets, all below `least`, are negligible even together
    least: int  # a power of ten, not above any target shown
    too_low: int  # topologies whose estimate is below the range
    range: tuple[int, int]  # of the estimates, in whole decades; the targets' is from `least` to the same end

    @property
    def cut(self) -> str:
        """`least` in words."""
        return powers_of_ten([self.least])[0]


def estimates(experiment: DensityExperiment, variant: Variant) -> Estimates:
    """Of the typical repeat. Draws from a Dirichlet with small parameters go down to 1e-300, which no axis can hold."""
    positive = experiment.target > 0
    ordered = np.sort(experiment.target[positive])
    first = int(np.searchsorted(np.cumsum(ordered), NEGLIGIBLE * ordered.sum()))
    least = math.floor(math.log10(ordered[first]) + 1e-9)
    shown = experiment.target >= 10.0**least * (1 - 1e-9)
    target = np.log10(experiment.target[shown])
    model = variant.typical.log_probabilities[shown] / LOG_TEN
    model = np.where(np.isnan(model), -np.inf, model)
    high = math.ceil(max(float(target.max()), float(model.max())) - 1e-9)
    low = math.floor(min(max(float(model.min()), least - DEPTH), least) + 1e-9)
    return Estimates(
        variant=variant,
        repeat=variant.typical,
        target=target,
        model=np.maximum(model, low),
        zeros=int((~positive).sum()),
        tiny=int(positive.sum() - shown.sum()),
        least=least,
        too_low=int((model < low).sum()),
        range=(low, max(high, least + 1)),
    )


class DrawnLine(NamedTuple):
    """A mean, or a repeat that ended early."""

    points: str
    look: int
    is_early: bool


class Shade(NamedTuple):
    """A standard deviation to each side of a mean."""

    points: str
    look: int


class StepChart(NamedTuple):
    """Lines over the training steps."""

    shades: list[Shade]
    lines: list[DrawnLine]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    zero: float | None  # where 0 is, in percent of the height


class Scatter(NamedTuple):
    """Dots with the diagonal on which estimates are true."""

    dots: str
    look: int
    diagonal: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]


def look_of(variant: Variant) -> int:
    """Which of the style sheet's colours it has."""
    return variant.place % RUN_LOOKS


def loss_chart(found: Sequence[Variant], best_loss: float) -> StepChart:
    """Expected losses above J*, which is the zero of the axis."""
    curves, axis = excess_curves(found, best_loss)
    return _step_chart(curves, axis, last_step(found), float(axis.percents(np.zeros(1))[0]))


def divergence_chart(found: Sequence[Variant]) -> StepChart:
    """Divergences from the target."""
    curves, axis = divergence_curves(found)
    return _step_chart(curves, axis, last_step(found), None)


def scatter(found: Estimates) -> Scatter:
    """Estimated against true probabilities. Dots are lines of no length with round ends: stretching spares these."""
    low, high = found.range
    margin = EDGE * (high - low)
    left, bottom = found.least - margin, low - margin
    across = 1000 * (found.target - left) / (high - left)
    down = 1000 * (high - found.model) / (high - bottom)
    corner = max(left, bottom)
    start = f"{1000 * (corner - left) / (high - left):.0f} {1000 * (high - corner) / (high - bottom):.0f}"
    return Scatter(
        dots="".join(f"M{x:.0f} {y:.0f}h0" for x, y in zip(across.tolist(), down.tolist(), strict=True)),
        look=look_of(found.variant),
        diagonal=f"M{start}L1000 0",
        x_ticks=_power_ticks(whole_powers(found.least, high), left, high),
        y_ticks=_power_ticks(whole_powers(low, high), bottom, high),
    )


def _step_chart(curves: Sequence[VariantCurve], axis: LogAxis | ExcessAxis, last: int, zero: float | None) -> StepChart:
    shades, lines = [], []
    for variant, (steps, mean, deviation), stopped in curves:
        look = look_of(variant)
        if deviation is not None:
            upper = _points(steps, axis.percents(mean + deviation), last)
            lower = _points(steps, axis.percents(mean - deviation), last)
            shades.append(Shade(" ".join([*upper, *reversed(lower)]), look))
        lines += [
            DrawnLine(" ".join(_points(line.steps, axis.percents(line.values), last)), look, True) for line in stopped
        ]
        lines.append(DrawnLine(" ".join(_points(steps, axis.percents(mean), last)), look, False))
    return StepChart(shades, lines, ticks(0, last, 5), axis.ticks(), zero)


def _points(steps: LongArray, percents: FloatArray, last: int) -> list[str]:
    """Corners of a line, without those that are no number; a single one twice, as a line needs two."""
    finite = np.isfinite(percents)
    line = list(zip(steps[finite].tolist(), percents[finite].tolist(), strict=True))
    points = curve_points(line, last, 0.0, 100.0).split() if line else []
    return points * 2 if len(points) == 1 else points


def _power_ticks(powers: list[int], low: float, high: float) -> list[Tick]:
    labels = powers_of_ten(powers)
    return [Tick(100 * (power - low) / (high - low), label) for power, label in zip(powers, labels, strict=True)]
