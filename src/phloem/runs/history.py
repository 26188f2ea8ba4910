"""The history of a training: a report every now and then, in memory and in `history.csv`."""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from phloem.arrays import FloatArray
from phloem.errors import FileProblem
from phloem.storage.files import atomic_write, cannot_write, read_bytes


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


class ReportRow(Protocol):
    """A named tuple of numbers, of which the first two are the step and the seconds."""

    _fields: Any  # texts; mypy knows those of each named tuple as a type of their own

    def __iter__(self) -> Iterator[Any]: ...

    @classmethod
    def from_row(cls, row: Sequence[float | str]) -> Self: ...


Row = TypeVar("Row", bound=ReportRow)


class HistoryFile(Generic[Row]):
    """The file of a history. A row that could not be written, on a full disk, is written with the next."""

    def __init__(self, path: Path, row_type: type[Row]) -> None:
        self.path = path
        self._row_type = row_type
        self._rows = -1  # on disk; -1 where that is not known

    def write(self, reports: Sequence[Row]) -> None:
        """Have these rows in the file and no others, with as little work as that takes."""
        if self._rows == len(reports) - 1 >= 0:
            self._append(reports[-1])
        else:
            self.rewrite(reports)

    def write_if_possible(self, reports: Sequence[Row]) -> None:
        """The same, on a disk that may be full."""
        with suppress(FileProblem):  # the next report writes it, or the end of the run, and checkpoints hold it
            self.write(reports)

    def rewrite(self, reports: Sequence[Row]) -> None:
        """Write all rows, to stay."""
        self._rows = -1
        with atomic_write(self.path) as stream:
            stream.write((_line(self._row_type._fields) + "".join(map(_row, reports))).encode())
        self._rows = len(reports)

    def _append(self, report: Row) -> None:
        self._rows, known = -1, self._rows
        try:
            with self.path.open("ab") as stream:
                stream.write(_row(report).encode())
        except OSError as problem:
            raise cannot_write(self.path, problem) from None
        self._rows = known + 1


def read_history(path: Path, row_type: type[Row]) -> list[Row]:
    """The rows of a history file."""
    try:
        rows = list(csv.reader(io.StringIO(read_bytes(path).decode(errors="replace"))))
        if not rows or tuple(rows[0]) != row_type._fields:
            raise FileProblem(f"{path}: is no history of this version of phloem.")
        return list(map(row_type.from_row, rows[1:]))
    except (ValueError, TypeError, csv.Error):
        raise FileProblem(f"{path}: is damaged. Make it again with --resume.") from None


def _row(report: ReportRow) -> str:
    step, seconds, *rest = report
    return _line([step, f"{seconds:.3f}", *map(repr, rest)])


def _line(cells: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()
