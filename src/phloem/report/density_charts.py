"""The panels of the density experiment as a page draws them: in a box of 1000 by 1000, axes in percents."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phloem.kernels.arrays import FloatArray, LongArray
from phloem.report.charts import RUN_LOOKS, curve_points
from phloem.report.density_curves import VariantCurve, divergence_curves, excess_curves, last_step
from phloem.report.density_estimates import Estimates
from phloem.report.density_scales import ExcessAxis, LogAxis
from phloem.report.density_variants import Variant
from phloem.report.scales import Tick, ticks, whole_powers
from phloem.report.wording import powers_of_ten

MARGIN = 0.02  # of the axis, below the least value: dots are not cut by the edge


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
    margin = MARGIN * (high - low)
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
