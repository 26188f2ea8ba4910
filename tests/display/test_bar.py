"""The progress bar: lines that are neither many nor early, a bar that leaves nothing behind."""

import io
import sys

import pytest

from phloem.display.bar import progress_bar
from support.ticker import Ticker


class Clock:
    """Time that passes when the test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A terminal that keeps all that is written to it."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def look_at(monkeypatch) -> Terminal:
    """Standard error as a terminal, from now on."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def work(seconds: float, *, quiet: bool = False) -> None:
    """A hundred steps that take so long."""
    clock = Clock()
    with progress_bar("gap", quiet=quiet, clock=clock, ticks=Ticker()) as show:
        for step in range(101):
            show(step / 100)
            clock.now += seconds / 100


def test_a_line_for_every_tenth_with_the_time_left(capsys):
    work(100)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0] == "gap: 10 %, 90 s left"
    assert lines[-1] == "gap: 90 %, 10 s left"
    assert len(lines) == 9


def test_lines_are_some_seconds_apart(capsys):
    work(20)
    assert capsys.readouterr().err.splitlines() == [
        "gap: 25 %, 15 s left",
        "gap: 50 %, 10 s left",
        "gap: 75 %, 5 s left",
    ]


def test_quick_work_says_nothing(capsys):
    work(4)
    assert capsys.readouterr().err == ""


def test_quiet_is_quiet(capsys, monkeypatch):
    terminal = look_at(monkeypatch)
    work(100, quiet=True)
    assert terminal.getvalue() == ""
    assert capsys.readouterr().out == ""


def test_a_terminal_has_a_bar_that_vanishes(capsys, monkeypatch):
    terminal = look_at(monkeypatch)
    clock = Clock()
    with progress_bar("gap", clock=clock) as show:
        show(0.0)
        clock.now += 10
        show(0.25)
    shown = terminal.getvalue()
    assert "gap" in shown
    assert "25 %   30 s left" in shown
    assert shown.endswith("\x1b[2K")  # the line is erased
    assert capsys.readouterr().out == ""


def test_a_failure_within_the_work_comes_out_as_it_is(monkeypatch):
    look_at(monkeypatch)
    with pytest.raises(ZeroDivisionError), progress_bar("gap") as show:
        show(1 / 0)


def test_a_part_that_begins_anew_has_lines_of_its_own(capsys):
    clock = Clock()
    with progress_bar("density", clock=clock, ticks=Ticker()) as show:
        for note in ("training", "normalising"):
            for step in range(10):
                show(step / 10, note)
                clock.now += 10
    lines = capsys.readouterr().err.splitlines()
    assert lines[8] == "density: 90 %, 10 s left, training"
    assert lines[9] == "density: 10 %, 90 s left, normalising"
    assert lines[-1] == "density: 90 %, 10 s left, normalising"
    assert len(lines) == 18


def test_work_without_news_is_not_silent(capsys):
    """Nothing comes of the task itself, as while kernels compile or another program works."""
    clock, ticker = Clock(), Ticker()
    with progress_bar("bootstrap", clock=clock, ticks=ticker) as show:
        for second in range(1, 201):
            clock.now += 1
            ticker.tick()
            if second == 70:
                show(0.12, "1 of 10 replicates")
    assert capsys.readouterr().err.splitlines() == [
        "bootstrap: 0:30 so far",
        "bootstrap: 1:00 so far",
        "bootstrap: 12 %, 1 of 10 replicates",
        "bootstrap: 12 %, 1 of 10 replicates, 1:40 so far",
        "bootstrap: 12 %, 1 of 10 replicates, 2:10 so far",
        "bootstrap: 12 %, 1 of 10 replicates, 2:40 so far",
        "bootstrap: 12 %, 1 of 10 replicates, 3:10 so far",
    ]


def test_work_with_news_has_no_other_lines(capsys):
    clock, ticker = Clock(), Ticker()
    with progress_bar("gap", clock=clock, ticks=ticker) as show:
        for step in range(100):
            show(step / 100)
            clock.now += 1
            ticker.tick()
    assert not any("so far" in line for line in capsys.readouterr().err.splitlines())
