"""What the displays of many loci say."""

import io
from contextlib import nullcontext
from pathlib import Path

import pytest

from phloem.display.loci import LociLines, LociOverview, LociPanel, QuietLoci, Tally, choose_loci_display
from phloem.runs.pool import TaskEvent

OVERVIEW = LociOverview(Path("loci"), 10, 3, 2, 1)
RESULT = {"verdict": "good", "log_marginal_likelihood": -12.345, "error": 0.02, "seconds": 80.0}
DONE = TaskEvent("g1", "done", result=RESULT)
EVENTS = [
    OVERVIEW,
    TaskEvent("g1", "begun"),
    TaskEvent("g2", "begun"),
    TaskEvent("g2", "news", "training", 0.4),
    TaskEvent("g2", "notice", "look out"),
    DONE,
    TaskEvent("g3", "begun"),
    TaskEvent("g3", "lost", "its process was killed (signal 9)."),
    TaskEvent("g2", "failed", "it is bad."),
]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_lines_say_what_ended_and_what_went_wrong(capsys):
    clock = Clock()
    lines = LociLines(clock=clock, ticks=lambda _tick: nullcontext())
    with lines:
        for event in EVENTS:
            clock.now += 10
            lines(event)
        clock.now += 29
        lines.tick()
        clock.now += 1
        lines.tick()
    assert capsys.readouterr().err.splitlines() == [
        "10 loci, 3 done before; 2 jobs of 1 thread; directory loci",
        "phloem: g2: look out",
        "g1: good, log p(Y) -12.35 ± 0.02, 1:20   (4 of 10 done, 6 min left)",
        "phloem: g3: its process was killed (signal 9). Another one goes on with it.",
        "phloem: g2: failed: it is bad.",
        "4 of 10 done, 1 failed, 10 min left   2:00 so far",
    ]


def test_quiet_says_what_went_wrong(capsys):
    with QuietLoci() as show:
        for event in EVENTS:
            show(event)
    assert [line.split(":")[1] for line in capsys.readouterr().err.splitlines()] == [" g3", " g2"]


def test_the_panel_shows_loci_at_work(monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    out = io.StringIO()
    panel = LociPanel(clock=Clock(), file=out)
    with panel:
        for event in EVENTS[:5]:
            panel(event)
        drawn = io.StringIO()
        from rich.console import Console

        Console(file=drawn, width=70).print(panel._drawn())
    for text in ("loci · 0:00", "3 of 10 done", "g1", "starting 0 %", "g2", "training 40 %", "Ctrl-C stops"):
        assert text in drawn.getvalue()
    assert "phloem: g2: look out" in out.getvalue()


def test_names_cannot_move_a_cursor(capsys):
    with LociLines(ticks=lambda _tick: nullcontext()) as show:
        show(TaskEvent("a\x1b[2J", "failed", "bad\nluck"))
    assert capsys.readouterr().err == "phloem: a [2J: failed: bad luck\n"


def test_time_left_is_that_of_this_session():
    clock = Clock()
    tally = Tally(clock)
    tally.take(OVERVIEW)
    assert tally.seconds_left is None
    clock.now = 60
    tally.take(DONE)
    assert (tally.ended, tally.seconds_left) == (4, 360)


@pytest.mark.parametrize(
    ("plain", "quiet", "kind"), [(True, False, LociLines), (False, True, QuietLoci), (False, False, LociLines)]
)
def test_without_a_terminal_there_is_no_panel(plain, quiet, kind):
    assert type(choose_loci_display(plain=plain, quiet=quiet)) is kind
