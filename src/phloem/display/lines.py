"""Displays that print lines, for files and pipes; and the choice of a display."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from phloem.display import words
from phloem.display.events import Event as RunEvent
from phloem.display.events import News, Notice, Overview
from phloem.display.words import PatientStderr, RunProgress, say
from phloem.errors import counted
from phloem.interrupts import held

if TYPE_CHECKING:
    from phloem.inference.training import Report

SILENCE_SECONDS = 30.0  # without a line, at most
TICK_SECONDS = 2.0
JOIN_SECONDS = 5.0


class Display(Protocol):
    """Takes the events of a run, within a `with` statement."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

    def __call__(self, event: RunEvent) -> None:
        """Show the event, or not."""


def choose_display(*, plain: bool, quiet: bool) -> Display:
    """The panel on a terminal that can show it; lines elsewhere, or if `plain`."""
    if quiet:
        return Quiet()
    if plain or not shows_panels():
        return Lines()
    from phloem.display.panel import Panel  # imported here because rich is slow to import

    return Panel()


def shows_panels() -> bool:
    """Whether standard error is a terminal that can move its cursor and knows block characters."""
    stream = PatientStderr()
    if not stream.isatty() or not stream.encoding.lower().startswith("utf"):
        return False
    from rich.console import Console

    console = Console(file=sys.stderr)
    return console.is_interactive and not console.is_jupyter


class Quiet(AbstractContextManager["Quiet"]):
    """Shows notices and nothing else."""

    def __exit__(self, *_problem: object) -> None:
        """Nothing is left open."""

    def __call__(self, event: RunEvent) -> None:
        """Show the event if it is a notice."""
        if isinstance(event, Notice) and event.urgent:
            say(words.notice_line(event))


Ticks = Callable[[Callable[[], None]], AbstractContextManager[None]]


@contextmanager
def ticking(tick: Callable[[], None]) -> Iterator[None]:
    """Call a function every few seconds, from another thread: what takes long may have no news meanwhile."""
    ended = Event()

    def work() -> None:
        while not ended.wait(TICK_SECONDS):
            tick()

    thread = Thread(target=work, daemon=True)
    try:
        with held():  # a thread whose start is interrupted would keep Python from ever ending
            thread.start()
        yield
    finally:
        ended.set()
        thread.join(JOIN_SECONDS)  # not for ever: it may wait for a reader of standard error


class Lines(AbstractContextManager["Lines"]):
    """Prints the overview, a line at the start of each phase, one for every tenth of training, and one where there
    was none for half a minute."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, ticks: Ticks = ticking) -> None:
        self._clock = clock
        self._start = self._last = clock()
        self._several = False
        self._runs: dict[int, _Run] = {}
        self._lock = Lock()  # events come from the main thread, ticks from another
        self._ticking = ticks(self.tick)

    def __enter__(self) -> Self:
        self._ticking.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        """End the ticks."""
        self._ticking.__exit__(kind, problem, traceback)

    def __call__(self, event: RunEvent) -> None:
        """Print the event if a line is due."""
        with self._lock:
            match event:
                case Notice():
                    self._say([words.notice_line(event)])
                case Overview():
                    self._several = event.runs > 1
                    self._say(words.overview_lines(event))
                case News():
                    run = self._runs.setdefault(event.run, _Run())
                    self._say(self._prefix(event.run) + line for line in run.lines(event, self._clock()))

    def tick(self) -> None:
        """Print where all runs are if nothing was printed for half a minute."""
        with self._lock:
            now = self._clock()
            if now - self._last >= SILENCE_SECONDS:
                so_far = f"{words.clock_time(now - self._start)} so far"
                at_work = [(number, run) for number, run in self._runs.items() if run.is_at_work]
                for number, run in at_work:
                    self._say([self._prefix(number) + "   ".join([*run.where(), so_far])])
                if not at_work:
                    self._say([f"{'writing the results' if self._runs else 'starting'}   {so_far}"])

    def _prefix(self, run: int) -> str:
        return f"run {run}: " if self._several else ""

    def _say(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._last = self._clock()
            say(line)


class _Run:
    """What has been printed about one run."""

    def __init__(self) -> None:
        self._progress = RunProgress()
        self._begun: set[str] = {"done"}  # the end needs no line
        self._tenths: int | None = None

    @property
    def is_at_work(self) -> bool:
        return self._progress.phase != "done"

    def lines(self, news: News, now: float) -> list[str]:
        """The lines that are due now."""
        lines = []
        self._progress.take(news, now)
        if news.phase not in self._begun:
            self._begun.add(news.phase)
            lines.append(f"{news.phase} …")
        if news.phase == "training":
            tenths = int(10 * news.share)
            if self._tenths is None:  # a resumed run starts with some of them done
                self._tenths = 0 if news.report else tenths
            if news.report and tenths > self._tenths:
                self._tenths = tenths
                lines.append(report_line(news.report, self._progress))
        return lines

    def where(self) -> list[str]:
        """The phase, how much of it is done and, where it is known, the time left."""
        progress = self._progress
        parts = [f"{progress.phase}: {int(100 * progress.share)} %"]
        if progress.phase == "training":
            parts = [f"training: step {progress.step:,}"]
        return parts + _speed(progress)


def report_line(report: "Report", progress: RunProgress) -> str:
    """A report as a line, with speed and time left where they are known."""
    parts = [
        f"step {report.step:,}",
        f"temperature {words.temperature(report.inverse_temperature)}",
        f"bound {words.nats(report.lower_bound)}",
        f"ELBO {words.nats(report.elbo)}",
        counted(report.topologies, "topology", "topologies"),
    ]
    if report.skipped:
        parts.append(counted(report.skipped, "step skipped", "steps skipped"))
    return "   ".join(parts + _speed(progress))


def _speed(progress: RunProgress) -> list[str]:
    parts = []
    if progress.phase == "training" and progress.steps_per_second is not None:
        parts.append(f"{words.rate(progress.steps_per_second)} steps/s")
    if progress.seconds_left:
        parts.append(f"{words.rough_duration(progress.seconds_left)} left")
    return parts
