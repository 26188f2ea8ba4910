"""The density experiment as one self-contained HTML file: the page, and its panels as SVG."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, LongArray
from phloem.experiments.density.charts import (
    NEGLIGIBLE,
    Estimates,
    ExcessAxis,
    LogAxis,
    VariantCurve,
    divergence_curves,
    estimates,
    excess_curves,
    last_step,
    repeats_in_words,
)
from phloem.experiments.density.results import DensityExperiment, Variant, chosen_variant, density_rows, variants
from phloem.report.charts import RUN_LOOKS, Tick, curve_points, ticks, whole_powers
from phloem.report.contents import PAPER, phloem_version
from phloem.report.pages import render_page
from phloem.report.wording import powers_of_ten

EDGE = 0.02  # share of the axis below the least value, so that dots are not cut off


def density_page(
    experiment: DensityExperiment, *, convolution: str | None = None, published: Mapping[str, float] | None = None
) -> str:
    """The figure's three panels, the results as a table, and what they mean. The same experiment gives the same text.

    convolution: whose estimates are shown; by default the one that ends nearest to the target.
    published: milliseconds a training step of the published code, by convolution, for a column beside ours.
    """
    found = variants(experiment)
    rows = density_rows(experiment)
    shown = estimates(experiment, chosen_variant(found, convolution))
    return render_page(
        "density.html",
        package="phloem.experiments.density",
        experiment=experiment,
        topologies=len(experiment.target),
        rows=rows,
        best=next(row for row in rows if row.convolution == chosen_variant(found).convolution),
        published=published,
        variants=found,
        looks={variant.convolution: look_of(variant) for variant in found},
        repeats=repeats_in_words(found),
        has_early=any(variant.stopped for variant in found),
        losses=loss_chart(found, experiment.best_loss),
        divergences=divergence_chart(found),
        estimates=shown,
        negligible=f"{NEGLIGIBLE * 1e6:g} in a million",
        scatter=scatter(shown),
        release=phloem_version({}),
        paper=PAPER,
    )


class DrawnLine(NamedTuple):
    """A mean, or a repeat that stopped early."""

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
    """Dots, with the diagonal on which estimates are exact."""

    dots: str
    look: int
    diagonal: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]


def look_of(variant: Variant) -> int:
    """The number of its colour in the style sheet."""
    return variant.place % RUN_LOOKS


def loss_chart(found: Sequence[Variant], best_loss: float) -> StepChart:
    """Expected losses above J*, which is the zero of the axis."""
    curves, axis = excess_curves(found, best_loss)
    return _step_chart(curves, axis, last_step(found), float(axis.percents(np.zeros(1))[0]))


def divergence_chart(found: Sequence[Variant]) -> StepChart:
    """Divergences from the target to the models."""
    curves, axis = divergence_curves(found)
    return _step_chart(curves, axis, last_step(found), None)


def scatter(found: Estimates) -> Scatter:
    """Estimated against true probabilities. Dots are lines of length 0 with round caps: stretching spares caps."""
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
    """Points of a line, nan left out; a single point comes twice, as a line needs two."""
    finite = np.isfinite(percents)
    line = list(zip(steps[finite].tolist(), percents[finite].tolist(), strict=True))
    points = curve_points(line, last, 0.0, 100.0).split() if line else []
    return points * 2 if len(points) == 1 else points


def _power_ticks(powers: list[int], low: float, high: float) -> list[Tick]:
    labels = powers_of_ten(powers)
    return [Tick(100 * (power - low) / (high - low), label) for power, label in zip(powers, labels, strict=True)]
