"""The history of a training: a report every now and then, and what has been seen since the last."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from phloem.kernels.arrays import FloatArray


class Report(NamedTuple):
    """A line of the history."""

    step: int
    seconds: float  # of training, over all sessions
    inverse_temperature: float
    lower_bound: float  # of the tempered target, the mean over the steps since the last report
    elbo: float  # of the target itself
    topologies: int  # distinct ones among the draws that gave the ELBO
    skipped: int  # steps so far that moved nothing, as their bound or gradient was no finite number

    @classmethod
    def from_row(cls, row: Sequence[float | str]) -> "Report":
        """From the numbers of a table's row, or their text."""
        step, seconds, inverse_temperature, lower_bound, elbo, topologies, skipped = row
        return cls(
            int(step),
            float(seconds),
            float(inverse_temperature),
            float(lower_bound),
            float(elbo),
            int(topologies),
            int(skipped),
        )


class AnyReport(Protocol):
    """A named tuple of numbers, one of which is the step."""

    @property
    def step(self) -> int: ...


R = TypeVar("R", bound=AnyReport)


@dataclass(slots=True)
class StepHistory(Generic[R]):
    """All reports so far, what the steps since the last one have given, and how long training has taken."""

    report_type: ClassVar[Any]
    reports: list[R] = field(default_factory=list)
    recent: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def last_step(self) -> int:
        """The step of the last report, 0 before the first."""
        return self.reports[-1].step if self.reports else 0

    def as_arrays(self) -> dict[str, FloatArray]:
        """The same as arrays, exactly."""
        return {
            "reports": np.array(self.reports, np.float64).reshape(-1, len(self.report_type._fields)),
            "bounds": np.array(self.recent, np.float64),
            "seconds": np.array([self.seconds]),
        }

    @classmethod
    def from_arrays(cls, reports: FloatArray, bounds: FloatArray, seconds: FloatArray) -> Self:
        """The history that `as_arrays` was made of."""
        return cls(list(map(cls.report_type.from_row, reports.tolist())), bounds.tolist(), float(seconds[0]))


class History(StepHistory[Report]):
    """The history of a posterior's training: `recent` has the bounds of the steps since the last report."""

    report_type = Report
