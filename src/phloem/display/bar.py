"""How far a task is: a bar on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO, cast

from phloem.display import words
from phloem.display.events import Event, News, Notice
from phloem.display.lines import shows_panels
from phloem.display.words import PatientStderr, Speed, complain, say


class Show(Protocol):
    """Takes the share that is done, from 0 to 1, and what else there is to say."""

    def __call__(self, share: float, note: str = "") -> None: ...


LONGEST_SILENCE = 5.0  # seconds: lines come no more often, so that quick work says nothing


@contextmanager
def progress_bar(what: str, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> Iterator[Show]:
    """A function that is told the share that is done, from 0 to 1, as often as it is known; all goes to stderr.

    The bar vanishes at the end. A line comes for a tenth of the work, unless the last one is a few seconds old only.
    """
    if quiet:
        yield _say_nothing
    elif shows_panels():
        with _bar(what, clock) as show:
            yield show
    else:
        yield _Lines(what, clock)


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
    """For those who want none."""


class _Lines:
    """`gap: 40 %, 12 s left`."""

    def __init__(self, what: str, clock: Callable[[], float]) -> None:
        self._what, self._clock = what, clock
        self._last = clock()
        self._tenths = 0
        self._remaining = _Remaining()

    def __call__(self, share: float, note: str = "") -> None:
        """Say how far it is, if it is time."""
        now = self._clock()
        left = self._remaining.after(share, now)
        self._tenths = min(self._tenths, int(10 * share))
        if int(10 * share) > self._tenths and share < 1 and now - self._last >= LONGEST_SILENCE:
            self._tenths, self._last = int(10 * share), now
            say(
                ", ".join(
                    part for part in (f"{self._what}: {_percent(share)}", left, ", ".join(note.split("   "))) if part
                )
            )


@contextmanager
def _bar(what: str, clock: Callable[[], float]) -> Iterator[Show]:
    # Imported here so that a command that shows no bar need not wait for rich.
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
    """How long the rest takes if it goes on as it did lately. Less than before is done where another part begins."""

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
