"""Requests to stop."""

import ctypes
import signal
import threading
import weakref

import pytest

from phloem.errors import FileProblem
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
    def hand_back():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as interrupt:
            raise SystemError("returned a result with an exception set") from interrupt

    with pytest.raises(KeyboardInterrupt), stoppable():
        hand_back()
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


@ctypes.CFUNCTYPE(None)
def interrupted_callback():
    signal.raise_signal(signal.SIGINT)


class Finalised:
    pass


def interrupted_finaliser():
    dying = Finalised()
    weakref.finalize(dying, signal.raise_signal, signal.SIGINT)
    del dying


@pytest.mark.parametrize("lose", [interrupted_callback, interrupted_finaliser], ids=["callback", "finaliser"])
def test_an_interrupt_that_foreign_code_drops_is_raised_after_the_next_held_work(lose, capsys):
    done = []

    def work():
        lose()
        done.append("nothing is raised here")
        with held():
            done.append("the next held work")
        done.append("more")

    with pytest.raises(KeyboardInterrupt), stoppable():
        work()
    assert done == ["nothing is raised here", "the next held work"]
    assert capsys.readouterr().err == ""


def test_an_interrupt_that_foreign_code_drops_is_raised_at_the_end_at_the_latest(capsys):
    done = []

    def work():
        interrupted_callback()
        done.append("all of it")

    with pytest.raises(KeyboardInterrupt), stoppable():
        work()
    assert done == ["all of it"]
    with stoppable(), held():  # and not again
        pass


def test_an_interrupt_that_comes_out_as_another_exception_is_one():
    def compare():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise TypeError("Cannot compare structured arrays") from None  # as numpy's comparison does

    with pytest.raises(KeyboardInterrupt), stoppable():
        compare()
    with pytest.raises(TypeError), stoppable():
        raise TypeError("a mistake")


def test_what_a_stopped_run_has_to_say_is_said():
    def stop():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise FileProblem("x: no space") from None

    with pytest.raises(FileProblem), stoppable():
        stop()


def test_what_a_stopped_run_does_at_its_end_is_done_whole():
    done = []

    def work():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            for _ in range(2):
                with held():
                    done.append("saved")

    with pytest.raises(KeyboardInterrupt), stoppable():
        work()
    assert done == ["saved", "saved"]


def test_held_work_in_another_thread_takes_no_request_away_from_the_main_one():
    begun, end = threading.Event(), threading.Event()

    def work():
        with held():
            begun.set()
            assert end.wait(60)

    def stop_meanwhile():
        thread.start()
        assert begun.wait(60)
        signal.raise_signal(signal.SIGINT)
        end.set()

    thread = threading.Thread(target=work)
    try:
        with pytest.raises(KeyboardInterrupt), stoppable():
            stop_meanwhile()
    finally:
        end.set()
        thread.join()
