"""The live panel on a terminal."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TextIO, cast, get_args

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.panel import Panel as Frame
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from phloem.display import words
from phloem.display.news import Event, News, Notice, Overview, Phase
from phloem.display.run_table import run_table
from phloem.display.speed import RunProgress
from phloem.display.stderr import PatientStderr

REFRESHES_PER_SECOND = 8
PHASES: tuple[Phase, ...] = get_args(Phase)  # in the order in which a run goes through them
HINT = "Ctrl-C stops; --resume goes on"
FRAME_WIDTH = 4  # of the border and the space beside it
FRAME_HEIGHT = 5  # of the border, the bar, the empty line below it, and the line of the cursor


class Panel(AbstractContextManager["Panel"]):
    """Shows all runs in a few lines that are redrawn in place and vanish at the end; what is printed stays above.

    Rich draws it, from a thread of its own.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, console: Console | None = None) -> None:
        self._clock = clock
        self._console = console or Console(file=cast(TextIO, PatientStderr()))
        self._start = clock()
        self._overview: Overview | None = None
        self._runs: list[RunProgress] = []
        # Held while events are taken in and while the panel is drawn; never while something is printed, as rich
        # holds a lock of its own then and while it draws.
        self._lock = threading.Lock()
        self._live = Live(
            self,
            console=self._console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            redirect_stdout=False,  # results may go to a file, and must not end up on the terminal instead
        )

    def __exit__(self, *_problem: object) -> None:
        """Remove the panel."""
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Print the event, or take it in for the next drawing."""
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
            yield Text()  # for the cursor: behind the frame, the terminal's ^C would begin a line that no one removes

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
        return Text.assemble((words.shortened(words.one_line(source), room), "not dim bold"), (rest, "not dim"))


def _bar(phase: Phase, runs: list[RunProgress]) -> Table:
    """How much of the phase is done, over all runs, and how long the slowest one still needs."""
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
    if left and len(left) == len(at_work):  # else some run is slower in a way that no one knows yet
        row.add_column(justify="right", no_wrap=True)
        cells.append(Text(f"{words.rough_duration(max(left))} left"))
    row.add_row(*cells)
    return row


def _slowest_phase(runs: list[RunProgress]) -> Phase:
    """The phase of the run that is least far. What comes before the training is done once, for all runs.

    A run of which nothing has been heard thus waits for the others' preparation, and then for its own training.
    """
    heard = [_rank(run) for run in runs if run.phase]
    if len(heard) < len(runs):
        heard.append(PHASES.index("training"))
    return PHASES[min(heard)]


def _rank(run: RunProgress) -> int:
    """The place of the run's phase among all; -1 while nothing has been heard of it."""
    return -1 if run.phase is None else PHASES.index(run.phase)
