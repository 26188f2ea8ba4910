"""Progress of a task: a bar on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol, TextIO, cast

from phloem.display import words
from phloem.display.events import Event, News, Notice
from phloem.display.lines import SILENCE_SECONDS, Ticks, shows_panels, ticking
from phloem.display.words import PatientStderr, Speed, complain, say

LEAST_INTERVAL = 5.0  # seconds between two lines; a task that takes less prints none


class ShowProgress(Protocol):
    """Shows how much of a task is done, from 0 to 1, with an optional note; its parts are three spaces apart."""

    def __call__(self, share: float, note: str = "") -> None: ...


@contextmanager
def progress_bar(
    what: str, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic, ticks: Ticks = ticking
) -> Iterator[ShowProgress]:
    """A function that shows progress on standard error; call it as often as you like.

    The bar vanishes at the end. Lines come for every tenth of the work, but at most one every few seconds, and one
    where there was none for half a minute.
    """
    if quiet:
        yield _say_nothing
    elif shows_panels():
        with _bar(what, clock) as show:
            yield show
    else:
        lines = _Lines(what, clock)
        with ticks(lines.tick):
            yield lines


@contextmanager
def bar_display(what: str, *, quiet: bool = False) -> Iterator[Callable[[Event], None]]:
    """A display of one run as a bar, with what its last report says."""
    with progress_bar(what, quiet=quiet) as show:
        note = ""

        def display(event: Event) -> None:
            nonlocal note
            if isinstance(event, Notice):
                complain(event.text)
            elif isinstance(event, News):
                note = event.report.note if event.report is not None else note
                show(event.share, note if event.phase == "training" else event.phase)

        yield display


def _say_nothing(share: float, note: str = "") -> None:
    """The quiet display."""


class _Lines:
    """`gap: 40 %, 12 s left`."""

    def __init__(self, what: str, clock: Callable[[], float]) -> None:
        self._what, self._clock = what, clock
        self._start = self._last = clock()
        self._tenths = 0
        self._remaining = _Remaining()
        self._parts: list[str] = []  # of a line about where the task is
        self._lock = Lock()  # progress comes from the main thread, ticks from another

    def __call__(self, share: float, note: str = "") -> None:
        """Print a line if one is due."""
        with self._lock:
            now = self._clock()
            left = self._remaining.after(share, now)
            self._parts = [_percent(share), *filter(None, [left, *note.split("   ")])]
            self._tenths = min(self._tenths, int(10 * share))
            if int(10 * share) > self._tenths and share < 1 and now - self._last >= LEAST_INTERVAL:
                self._tenths, self._last = int(10 * share), now
                say(f"{self._what}: {', '.join(self._parts)}")

    def tick(self) -> None:
        """Print where the task is if nothing was printed for half a minute."""
        with self._lock:
            now = self._clock()
            if now - self._last >= SILENCE_SECONDS:
                self._last = now
                say(f"{self._what}: {', '.join([*self._parts, f'{words.clock_time(now - self._start)} so far'])}")


@contextmanager
def _bar(what: str, clock: Callable[[], float]) -> Iterator[ShowProgress]:
    # Imported here because rich is slow to import and most commands show no bar.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
    console = Console(file=cast(TextIO, PatientStderr()))
    remaining = _Remaining()
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(what, total=1.0, note="")

        def show(share: float, note: str = "") -> None:
            left = remaining.after(share, clock())
            bar.update(task, completed=share, note="   ".join(part for part in (_percent(share), left, note) if part))

        yield show


class _Remaining:
    """Time left at the recent speed. A share below the previous one starts another part of the task."""

    def __init__(self) -> None:
        self._speed = Speed()
        self._share = 0.0

    def after(self, share: float, now: float) -> str:
        """`12 s left`, or nothing while too little is known."""
        if share < self._share:
            self._speed = Speed()
        self._share = share
        self._speed.see(now, share)
        per_second = self._speed.per_second
        return f"{words.rough_duration((1 - share) / per_second)} left" if per_second and share < 1 else ""


def _percent(share: float) -> str:
    return f"{int(100 * share)} %"
