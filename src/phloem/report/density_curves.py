"""Loss and divergence of every variant against the training steps, with an axis that holds them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from phloem.kernels.arrays import FloatArray, LongArray
from phloem.report.density_scales import ExcessAxis, LogAxis, excess_axis, log_axis
from phloem.report.density_variants import Band, Variant

SEEN = 0.4  # of a mean: how far down its deviation is followed at least


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
