"""A limit on the processor time of a piece of work, for work whose steps happen in C and cannot be counted."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TookTooLong(BaseException):
    """The limit was reached; no reader that turns exceptions into messages can hide it."""


@contextmanager
def processor_seconds(limit: float) -> Iterator[None]:
    """Raise `TookTooLong` inside the block once this process has computed for so long.

    Time that other processes take does not count, so that a busy machine changes nothing.
    """

    def give_up(*_: object) -> None:
        raise TookTooLong(f"more than {limit:g} s of processor time")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
