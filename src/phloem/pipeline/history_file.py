"""`history.csv`: a row a report, added while training goes."""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from phloem.errors import FileProblem
from phloem.files import atomic_write, cannot_write, read_bytes


class ReportRow(Protocol):
    """A named tuple of numbers, of which the first two are the step and the seconds."""

    _fields: Any  # texts; mypy knows those of each named tuple as a type of their own

    def __iter__(self) -> Iterator[Any]: ...

    @classmethod
    def from_row(cls, row: Sequence[float | str]) -> Self: ...


R = TypeVar("R", bound=ReportRow)


class HistoryFile(Generic[R]):
    """The file of a history. A row that could not be written, on a full disk, is written with the next."""

    def __init__(self, path: Path, row_type: type[R]) -> None:
        self.path = path
        self._row_type = row_type
        self._rows = -1  # on disk; -1 where that is not known

    def write(self, reports: Sequence[R]) -> None:
        """Have these rows in the file and no others, with as little work as that takes."""
        if self._rows == len(reports) - 1 >= 0:
            self._append(reports[-1])
        else:
            self.rewrite(reports)

    def write_if_possible(self, reports: Sequence[R]) -> None:
        """The same, on a disk that may be full."""
        with suppress(FileProblem):  # the next report writes it, or the end of the run, and checkpoints hold it
            self.write(reports)

    def rewrite(self, reports: Sequence[R]) -> None:
        """Write all rows, to stay."""
        self._rows = -1
        with atomic_write(self.path) as stream:
            stream.write((_line(self._row_type._fields) + "".join(map(_row, reports))).encode())
        self._rows = len(reports)

    def _append(self, report: R) -> None:
        self._rows, known = -1, self._rows
        try:
            with self.path.open("ab") as stream:
                stream.write(_row(report).encode())
        except OSError as problem:
            raise cannot_write(self.path, problem) from None
        self._rows = known + 1


def read_history(path: Path, row_type: type[R]) -> list[R]:
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
