"""The live panel on a terminal: for each run a row of numbers and a sparkline of the ELBO."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import NamedTuple, TextIO, cast, get_args

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.panel import Panel as Frame
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from phloem.display import words
from phloem.display.events import Event, News, Notice, Overview, Phase
from phloem.display.words import PatientStderr, RunProgress
from phloem.errors import printable

BLOCKS = "▁▂▃▄▅▆▇█"
FARTHEST = 5.0  # logarithm: values about 150 units away, or more, are at the bottom or the top
GAPS = (3, 2)  # between columns, in order of preference
SHORTEST_LINE = 24  # least blocks of a sparkline to the right of the numbers
UNKNOWN = "–"
REFRESHES_PER_SECOND = 8
PHASES: tuple[Phase, ...] = get_args(Phase)  # in the order in which a run goes through them
HINT = "Ctrl-C stops; --resume continues"
FRAME_WIDTH = 4  # of the border and the space beside it
FRAME_HEIGHT = 5  # of the border, the bar, the empty line below it, and the line of the cursor


def sparkline(values: Sequence[float], width: int) -> str:
    """The values as blocks, at most `width` of them; where there are more values, a block is the mean of a few.

    Heights are signed logarithms of the distance from the recent values, in units of their recent variation, and at
    most `FARTHEST`: a distant start is compressed, and the last part still shows its ups and downs.
    """
    points = _means([value for value in values if math.isfinite(value)], width)
    if not points:
        return ""
    recent = points[-max(4, len(points) // 4) :]
    center = sorted(recent)[len(recent) // 2]
    unit = sum(abs(value - center) for value in recent) / len(recent) or 1.0
    distances = [(value - center) / unit for value in points]
    heights = [math.copysign(min(math.log1p(abs(distance)), FARTHEST), distance) for distance in distances]
    low, high = min(heights), max(heights)
    if low == high:
        return BLOCKS[len(BLOCKS) // 2] * len(points)
    return "".join(BLOCKS[round((height - low) / (high - low) * (len(BLOCKS) - 1))] for height in heights)


def _means(values: list[float], width: int) -> list[float]:
    """Means of at most `width` consecutive groups of about the same size."""
    groups = min(len(values), width)
    edges = [group * len(values) // groups for group in range(groups + 1)] if groups > 0 else []
    return [sum(values[start:end]) / (end - start) for start, end in pairwise(edges)]


class _Column(NamedTuple):
    heading: str
    cells: list[str]
    style: str = ""

    @property
    def width(self) -> int:
        return max(len(text) for text in (self.heading, *self.cells))


# Columns that may be dropped for lack of room, in this order.
EXPENDABLE = ["topologies", "temperature", "ELBO", "phase", "skipped", "steps/s"]


def run_table(runs: Sequence[RunProgress], steps: int, width: int, height: int) -> list[Text]:
    """The lines of a table with a row for every run, at most `width` wide and, if possible, `height` high.

    Sparklines are to the right of the numbers, or else below them, or left out if that takes too many lines.
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
    """All columns; runs, phases and skipped steps only where they tell something."""
    reports = [run.report for run in runs]
    speeds = [run.steps_per_second for run in runs]
    columns = []
    if len(runs) > 1:
        columns.append(_Column("run", [str(number) for number in range(1, len(runs) + 1)]))
    if len({run.phase for run in runs}) > 1:
        columns.append(_Column("phase", [run.phase or "waiting" for run in runs]))
    widest = len(f"{steps:,}")  # from the start, so that nothing moves when a digit is added
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
    """The columns that have room, and the gap between them."""
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
    """Headings and cells as lines, right-aligned in their columns."""
    rows = [Text(no_wrap=True, overflow="ellipsis") for _ in range(len(columns[0].cells) + 1)]
    for place, column in enumerate(columns):
        space = " " * gap if place else ""
        styles = ["dim", *[column.style] * len(column.cells)]
        for row, text, style in zip(rows, [column.heading, *column.cells], styles, strict=True):
            row.append(space + text.rjust(column.width), style)
    return rows


