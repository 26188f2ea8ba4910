"""Requests to stop, Ctrl-C and SIGTERM: KeyboardInterrupt at once where nothing is half done, else a moment later."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

REQUESTS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class _Requests:
    """Whether requests wait at present, and whether one does."""

    held = 0  # how deep in work that must not end half-way
    waiting = False


@contextmanager
def stoppable() -> Iterator[None]:
    """While this lasts every request to stop raises KeyboardInterrupt, but not inside `held`.

    A request that is ignored outside, as under nohup, stays so. Signals reach the main thread alone: in others
    nothing changes.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {request: signal.getsignal(request) for request in REQUESTS}
        before = {request: handler for request, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for request in before:
        signal.signal(request, _stop)
    try:
        yield
    except SystemError as problem:  # Ctrl-C while numba hands a kernel's result back to Python
        if isinstance(problem.__cause__ or problem.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
    finally:
        _Requests.waiting = False  # one that came while held work failed is not for the next
        for request, handler in before.items():
            signal.signal(request, handler)


@contextmanager
def held() -> Iterator[None]:
    """Work that must not end half-way: a request to stop waits until it is done."""
    _Requests.held += 1
    try:
        yield
    finally:
        _Requests.held -= 1
    if _Requests.waiting and not _Requests.held:
        _Requests.waiting = False
        raise KeyboardInterrupt


def _stop(_signal: int, _frame: FrameType | None) -> None:
    if _Requests.held:
        _Requests.waiting = True
    else:
        raise KeyboardInterrupt
