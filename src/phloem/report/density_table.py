"""The results of the density experiment as rows: for a page, for JSON and for a terminal."""

from typing import NamedTuple

import numpy as np

from phloem.energy.records import DensityExperiment
from phloem.report.density_variants import Variant, variants


class DensityRow(NamedTuple):
    """What a variant has reached: means over the repeats that were trained to `steps`, deviations if there are two."""

    convolution: str
    repeats: int
    stopped: int  # repeats that ended before `steps`; they are in no mean
    steps: int
    divergence: float  # KL(target ‖ model), nats
    divergence_deviation: float | None
    excess_loss: float  # the expected loss less J*
    excess_loss_deviation: float | None
    seconds: float  # a repeat


def density_rows(experiment: DensityExperiment) -> list[DensityRow]:
    """A row for each variant that was trained, in the paper's order."""
    return [_row(variant, experiment.best_loss) for variant in variants(experiment)]


def _row(variant: Variant, best_loss: float) -> DensityRow:
    divergence, loss = variant.divergences, variant.losses
    return DensityRow(
        convolution=variant.convolution,
        repeats=len(variant.repeats),
        stopped=len(variant.stopped),
        steps=variant.steps,
        divergence=float(divergence.mean[-1]),
        divergence_deviation=None if divergence.deviation is None else float(divergence.deviation[-1]),
        excess_loss=float(loss.mean[-1]) - best_loss,
        excess_loss_deviation=None if loss.deviation is None else float(loss.deviation[-1]),
        seconds=float(np.mean([repeat.seconds for repeat in variant.repeats])),
    )
