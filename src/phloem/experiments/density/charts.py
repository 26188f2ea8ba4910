"""What figure and page both draw: losses and divergences against training steps, with their axes, and estimates."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, LongArray
from phloem.experiments.density.results import Band, DensityExperiment, Repeat, Variant
from phloem.report.charts import Tick, log_ticks
from phloem.report.wording import powers_of_ten

MARGIN = 0.08  # decades above and below all values
LINEAR = 0.7  # height, in decades, of the linear part of an excess axis, from 0 to the threshold
BELOW = 0.2  # height, in decades, below 0, so that a line at 0 is not at the edge
LEAST_THRESHOLD, USUAL_THRESHOLD = -9, -3  # powers of ten
SEEN = 0.4  # share of a mean down to which its deviation is shown at least
NEGLIGIBLE = 1e-6  # total target probability of the topologies that may be left out
DEPTH = 4  # decades by which estimates may be below the least target shown; lower ones are drawn at the edge
LOG_TEN = math.log(10)


class LogAxis(NamedTuple):
    """A logarithmic axis between two powers of ten; 0 and negative values are at its lower end."""

    low: float
    high: float

    def percents(self, values: FloatArray) -> FloatArray:
        """Heights above the lower end, in percent of the axis."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(values <= 0, self.low, np.log10(values))
        return np.asarray(100 * (np.maximum(logs, self.low) - self.low) / (self.high - self.low))

    def ticks(self) -> list[Tick]:
        """Powers of ten, with 2 and 5 times them where there are few."""
        return log_ticks(self.low, self.high)


class ExcessAxis(NamedTuple):
    """Linear from 0 to a power of ten and logarithmic above it, so that it shows both 0 and every decade."""

    threshold: int  # power of ten
    high: float  # power of ten

    def percents(self, values: FloatArray) -> FloatArray:
        """Heights above the lower end, in percent of the axis."""
        relative = values / 10.0**self.threshold
        with np.errstate(divide="ignore", invalid="ignore"):
            heights = np.where(relative < 1, LINEAR * relative, LINEAR + np.log10(relative))
        return np.asarray(100 * (np.maximum(heights, -BELOW) + BELOW) / (LINEAR + self.high - self.threshold + BELOW))

    def powers(self) -> list[int]:
        """The powers of ten that have ticks, from the threshold on; 0 has one as well."""
        return list(range(self.threshold, math.floor(self.high) + 1))

    def ticks(self) -> list[Tick]:
        """0 and the powers of ten."""
        places = self.percents(np.array([0.0, *(10.0**power for power in self.powers())])).tolist()
        return [Tick(place, label) for place, label in zip(places, ["0", *powers_of_ten(self.powers())], strict=True)]


def log_axis(values: Iterable[float]) -> LogAxis:
    """An axis that holds every positive value."""
    logs = [math.log10(value) for value in values if value > 0 and math.isfinite(value)] or [0.0]
    return LogAxis(min(logs) - MARGIN, max(logs) + MARGIN)


def excess_axis(values: Iterable[float]) -> ExcessAxis:
    """An axis whose threshold is below every positive value, as far as double precision can be trusted."""
    logs = [math.log10(value) for value in values if value > 0 and math.isfinite(value)] or [USUAL_THRESHOLD]
    threshold = max(math.floor(min(logs)), LEAST_THRESHOLD)
    return ExcessAxis(threshold, max(max(logs), threshold + 1) + MARGIN)


class Line(NamedTuple):
    """A repeat that stopped before the others of its variant and is not in the mean."""

    steps: LongArray
    values: FloatArray


class VariantCurve(NamedTuple):
    """The mean of a variant with its deviation, and the repeats that stopped early."""

    variant: Variant
    band: Band
    stopped: list[Line]


class ExcessCurves(NamedTuple):
    """Losses above J*."""

    curves: list[VariantCurve]
    axis: ExcessAxis


class DivergenceCurves(NamedTuple):
    """Divergences from the target to the models."""

    curves: list[VariantCurve]
    axis: LogAxis


def excess_curves(found: Sequence[Variant], best_loss: float) -> ExcessCurves:
    """The expected loss minus J*."""
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


def _line(steps: Sequence[int], values: FloatArray) -> Line:
    return Line(np.array(steps, np.int64), values)


def _values(curves: Sequence[VariantCurve]) -> Iterator[float]:
    """All values that an axis must hold. A deviation may reach down almost to 0, decades away: part of it will do."""
    for curve in curves:
        yield from curve.band.mean.tolist()
        if curve.band.deviation is not None:
            yield from (curve.band.mean + curve.band.deviation).tolist()
            yield from np.maximum(curve.band.mean - curve.band.deviation, curve.band.mean * SEEN).tolist()
        for line in curve.stopped:
            yield from line.values.tolist()


def last_step(found: Sequence[Variant]) -> int:
    """Where the axis of training steps ends."""
    return max(1, *(variant.steps for variant in found))


def repeats_in_words(found: Sequence[Variant]) -> str:
    """`3 repeats` or `2 to 3 repeats`, counting variants with a deviation only; empty where none has one."""
    counts = sorted({len(variant.repeats) for variant in found if len(variant.repeats) > 1})
    if not counts:
        return ""
    return f"{counts[0]} repeats" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} repeats"


class Estimates(NamedTuple):
    """Logarithms to base 10 of true and estimated topology probabilities, and how many topologies are not shown."""

    variant: Variant
    repeat: Repeat
    target: FloatArray  # (topologies,)
    model: FloatArray  # (topologies,)  not below the range
    zeros: int  # topologies of target probability 0
    tiny: int  # topologies left out because their targets, all below `least`, are negligible even together
    least: int  # a power of ten, not above any target shown
    too_low: int  # topologies whose estimate is below the range
    range: tuple[int, int]  # of the estimates, in whole decades; the targets' goes from `least` to the same end

    @property
    def cut(self) -> str:
        """`least` as text."""
        return powers_of_ten([self.least])[0]


def estimates(experiment: DensityExperiment, variant: Variant) -> Estimates:
    """The typical repeat's. A draw from a Dirichlet with small parameters has values down to 1e-300: too many decades.

    Topologies that are negligible together are left out, and estimates far below the others are drawn at the edge.
    """
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
