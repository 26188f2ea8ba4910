"""Results of the density experiment: repeats, variants with means and deviations, and rows of a table.

Nothing here imports torch, so that drawing a figure need not wait for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, LongArray
from phloem.config.density import VARIANTS
from phloem.errors import BadArgument


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """One training of the experiment: a variant with a seed. Losses are expectations over all topologies."""

    convolution: str  # gcn, gin, sage, ggnn, edge or mlp
    seed: int
    seconds: float
    steps: tuple[int, ...]  # of its reports
    losses: tuple[float, ...]  # expected loss at these steps
    divergences: tuple[float, ...]  # KL(target ‖ model), the model normalised over all topologies
    log_probabilities: FloatArray  # (topologies,)  of the trained model, normalised, in the order of the target


@dataclass(frozen=True, slots=True, eq=False)
class DensityExperiment:
    """The paper's experiment: variants trained to a known target over all topologies of a few taxa."""

    taxa: int
    target: FloatArray  # (topologies,)  probabilities that sum to one; many may be 0
    best_loss: float  # J*, which no model can go below
    planned_steps: int
    repeats: tuple[Repeat, ...]


class Band(NamedTuple):
    """A value at each report, averaged over repeats."""

    steps: LongArray  # (reports,)
    mean: FloatArray  # (reports,)
    deviation: FloatArray | None  # (reports,)  standard; None with a single repeat

    def shifted(self, by: float) -> "Band":
        """The same band with a constant added to the mean."""
        return self._replace(mean=self.mean + by)


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """All repeats of a convolution. Means are over those that were trained longest: the others have no final value."""

    convolution: str
    place: int  # among the paper's variants, others after them: it fixes the colour in every picture
    repeats: tuple[Repeat, ...]  # one or more, with the same last step
    stopped: tuple[Repeat, ...]  # repeats that stopped before the others

    @property
    def name(self) -> str:
        """As figures and pages write it."""
        return self.convolution.upper()

    @property
    def steps(self) -> int:
        """How many steps it was trained."""
        return self.repeats[0].steps[-1]

    @property
    def losses(self) -> Band:
        """The expected loss at the steps for which all repeats have a report."""
        return _band([(repeat.steps, repeat.losses) for repeat in self.repeats])

    @property
    def divergences(self) -> Band:
        """The same for the divergence."""
        return _band([(repeat.steps, repeat.divergences) for repeat in self.repeats])

    @property
    def typical(self) -> Repeat:
        """The repeat whose last divergence is the median, the lower of two."""
        ordered = sorted(self.repeats, key=lambda repeat: _or_infinite(repeat.divergences[-1]))
        return ordered[(len(ordered) - 1) // 2]


def variants(experiment: DensityExperiment) -> list[Variant]:
    """The variants that were trained, in the paper's order; repeats without any report do not count."""
    _check(experiment)
    seen = {repeat.convolution: True for repeat in experiment.repeats if repeat.steps}
    if not seen:
        raise BadArgument("density experiment: no repeat has a report. Train a variant first.")
    order = [*VARIANTS, *(name for name in seen if name not in VARIANTS)]
    found = []
    for place, convolution in enumerate(order):
        repeats = [repeat for repeat in experiment.repeats if repeat.convolution == convolution and repeat.steps]
        if repeats:
            last = max(repeat.steps[-1] for repeat in repeats)
            full = tuple(repeat for repeat in repeats if repeat.steps[-1] == last)
            found.append(
                Variant(convolution, place, full, tuple(repeat for repeat in repeats if repeat.steps[-1] < last))
            )
    return found


def chosen_variant(found: Sequence[Variant], convolution: str | None = None) -> Variant:
    """The variant of that name, or else the one whose last mean divergence is smallest."""
    if convolution is None:
        return min(found, key=lambda variant: _or_infinite(float(variant.divergences.mean[-1])))
    for variant in found:
        if variant.convolution == convolution.lower():
            return variant
    names = ", ".join(variant.convolution for variant in found)
    raise BadArgument(f"density experiment: no repeat of {convolution!r}. Choose one of {names}.")


def _band(curves: Sequence[tuple[Sequence[int], Sequence[float]]]) -> Band:
    tables = [dict(zip(steps, values, strict=True)) for steps, values in curves]
    shared = sorted(set.intersection(*(set(table) for table in tables)))
    values = np.array([[table[step] for step in shared] for table in tables], np.float64)  # (repeats, reports)
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else None
    return Band(np.array(shared, np.int64), values.mean(axis=0), deviation)


def _check(experiment: DensityExperiment) -> None:
    if not experiment.target.sum() > 0:
        raise BadArgument("density experiment: no topology has a target above 0. Give probabilities that sum to one.")
    for repeat in experiment.repeats:
        where = f"density experiment, {repeat.convolution} with seed {repeat.seed}"
        if not len(repeat.steps) == len(repeat.losses) == len(repeat.divergences):
            raise BadArgument(f"{where}: steps, losses and divergences differ in number. Give one of each per report.")
        if repeat.log_probabilities.shape != experiment.target.shape:
            raise BadArgument(
                f"{where}: {repeat.log_probabilities.size:,} probabilities for {experiment.target.size:,} topologies. "
                "Give one each."
            )


def _or_infinite(value: float) -> float:
    """A sort key that puts nan last."""
    return value if np.isfinite(value) else np.inf


class DensityRow(NamedTuple):
    """A variant at the end of training: means over the repeats that got to `steps`, deviations if there are two."""

    convolution: str
    repeats: int
    stopped: int  # repeats that stopped before `steps`, in no mean
    steps: int
    divergence: float  # KL(target ‖ model), nats
    divergence_deviation: float | None
    excess_loss: float  # expected loss minus J*
    excess_loss_deviation: float | None
    seconds: float  # per repeat


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
