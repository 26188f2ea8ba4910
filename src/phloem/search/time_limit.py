"""When a search stops early: when it is told to, or when its time is up."""

import time
from threading import Event


class TimeLimit(Event):
    """An event that is set once another one is, or after some seconds."""

    def __init__(self, stop: Event, seconds: float) -> None:
        super().__init__()
        self._stop = stop
        self._deadline = time.monotonic() + seconds

    def is_set(self) -> bool:
        """Whether it is time to stop."""
        return self._stop.is_set() or self.is_over

    @property
    def is_over(self) -> bool:
        """Whether the seconds are."""
        return time.monotonic() > self._deadline
