"""What the panel says of its runs: a row of numbers and a sparkline of the ELBO for each."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from phloem.display import words
from phloem.display.sparkline import sparkline
from phloem.display.speed import RunProgress

GAPS = (3, 2)  # between columns: the first that has room
SHORTEST_LINE = 24  # a sparkline to the right of the numbers has at least as many blocks
UNKNOWN = "–"


class _Column(NamedTuple):
    heading: str
    cells: list[str]
    style: str = ""

    @property
    def width(self) -> int:
        return max(len(text) for text in (self.heading, *self.cells))


# Which columns go first where there is no room. What is not listed stays.
EXPENDABLE = ["topologies", "temperature", "ELBO", "phase", "skipped", "steps/s"]


def run_table(runs: Sequence[RunProgress], steps: int, width: int, height: int) -> list[Text]:
    """The lines of a table with a row for every run, as wide as it may be, and at most `height` lines if possible.

    The sparklines stand to the right of the numbers, or else below them, or nowhere if that takes too many lines.
    """
    columns, gap = _fitting(_columns(runs, steps), width)
    headings, *rows = _rows(columns, gap)
    if not any(run.elbos for run in runs):
        return [headings, *rows]
    room = width - _total_width(columns, gap) - gap
    if room >= SHORTEST_LINE:
        headings.append(" " * gap + "ELBO so far", "dim")
        for row, run in zip(rows, runs, strict=True):
            row.append(" " * gap).append(sparkline(run.elbos, room), "cyan")
        return [headings, *rows]
    if 1 + 2 * len(runs) > height:
        return [headings, *rows]
    lines = [headings]
    label = " " * (columns[0].width + gap if len(runs) > 1 else 0) + "ELBO "
    for row, run in zip(rows, runs, strict=True):
        lines += [row, Text(label, "dim").append(sparkline(run.elbos, width - len(label)), "not dim cyan")]
    return lines


def _columns(runs: Sequence[RunProgress], steps: int) -> list[_Column]:
    """All that can be said; numbers of runs, phases and skipped steps only where there is something to tell."""
    reports = [run.report for run in runs]
    speeds = [run.steps_per_second for run in runs]
    columns = []
    if len(runs) > 1:
        columns.append(_Column("run", [str(number) for number in range(1, len(runs) + 1)]))
    if len({run.phase for run in runs}) > 1:
        columns.append(_Column("phase", [run.phase or "waiting" for run in runs]))
    widest = len(f"{steps:,}")  # from the beginning, so that nothing moves when a digit is added
    columns += [
        _Column("step", [f"{run.step:,}".rjust(widest) for run in runs]),
        _Column("bound", [UNKNOWN if report is None else words.nats(report.lower_bound) for report in reports], "bold"),
        _Column("ELBO", [UNKNOWN if report is None else words.nats(report.elbo) for report in reports]),
        _Column(
            "temperature",
            [UNKNOWN if report is None else words.temperature(report.inverse_temperature) for report in reports],
        ),
        _Column("steps/s", [UNKNOWN if speed is None else words.rate(speed) for speed in speeds]),
        _Column("topologies", [UNKNOWN if report is None else f"{report.topologies:,}" for report in reports]),
    ]
    skipped = [report.skipped if report else 0 for report in reports]
    if any(skipped):
        columns.append(_Column("skipped", [f"{count:,}" if count else "" for count in skipped], "yellow"))
    return columns


def _fitting(columns: list[_Column], width: int) -> tuple[list[_Column], int]:
    """The columns without the expendable ones that have no room, and the gap between them."""
    expendable = iter(EXPENDABLE)
    while True:
        for gap in GAPS:
            if _total_width(columns, gap) <= width:
                return columns, gap
        heading = next(expendable, None)
        if heading is None:
            return columns, GAPS[-1]
        columns = [column for column in columns if column.heading != heading]


def _total_width(columns: list[_Column], gap: int) -> int:
    return sum(column.width for column in columns) + gap * (len(columns) - 1)


def _rows(columns: list[_Column], gap: int) -> list[Text]:
    """The headings and the cells, each in a line, to the right of their columns."""
    rows = [Text(no_wrap=True, overflow="ellipsis") for _ in range(len(columns[0].cells) + 1)]
    for place, column in enumerate(columns):
        space = " " * gap if place else ""
        styles = ["dim", *[column.style] * len(column.cells)]
        for row, text, style in zip(rows, [column.heading, *column.cells], styles, strict=True):
            row.append(space + text.rjust(column.width), style)
    return rows
