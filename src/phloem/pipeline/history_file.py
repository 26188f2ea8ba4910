"""`history.csv`: a row a report, added while training goes."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from phloem.errors import FileProblem
from phloem.files import atomic_write, cannot_write, read_bytes
from phloem.inference.history import Report


class HistoryFile:
    """The file of a history. A row that could not be written, on a full disk, is written with the next."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows = -1  # on disk; -1 where that is not known

    def write(self, reports: Sequence[Report]) -> None:
        """Have these rows in the file and no others, with as little work as that takes."""
        if self._rows == len(reports) - 1 >= 0:
            self._append(reports[-1])
        else:
            self.rewrite(reports)

    def rewrite(self, reports: Sequence[Report]) -> None:
        """Write all rows, to stay."""
        self._rows = -1
        with atomic_write(self.path) as stream:
            stream.write((_line(Report._fields) + "".join(map(_row, reports))).encode())
        self._rows = len(reports)

    def _append(self, report: Report) -> None:
        self._rows, known = -1, self._rows
        try:
            with self.path.open("ab") as stream:
                stream.write(_row(report).encode())
        except OSError as problem:
            raise cannot_write(self.path, problem) from None
        self._rows = known + 1


def read_history(path: Path) -> list[Report]:
    """The rows of a history file."""
    try:
        rows = list(csv.reader(io.StringIO(read_bytes(path).decode(errors="replace"))))
        if not rows or tuple(rows[0]) != Report._fields:
            raise FileProblem(f"{path}: is no history of this version of phloem.")
        return list(map(Report.from_row, rows[1:]))
    except (ValueError, TypeError, csv.Error):
        raise FileProblem(f"{path}: is damaged. Make it again with --resume.") from None


def _row(report: Report) -> str:
    step, seconds, *rest = report
    return _line([step, f"{seconds:.3f}", *map(repr, rest)])


def _line(cells: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()
