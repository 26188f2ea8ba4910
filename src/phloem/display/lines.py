"""Displays that print lines, for files and pipes; and the choice of a display."""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from phloem.display import words
from phloem.display.events import Event, News, Notice, Overview
from phloem.display.words import PatientStderr, RunProgress, say
from phloem.errors import counted

if TYPE_CHECKING:
    from phloem.inference.training import Report


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

    def __call__(self, event: Event) -> None:
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

    def __call__(self, event: Event) -> None:
        """Show the event if it is a notice."""
        if isinstance(event, Notice) and event.urgent:
            say(words.notice_line(event))


class Lines(AbstractContextManager["Lines"]):
    """Prints the overview, a line at the start of each phase, and one for every tenth of training."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._several = False
        self._runs: dict[int, _Run] = {}

    def __exit__(self, *_problem: object) -> None:
        """Nothing is left open."""

    def __call__(self, event: Event) -> None:
        """Print the event if a line is due."""
        match event:
            case Notice():
                say(words.notice_line(event))
            case Overview():
                self._several = event.runs > 1
                for line in words.overview_lines(event):
                    say(line)
            case News():
                prefix = f"run {event.run}: " if self._several else ""
                for line in self._runs.setdefault(event.run, _Run()).lines(event, self._clock()):
                    say(prefix + line)


class _Run:
    """What has been printed about one run."""

    def __init__(self) -> None:
        self._progress = RunProgress()
        self._begun: set[str] = {"done"}  # the end needs no line
        self._tenths: int | None = None

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
    if progress.steps_per_second is not None:
        parts.append(f"{words.rate(progress.steps_per_second)} steps/s")
    if progress.seconds_left:
        parts.append(f"{words.rough_duration(progress.seconds_left)} left")
    return "   ".join(parts)
