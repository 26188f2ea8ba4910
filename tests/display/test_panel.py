"""The live panel: what it draws at any width, and that nothing of it can stop a run."""

import errno
import io
import math
import re
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from phloem.data.patterns import AlignmentSummary
from phloem.display.events import News, Notice, Overview
from phloem.display.lines import Lines, Quiet, choose_display
from phloem.display.panel import BLOCKS, Panel, sparkline
from phloem.display.words import Speed
from phloem.inference.training import Report
from support.waiting import wait_until

STEPS = 40_000
SUMMARY = AlignmentSummary(12, 898, 413, 0.003, 377, 0, (), ())


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A terminal that keeps all that is written to it, until it is gone."""

    gone = False
    refused = 0  # how often it was written to since

    def isatty(self) -> bool:
        return super().isatty() or True  # closed, it raises

    def write(self, text: str) -> int:
        if self.gone:
            self.refused += 1
            raise OSError(errno.EIO, "Input/output error")
        return super().write(text)


def overview(runs: int = 1, source: str = "primates") -> Overview:
    return Overview(source, SUMMARY, "HKY85", {"topologies": "all alike"}, "edge", STEPS, runs, Path("primates-run"))


def report(step: int, *, bound: float = -7110.02, skipped: int = 0, temperature: float = 1.0) -> Report:
    return Report(step, 1.0, 1 / temperature, bound, bound - 0.5, 12, skipped)


def training(step: int, *, run: int = 1, told: Report | None = None) -> News:
    return News(run, "training", step / STEPS, step, told)


def words_of(line: str) -> str:
    return " ".join(line.split())


class Stage:
    """A panel that is drawn only when the test looks at it."""

    def __init__(self, runs: int = 1, source: str = "primates") -> None:
        self.clock = Clock()
        self.panel = Panel(clock=self.clock, console=Console(file=io.StringIO(), width=200))
        self.panel(overview(runs, source))

    def tell(self, *events: News, seconds: float = 0.0) -> None:
        for event in events:
            self.panel(event)
        self.clock.now += seconds

    def look(self, width: int = 80, height: int = 30) -> str:
        console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
        with console.capture() as capture:
            console.print(self.panel)
        return capture.get().removesuffix("\n")  # the cursor's line


@pytest.fixture
def stage():
    with ExitStack() as panels:

        def build(runs: int = 1) -> Stage:
            built = Stage(runs)
            panels.push(built.panel)
            return built

        yield build


def test_a_training_run_shows_its_numbers(stage):
    one = stage()
    one.tell(training(10_000, told=report(10_000, bound=-7200)), seconds=10)
    one.tell(training(12_500, told=report(12_000)))
    lines = one.look().splitlines()
    assert lines[0].startswith("╭─ primates · training · 0:10 ──")
    assert lines[1].endswith(" 31 %  2 min left │")  # 27,500 steps at 250 a second
    assert words_of(lines[3]) == "│ step bound ELBO temperature steps/s topologies │"
    assert words_of(lines[4]) == "│ 12,500 -7110.02 -7110.52 1 250 12 │"
    assert re.fullmatch(r"│ ELBO [▁▂▃▄▅▆▇█]{2} +│", lines[5])
    assert lines[6].endswith(" Ctrl-C stops; --resume continues ─╯")


def test_several_runs_share_a_bar_and_the_slowest_says_how_long(stage):
    two = stage(runs=2)
    two.tell(training(0), training(0, run=2), seconds=10)
    two.tell(training(20_000, told=report(20_000)), training(10_000, run=2, told=report(10_000, bound=-7112.0)))
    text = two.look()
    assert " 37 %  30 s left │" in text
    rows = [words_of(line) for line in text.splitlines()]
    assert "│ 1 20,000 -7110.02 -7110.52 1 2,000 12 │" in rows
    assert "│ 2 10,000 -7112.00 -7112.50 1 1,000 12 │" in rows


def test_how_long_is_not_told_while_a_run_waits(stage):
    two = stage(runs=2)
    two.tell(training(0), seconds=10)
    two.tell(training(20_000))
    assert "left" not in two.look()
    assert " 25 % │" in two.look()
    assert "waiting" in two.look()


def test_a_run_that_is_ahead_shows_its_phase_and_the_bar_stays_with_the_other(stage):
    two = stage(runs=2)
    two.tell(training(0, run=2), News(1, "evaluation", 0.5), seconds=10)
    two.tell(training(20_000, run=2))
    text = two.look()
    assert "primates · training" in text
    assert " 75 %  10 s left │" in text
    assert re.search(r"│ +1 +evaluation ", text)
    assert re.search(r"│ +2 +training ", text)


@pytest.mark.parametrize("phase", ["bootstrap", "support"])
def test_before_training_there_is_only_a_bar(stage, phase):
    one = stage(runs=2)
    one.tell(News(1, phase, 0.1), seconds=10)
    one.tell(News(1, phase, 0.3))
    lines = one.look().splitlines()
    assert len(lines) == 3
    assert f"primates · {phase} · 0:10" in lines[0]
    assert lines[1].endswith(" 30 %  35 s left │")


def test_the_evaluation_keeps_the_numbers_and_has_a_bar_of_its_own(stage):
    one = stage()
    one.tell(training(0), seconds=20)
    one.tell(training(STEPS, told=report(STEPS)), seconds=5)
    one.tell(News(1, "evaluation", 0.25))
    text = one.look()
    assert "primates · evaluation · 0:25" in text
    assert " 25 % │" in text
    assert "40,000   -7110.02   -7110.52             1     2,000" in text


def test_a_run_that_is_resumed_for_its_evaluation_has_its_step(stage):
    one = stage()
    one.tell(News(1, "evaluation", 0.0, STEPS))
    assert " 40,000 " in one.look()
    one.tell(News(1, "done", 1.0))
    assert " 40,000 " in one.look()


def test_skipped_steps_are_shown_only_if_there_are_any(stage):
    one = stage()
    one.tell(training(1000, told=report(1000)))
    assert "skipped" not in one.look()
    one.tell(training(2000, told=report(2000, skipped=3)))
    assert re.search(r"skipped +│\n.* 3 +│", one.look())


def test_a_resumed_run_is_not_taken_for_a_fast_one(stage):
    one = stage()
    one.tell(training(30_000))
    assert "left" not in one.look()
    one.clock.now += 10
    one.tell(training(31_000))
    assert " 77 %  90 s left │" in one.look()  # 9,000 steps at 100 a second


def test_the_time_that_preparation_took_is_not_trainings(stage):
    one = stage()
    one.tell(News(1, "support", 0.0), seconds=10)
    one.tell(training(0), seconds=2)
    one.tell(training(800))
    assert " 2 %  98 s left │" in one.look()  # 39,200 steps at 400 a second


def test_a_run_that_has_done_its_part_of_the_phase_is_not_waited_for(stage):
    two = stage(runs=2)
    two.tell(training(0), training(STEPS, run=2), seconds=10)
    two.tell(training(20_000))
    assert " 75 %  10 s left │" in two.look()


def test_speed_forgets_what_is_longer_ago_than_its_window():
    speed = Speed()
    assert speed.per_second is None
    for second in range(100):
        speed.see(second, 10 * second)
    for second in range(100, 120):
        speed.see(second, 1000 + 2 * (second - 100))
    assert speed.per_second == 2
    speed.see(121, 5)  # another training
    assert speed.per_second is None


@given(width=st.integers(40, 200), runs=st.integers(1, 12), reports=st.integers(0, 60), height=st.integers(24, 60))
def test_no_line_is_wider_than_the_terminal_and_the_panel_is_not_higher(width, runs, reports, height):
    stage = Stage(runs, source="a/long/path/to/" + "x" * 60 + ".fasta")
    for number in range(reports):
        stage.tell(
            *(
                training(600 * number, run=run, told=report(600 * number, bound=-123456.7 / (number + 1), skipped=run))
                for run in range(1, runs + 1)
            ),
            seconds=1,
        )
    stage.panel.__exit__(None, None, None)
    lines = stage.look(width, height).splitlines()
    assert {len(line) for line in lines} == {width}
    assert len(lines) < height  # and the cursor's
    assert "training" in lines[0] or not reports
    assert lines[-1].endswith(" Ctrl-C stops; --resume continues ─╯")


def test_the_sparkline_stands_beside_the_numbers_where_there_is_room(stage):
    one = stage()
    for number in range(30):
        one.tell(training(1000 * number, told=report(1000 * number, bound=-7110 - math.exp(5 - number))), seconds=1)
    wide, narrow = one.look(140).splitlines(), one.look(80).splitlines()
    assert len(wide) == len(narrow) - 1
    assert re.search(r"ELBO so far +│$", wide[3])
    assert re.search(r"12   [▁▂▃▄▅▆▇█]{30} +│$", wide[4])


def test_the_sparkline_rises_with_the_elbo_while_the_bound_falls_with_the_temperature(stage):
    one = stage()
    for number in range(1, 9):
        told = report(number, temperature=10 / number)._replace(
            lower_bound=-100.0 * number, elbo=-7000.0 - 2.0**-number
        )
        one.tell(training(number, told=told))
    blocks = [BLOCKS.index(sign) for sign in one.look() if sign in BLOCKS]
    assert len(blocks) == 8
    assert blocks == sorted(blocks)
    assert blocks[0] < blocks[-1]


def test_a_far_start_leaves_the_end_of_a_sparkline_its_ups_and_downs():
    end = [-7110 + 0.1 * (-1) ** number for number in range(20)]
    line = sparkline([-9000, -8000, -7500, *end], 80)
    assert line[0] == BLOCKS[0]
    assert len(line) == 23
    assert len(set(line[-20:])) > 1
    assert set(line[-20:]) <= set(BLOCKS[4:])


@given(st.lists(st.floats(width=32)), st.integers(0, 50))
def test_a_sparkline_takes_any_numbers_and_fits(values, width):
    line = sparkline(values, width)
    assert len(line) == min(width, sum(map(math.isfinite, values)))
    assert set(line) <= set(BLOCKS)


def test_user_text_is_no_markup_and_cannot_move_the_cursor():
    terminal = io.StringIO()
    with Panel(console=Console(file=terminal, width=100)) as panel:
        panel(overview(source="[red]x[/red]:smile:\x1b[2J"))
        panel(Notice("[bold]kept[/nonsense]\r"))
        console = Console(file=io.StringIO(), width=100)
        console.print(panel)
        assert "─ [red]x[/red]:smile: [2J · " in console.file.getvalue()
    assert "[red]x[/red]:smile: [2J: 12 taxa, 898 sites" in terminal.getvalue()
    assert "phloem: [bold]kept[/nonsense]" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def open_terminal(monkeypatch) -> Terminal:
    """Make standard error a terminal of 100 columns. No fixture, as pytest sets its own when the test begins."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    for name, value in {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}.items():
        monkeypatch.setenv(name, value)
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "JPY_PARENT_PID"):
        monkeypatch.delenv(name, raising=False)
    return stream


