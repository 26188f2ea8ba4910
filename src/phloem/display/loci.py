"""The progress of many loci: a panel on a terminal, lines elsewhere, or failures alone."""

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TextIO, cast

from phloem.display import words
from phloem.display.lines import SILENCE_SECONDS, Ticks, shows_panels, ticking
from phloem.display.words import PatientStderr, complain, say
from phloem.errors import counted, printable
from phloem.runs.pool import TaskEvent

MOST_ROWS = 12  # loci at work that the panel shows
LONGEST_NAME = 30
HINT = "Ctrl-C stops; the same command goes on"


class LociOverview(NamedTuple):
    """What is about to be done; sent first, once."""

    directory: Path
    loci: int
    done: int  # before
    jobs: int
    threads: int  # of each


class LociDisplay(Protocol):
    """Takes the events of many loci, within a `with` statement."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

    def __call__(self, event: LociOverview | TaskEvent) -> None:
        """Show the event, or not."""


def choose_loci_display(*, plain: bool, quiet: bool) -> LociDisplay:
    """The panel on a terminal that can show it; lines elsewhere, or if `plain`; failures alone if `quiet`."""
    if quiet:
        return QuietLoci()
    return LociLines() if plain or not shows_panels() else LociPanel()


class Tally:
    """What is known of all loci, from the events so far."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = clock()
        self.overview = LociOverview(Path(), 0, 0, 1, 1)
        self.done = self.failed = 0  # in this session, as the next
        self.at_work: dict[str, tuple[str, float]] = {}  # the phase of each locus, and its share

    def take(self, event: LociOverview | TaskEvent) -> None:
        """Take an event into account."""
        if isinstance(event, LociOverview):
            self.overview = event
        elif event.kind == "begun":
            self.at_work[event.name] = ("starting", 0.0)
        elif event.kind == "news":
            self.at_work[event.name] = (event.text, event.share)
        elif event.kind in ("done", "failed", "lost"):
            self.at_work.pop(event.name, None)
            self.done += event.kind == "done"
            self.failed += event.kind == "failed"

    @property
    def ended(self) -> int:
        """Loci that are done or have failed, now or before."""
        return self.overview.done + self.done + self.failed

    @property
    def seconds(self) -> float:
        """Since the start."""
        return self._clock() - self._start

    @property
    def seconds_left(self) -> float | None:
        """At the speed of this session; None until a locus is done."""
        left = self.overview.loci - self.ended
        return left * self.seconds / self.done if self.done and left else None

    def in_words(self) -> str:
        """`12 of 200 done, 1 failed, 3 h left`."""
        parts = [f"{self.overview.done + self.done:,} of {self.overview.loci:,} done"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.seconds_left is not None:
            parts.append(f"{words.rough_duration(self.seconds_left)} left")
        return ", ".join(parts)


def overview_line(overview: LociOverview) -> str:
    """What is about to be done, in a line."""
    before = f", {overview.done:,} done before" if overview.done else ""
    at_once = f"{counted(overview.jobs, 'job')} of {counted(overview.threads, 'thread')}"
    return (
        f"{counted(overview.loci, 'locus', 'loci')}{before}; {at_once}; directory {printable(str(overview.directory))}"
    )


def result_in_words(event: TaskEvent) -> str:
    """`good, log p(Y) -1234.56 ± 0.02, 1:20`."""
    result: Any = event.result or {}
    likelihood, error = result.get("log_marginal_likelihood"), result.get("error")
    parts = [str(result.get("verdict", ""))]
    if likelihood is not None and error is not None:
        parts.append(f"log p(Y) {likelihood:.2f} ± {error:.2f}")
    parts.append(words.clock_time(result.get("seconds", 0.0)))
    return ", ".join(part for part in parts if part)


def trouble_in_words(event: TaskEvent) -> str | None:
    """What the user should see of a locus in any display: failures, lost processes and notices."""
    name = printable(event.name)
    if event.kind == "failed":
        return f"{name}: failed: {event.text}"
    if event.kind == "lost":
        return f"{name}: {event.text} Another one goes on with it."
    return f"{name}: {event.text}" if event.kind == "notice" else None


class QuietLoci(AbstractContextManager["QuietLoci"]):
    """Shows what goes wrong and nothing else."""

    def __exit__(self, *_problem: object) -> None:
        """Nothing is left open."""

    def __call__(self, event: LociOverview | TaskEvent) -> None:
        """Show the event if something went wrong."""
        if isinstance(event, TaskEvent) and event.kind in ("failed", "lost"):
            complain(trouble_in_words(event) or "")


class LociLines(AbstractContextManager["LociLines"]):
    """Prints a line for every locus that ends, and one where there was none for half a minute."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, ticks: Ticks = ticking) -> None:
        self._clock = clock
        self._tally = Tally(clock)
        self._last = clock()
        self._lock = Lock()  # events come from the main thread, ticks from another
        self._ticking = ticks(self.tick)

    def __enter__(self) -> Self:
        self._ticking.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """End the ticks."""
        self._ticking.__exit__(kind, problem, traceback)

    def __call__(self, event: LociOverview | TaskEvent) -> None:
        """Print the event if a line is due."""
        with self._lock:
            self._tally.take(event)
            if isinstance(event, LociOverview):
                self._say([overview_line(event)])
            elif event.kind == "done":
                self._say([f"{printable(event.name)}: {result_in_words(event)}   ({self._tally.in_words()})"])
            elif (trouble := trouble_in_words(event)) is not None:
                self._last = self._clock()
                complain(trouble)

    def tick(self) -> None:
        """Print where all loci are if nothing was printed for half a minute."""
        with self._lock:
            if self._clock() - self._last >= SILENCE_SECONDS:
                at_work = [f"{printable(name)} {where}" for name, where in _at_work(self._tally)]
                so_far = f"{words.clock_time(self._tally.seconds)} so far"
                self._say(["   ".join([self._tally.in_words(), so_far, *at_work])])

    def _say(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._last = self._clock()
            say(line)


def _at_work(tally: Tally) -> list[tuple[str, str]]:
    """The loci at work, the first few, each with `training 40 %`."""
    shown = list(tally.at_work.items())[:MOST_ROWS]
    return [(name, f"{phase} {int(100 * share)} %") for name, (phase, share) in shown]


class LociPanel(AbstractContextManager["LociPanel"]):
    """Shows how many loci are done, and those at work, in lines that are redrawn in place and vanish at the end.

    What goes wrong is printed above and stays.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, file: TextIO | None = None) -> None:
        from rich.console import Console  # here and below, as rich is slow to import
        from rich.live import Live

        self._tally = Tally(clock)
        self._lock = Lock()  # events come from the main thread, drawings from another
        self._console = Console(file=file or cast(TextIO, PatientStderr()))
        self._live = Live(
            console=self._console,
            get_renderable=self._drawn,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
        )

    def __exit__(self, *_problem: object) -> None:
        """Remove the panel."""
        self._live.stop()

    def __call__(self, event: LociOverview | TaskEvent) -> None:
        """Print the event, or keep it for the next drawing."""
        from rich.text import Text

        with self._lock:
            self._tally.take(event)
        if isinstance(event, LociOverview):
            self._console.print(Text(overview_line(event)), highlight=False)
            self._live.start()
        elif (trouble := trouble_in_words(event)) is not None:
            self._console.print(Text(f"phloem: {printable(trouble)}", "yellow"), highlight=False)

    def _drawn(self) -> Any:
        """The panel as it is now."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            overview, said = self._tally.overview, self._tally.in_words()
            ended, seconds, rows = self._tally.ended, self._tally.seconds, _at_work(self._tally)
        bar = ProgressBar(total=max(1, overview.loci), completed=ended, style="dim", complete_style="cyan")
        table = Table.grid(padding=(0, 3, 0, 0))
        for name, where in rows:
            table.add_row(Text(words.shortened(printable(name), LONGEST_NAME)), Text(where, "dim"))
        title = f"{printable(str(overview.directory))} · {words.clock_time(seconds)}"
        return Group(
            Panel(
                Group(bar, Text(said), table),
                border_style="dim",
                title=Text(title, "not dim"),
                title_align="left",
                subtitle=Text(HINT, "dim"),
                subtitle_align="right",
            ),
            Text(),  # for the cursor, as in the panel of a run
        )
