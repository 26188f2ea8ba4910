"""Requests to stop."""

import signal
import threading

import pytest

from phloem.interrupts import held, stoppable


@pytest.fixture(autouse=True)
def requests_to_stop_end_no_test(monkeypatch):
    before = {request: signal.getsignal(request) for request in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for request, handler in before.items():
        signal.signal(request, handler)


@pytest.mark.parametrize("request_to_stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_request_is_raised_at_once(request_to_stop):
    with pytest.raises(KeyboardInterrupt), stoppable():
        signal.raise_signal(request_to_stop)


def test_a_request_waits_for_work_that_must_not_end_half_way():
    done = []

    def work():
        with held():
            signal.raise_signal(signal.SIGTERM)
            done.append("the work")
        done.append("more")

    with pytest.raises(KeyboardInterrupt), stoppable():
        work()
    assert done == ["the work"]
    with stoppable(), held():  # nothing of it is left
        pass


def test_held_work_within_held_work_waits_for_the_end_of_all_of_it():
    done = []

    def work():
        with held():
            with held():
                signal.raise_signal(signal.SIGTERM)
            done.append("the rest")

    with pytest.raises(KeyboardInterrupt), stoppable():
        work()
    assert done == ["the rest"]


def test_what_goes_wrong_in_held_work_is_what_is_raised():
    with pytest.raises(ValueError, match="wrong"), stoppable(), held():
        raise ValueError("wrong")
    with pytest.raises(KeyboardInterrupt), stoppable():  # and requests do not wait any more
        signal.raise_signal(signal.SIGTERM)


def test_handlers_are_as_before_afterwards_and_ignored_requests_stay_ignored():
    mine = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stoppable():
        assert signal.getsignal(signal.SIGINT) is not mine
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGINT) is mine
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_other_threads_than_the_main_one_can_use_it():
    seen = []

    def work():
        with stoppable(), held():
            seen.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["done"]


def test_an_interrupt_that_numba_has_wrapped_is_one():
    with pytest.raises(KeyboardInterrupt), stoppable():
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()
    met = SystemError("returned a result with an exception set")
    met.__context__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), stoppable():
        raise met
    with pytest.raises(SystemError), stoppable():
        raise SystemError("something else")


def test_a_request_that_came_while_held_work_failed_is_not_for_the_next():
    def fail():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"), stoppable(), held():
        fail()
    with stoppable(), held():
        pass