def test_on_a_terminal_the_panel_is_drawn_below_what_is_printed_and_vanishes(monkeypatch):
    terminal, stdout = open_terminal(monkeypatch), sys.stdout
    with choose_display(plain=False, quiet=False) as display:
        assert isinstance(display, Panel)
        display(overview())
        assert sys.stdout is stdout  # results are not for the terminal
        display(training(400, told=report(400)))
        wait_until(lambda: "-7110.02" in terminal.getvalue())
        display(Notice("almost there"))
    text = terminal.getvalue()
    assert text.index("primates: 12 taxa") < text.index("model HKY85") < text.index("╭─") < text.index("phloem: almost")
    assert "-7110.02" in text
    assert text.count("primates: 12 taxa") == 1
    assert text.endswith("\x1b[1A\x1b[2K")  # the last line of the panel is wiped
    assert sys.stderr is terminal


def test_the_display_is_chosen_by_what_can_show_it(monkeypatch):
    open_terminal(monkeypatch)
    assert isinstance(choose_display(plain=False, quiet=False), Panel)
    assert isinstance(choose_display(plain=True, quiet=False), Lines)
    assert isinstance(choose_display(plain=True, quiet=True), Quiet)
    assert isinstance(choose_display(plain=False, quiet=True), Quiet)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert isinstance(choose_display(plain=False, quiet=False), Lines)


@pytest.mark.parametrize("change", ["dumb", "ascii", "file", "closed", "none"])
def test_without_a_terminal_that_can_show_a_panel_there_are_lines(monkeypatch, change):
    terminal = open_terminal(monkeypatch)
    if change == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    elif change == "ascii":
        monkeypatch.setattr(Terminal, "encoding", "ascii")
    elif change == "closed":
        terminal.close()
    else:
        monkeypatch.setattr(sys, "stderr", io.StringIO() if change == "file" else None)
    assert isinstance(choose_display(plain=False, quiet=False), Lines)


@pytest.mark.parametrize("closed", [False, True])
def test_a_terminal_that_goes_away_does_not_stop_the_run(monkeypatch, closed):
    terminal = open_terminal(monkeypatch)
    problems = []
    monkeypatch.setattr(threading, "excepthook", problems.append)
    with Panel() as panel:
        panel(overview())
        if closed:
            terminal.close()
        terminal.gone = True
        panel(Notice("text"))
        panel(training(400, told=report(400)))
        wait_until(lambda: terminal.refused >= 1)
    assert not problems
