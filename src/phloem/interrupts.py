"""Requests to stop, Ctrl-C and SIGTERM: KeyboardInterrupt at once where nothing is half done, else a moment later.

A KeyboardInterrupt can be lost on its way: where numba, numpy or Python itself call back into Python (a finaliser, a
ctypes callback, a comparison of array types) it is dropped, or comes out as another exception. So a request is
remembered until `stoppable` ends, and the end of every piece of `held` work raises again what has been lost.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from phloem.errors import PhloemError

REQUESTS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class _Requests:
    """Whether requests wait at present, and what became of those that came. Of the main thread alone."""

    held = 0  # how deep in work that must not end half-way
    waiting = False  # one came in held work
    raised = False  # one was raised, and has not arrived at the end of `stoppable`


@contextmanager
def stoppable() -> Iterator[None]:
    """While this lasts every request to stop raises KeyboardInterrupt, but not inside `held`.

    A request that is ignored outside, as under nohup, stays so. Signals reach the main thread alone: in others
    nothing changes.
    """
    if not _in_main_thread():
        yield
        return
    handlers = {request: signal.getsignal(request) for request in REQUESTS}
    before = {request: handler for request, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    for request in before:
        signal.signal(request, _stop)
    complain = sys.unraisablehook
    sys.unraisablehook = lambda lost: None if lost.exc_type is KeyboardInterrupt else complain(lost)
    try:
        yield
        _raise_what_was_lost()
    except PhloemError:  # it says more than that we were stopped
        raise
    except Exception:  # what others have made of a KeyboardInterrupt
        if _Requests.raised:
            raise KeyboardInterrupt from None
        raise
    finally:
        _Requests.waiting = _Requests.raised = False  # they are not for the next
        sys.unraisablehook = complain
        for request, handler in before.items():
            signal.signal(request, handler)


@contextmanager
def held() -> Iterator[None]:
    """Work that must not end half-way: a request to stop waits until it is done."""
    if not _in_main_thread():
        yield
        return
    _Requests.held += 1
    try:
        yield
    finally:
        _Requests.held -= 1
    _raise_what_was_lost()


def _stop(_signal: int, _frame: FrameType | None) -> None:
    if _Requests.held:
        _Requests.waiting = True
    else:
        _raise()


def _raise_what_was_lost() -> None:
    """Raise KeyboardInterrupt if a request has come, unless one is on its way, as in what a stopped run saves."""
    is_due = _Requests.waiting or _Requests.raised
    if is_due and not _Requests.held and not isinstance(sys.exc_info()[1], KeyboardInterrupt):
        _raise()


def _raise() -> None:
    _Requests.waiting = False
    _Requests.raised = True
    raise KeyboardInterrupt


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
