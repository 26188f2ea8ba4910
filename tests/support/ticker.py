"""Ticks that come when a test says so, in place of those of a thread."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Ticker:
    """Stands in for `phloem.display.lines.ticking`."""

    def __init__(self) -> None:
        self._function: Callable[[], None] | None = None

    @contextmanager
    def __call__(self, function: Callable[[], None]) -> Iterator[None]:
        self._function = function
        yield
        self._function = None

    def tick(self) -> None:
        assert self._function is not None, "no display is open"
        self._function()
