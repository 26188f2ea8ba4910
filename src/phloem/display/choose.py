"""Which display fits."""

import sys
from types import TracebackType
from typing import Protocol, Self

from phloem.display.lines import Lines, Quiet
from phloem.display.news import Event
from phloem.display.stderr import PatientStderr


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
    """The panel where someone looks at a terminal that can show it; lines elsewhere, or if `plain`."""
    if quiet:
        return Quiet()
    if plain or not shows_panels():
        return Lines()
    from phloem.display.panel import Panel  # here so that a run without a panel need not wait for rich

    return Panel()


def shows_panels() -> bool:
    """Whether standard error is a terminal that can move its cursor and knows block characters."""
    stream = PatientStderr()
    if not stream.isatty() or not stream.encoding.lower().startswith("utf"):
        return False
    from rich.console import Console

    console = Console(file=sys.stderr)
    return console.is_interactive and not console.is_jupyter