class Panel(AbstractContextManager["Panel"]):
    """Shows all runs in a few lines that are redrawn in place and vanish at the end; printed lines stay above.

    Rich draws it, from a separate thread.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, console: Console | None = None) -> None:
        self._clock = clock
        self._console = console or Console(file=cast(TextIO, PatientStderr()))
        self._start = clock()
        self._overview: Overview | None = None
        self._runs: list[RunProgress] = []
        # Held while events are processed and while the panel is drawn; never while something is printed, because
        # rich holds its own lock then and while it draws.
        self._lock = threading.Lock()
        self._live = Live(
            self,
            console=self._console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            redirect_stdout=False,  # results may go to a file and must not end up on the terminal
        )

    def __exit__(self, *_problem: object) -> None:
        """Remove the panel."""
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Print the event, or keep it for the next drawing."""
        match event:
            case Notice():
                self._print(words.notice_line(event), "yellow")
            case Overview():
                for line in words.overview_lines(event):
                    self._print(line)
                with self._lock:
                    self._overview = event
                    self._runs = [RunProgress() for _ in range(event.runs)]
                self._live.start()
            case News():
                with self._lock:
                    self._runs[event.run - 1].take(event, self._clock())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The panel as it is now."""
        if self._overview is not None:
            with self._lock:
                frame = self._frame(self._overview, options.max_width, console.height)
            yield frame
            yield Text()  # for the cursor: after the frame, the terminal's ^C would start a line that is never removed

    def _print(self, line: str, style: str = "") -> None:
        self._console.print(Text(line, style), highlight=False)

    def _frame(self, overview: Overview, width: int, height: int) -> Frame:
        phase = _slowest_phase(self._runs)
        parts: list[Table | Text] = [_bar(phase, self._runs)]
        if any(_rank(run) >= PHASES.index("training") for run in self._runs):
            table = run_table(self._runs, overview.steps, width - FRAME_WIDTH, height - FRAME_HEIGHT)
            parts += [Text(), *table]
        return Frame(
            Group(*parts),
            box=box.ROUNDED,
            border_style="dim",
            title=self._title(overview.source, phase, width),
            title_align="left",
            subtitle=Text(HINT, "dim"),
            subtitle_align="right",
        )

    def _title(self, source: str, phase: Phase, width: int) -> Text:
        rest = f" · {phase} · {words.clock_time(self._clock() - self._start)}"
        room = width - FRAME_WIDTH - 2 - len(rest)
        return Text.assemble((words.shortened(printable(source), room), "not dim bold"), (rest, "not dim"))


def _bar(phase: Phase, runs: list[RunProgress]) -> Table:
    """How much of the phase is done, over all runs, and the time left for the slowest."""
    place = PHASES.index(phase)
    heard = [run for run in runs if run.phase or place >= PHASES.index("training")]
    shares = [1.0 if _rank(run) > place else run.share if run.phase == phase else 0.0 for run in heard]
    share = sum(shares) / len(shares) if shares else 0.0
    at_work = [run.seconds_left for run in heard if _rank(run) <= place and run.share < 1]
    left = [seconds for seconds in at_work if seconds is not None]
    row = Table.grid(padding=(0, 0, 0, 2), expand=True)
    row.add_column(ratio=1)
    row.add_column(justify="right", no_wrap=True)
    cells: list[ProgressBar | Text] = [
        ProgressBar(total=1.0, completed=share, style="dim", complete_style="cyan", finished_style="green"),
        Text(f"{int(100 * share)} %"),
    ]
    if left and len(left) == len(at_work):  # else the speed of some run is not known yet
        row.add_column(justify="right", no_wrap=True)
        cells.append(Text(f"{words.rough_duration(max(left))} left"))
    row.add_row(*cells)
    return row


def _slowest_phase(runs: list[RunProgress]) -> Phase:
    """The earliest phase of all runs. What comes before training is done once, for all runs.

    A run without news is thus waiting for that preparation, and then for its own training.
    """
    heard = [_rank(run) for run in runs if run.phase]
    if len(heard) < len(runs):
        heard.append(PHASES.index("training"))
    return PHASES[min(heard)]


def _rank(run: RunProgress) -> int:
    """The place of the run's phase among all; -1 before its first news."""
    return -1 if run.phase is None else PHASES.index(run.phase)
