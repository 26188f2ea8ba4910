"""The history of a training: a report at each report step, in memory and in `history.csv`."""

import csv
import importlib.util
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from phloem.arrays import FloatArray
from phloem.errors import FileProblem, ProgramProblem
from phloem.storage.files import atomic_write, cannot_write, read_bytes

FIRST_NAME = "bounds"  # of the recent values in checkpoints, before each kind of report named its own


class ReportRow(Protocol):
    """A named tuple of numbers, of which the first two are the step and the seconds."""

    _fields: Any  # texts; mypy knows those of each named tuple as a type of their own

    @property
    def step(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    @classmethod
    def from_row(cls, row: Sequence[float | str]) -> Self: ...

    @classmethod
    def recent_name(cls) -> str:
        """What the values of the steps between two reports are, such as "bounds"."""


Row = TypeVar("Row", bound=ReportRow)


@dataclass(slots=True)
class History(Generic[Row]):
    """All reports so far, the values of the steps since the last one, and how long training has taken."""

    report_type: type[Row]
    reports: list[Row] = field(default_factory=list)
    recent: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def last_step(self) -> int:
        """The step of the last report, 0 before the first."""
        return self.reports[-1].step if self.reports else 0

    @property
    def recent_mean(self) -> float:
        """The mean of the recent values; not a number if there are none."""
        return float(np.mean(self.recent)) if self.recent else float("nan")

    def as_arrays(self) -> dict[str, FloatArray]:
        """The same as arrays, exactly."""
        return {
            "reports": np.array(self.reports, np.float64).reshape(-1, len(self.report_type._fields)),
            self.report_type.recent_name(): np.array(self.recent, np.float64),
            "seconds": np.array([self.seconds]),
        }

    @classmethod
    def from_arrays(cls, report_type: type[Row], arrays: dict[str, FloatArray]) -> "History[Row]":
        """The history that `as_arrays` was made of."""
        name = report_type.recent_name()
        recent = arrays[name if name in arrays else FIRST_NAME]
        reports = list(map(report_type.from_row, arrays["reports"].tolist()))
        return cls(report_type, reports, recent.tolist(), float(arrays["seconds"][0]))


class HistoryFile(Generic[Row]):
    """`history.csv`. A row that could not be written, on a full disk, is written with the next."""

    def __init__(self, path: Path, report_type: type[Row]) -> None:
        self.path = path
        self._report_type = report_type
        self._rows = -1  # on disk; -1 if that is not known

    def write(self, reports: Sequence[Row]) -> None:
        """Make the file hold exactly these rows, with as little work as possible."""
        if self._rows == len(reports) - 1 >= 0 and self._is_ours():
            self._append(reports[-1])
        else:
            self.rewrite(reports)

    def write_if_possible(self, reports: Sequence[Row]) -> None:
        """The same, on a disk that may be full."""
        with suppress(FileProblem):  # the next report writes it, or the end of the run, and checkpoints hold it
            self.write(reports)

    def rewrite(self, reports: Sequence[Row]) -> None:
        """Write all rows, whole or not at all."""
        self._rows = -1
        with atomic_write(self.path) as stream:
            stream.write((_line(self._report_type._fields) + "".join(map(_row, reports))).encode())
        self._rows = len(reports)

    def _is_ours(self) -> bool:
        """Whether the file has no other name, by a link, under which it must not grow."""
        with suppress(OSError):
            return not self.path.is_symlink() and self.path.stat().st_nlink == 1
        return False

    def _append(self, report: Row) -> None:
        self._rows, known = -1, self._rows
        try:
            with self.path.open("ab") as stream:
                stream.write(_row(report).encode())
        except OSError as problem:
            raise cannot_write(self.path, problem) from None
        self._rows = known + 1


def read_history(path: Path, report_type: type[Row]) -> list[Row]:
    """The rows of a history file."""
    try:
        rows = list(csv.reader(io.StringIO(read_bytes(path).decode(errors="replace"))))
        if not rows or tuple(rows[0]) != report_type._fields:
            raise FileProblem(f"{path}: is not a history that this version of phloem reads.")
        return list(map(report_type.from_row, rows[1:]))
    except (ValueError, TypeError, csv.Error):
        raise FileProblem(f"{path}: is damaged. Make it again with --resume.") from None


def _row(report: ReportRow) -> str:
    step, seconds, *rest = report
    return _line([step, f"{seconds:.3f}", *map(repr, rest)])


def _line(cells: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


class TensorBoard:
    """Reports as scalars in a folder for TensorBoard, if enabled; earlier ones later than step `last` are purged."""

    def __init__(self, folder: Path, last: int, *, enabled: bool) -> None:
        self._writer: Any = None
        if enabled:
            check_tensorboard()
            from torch.utils.tensorboard import SummaryWriter  # optional, and slow to load

            self._writer = SummaryWriter(str(folder), purge_step=last + 1)

    def add(self, report: Any) -> None:
        """Write a report."""
        if self._writer is not None:
            for name, value in report._asdict().items():
                if name not in ("step", "seconds"):
                    self._writer.add_scalar(name, value, report.step)

    def __enter__(self) -> "TensorBoard":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _problem: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()


def check_tensorboard() -> None:
    """Raise unless TensorBoard is installed: better before long work than during it."""
    if importlib.util.find_spec("tensorboard") is None:
        raise ProgramProblem("--tensorboard: TensorBoard is not installed. `pip install phloem[tensorboard]`.")
