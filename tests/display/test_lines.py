"""Lines instead of a panel: what they say, and when."""

import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest

from phloem.data.patterns import AlignmentSummary
from phloem.display import words
from phloem.display.events import News, Notice, Overview
from phloem.display.lines import SILENCE_SECONDS, Lines, Quiet, ticking
from phloem.inference.training import Report
from support.ticker import Ticker

SUMMARY = AlignmentSummary(12, 898, 413, 0.003, 377, 0, (), ())


def overview(*, runs: int = 1, **changes: object) -> Overview:
    return Overview(
        "primates",
        SUMMARY._replace(**changes),
        "HKY85",
        {"topologies": "all alike"},
        "edge",
        40_000,
        runs,
        Path("primates-run"),
    )


def report(step: int, *, skipped: int = 0, topologies: int = 12) -> Report:
    return Report(step, step / 250, min(1.0, step / 10_000), -7110.021, -7110.2, topologies, skipped)


def training(step: int, told: Report | None = None, *, run: int = 1) -> News:
    return News(run, "training", step / 40_000, step, told)


def told(capsys) -> list[str]:
    """The lines on stderr; nothing on stdout."""
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_a_run_from_its_beginning_to_its_end(capsys):
    now = 0.0
    with Lines(clock=lambda: now, ticks=Ticker()) as display:
        display(overview())
        for phase in ("bootstrap", "support"):
            for share in (0.0, 0.5, 1.0):
                display(News(1, phase, share))
        for step in range(0, 40_001, 500):
            now = step / 250
            display(training(step, report(step) if step and step % 1000 == 0 else None))
        display(News(1, "evaluation", 0.0))
        display(News(1, "evaluation", 1.0))
        display(News(1, "done", 1.0))
    lines = told(capsys)
    assert lines[:6] == [
        "primates: 12 taxa, 898 sites, 413 patterns, 0.3 % missing, 377 constant sites",
        "model HKY85; branch lengths by edge; 40,000 steps; run directory primates-run",
        "priors: topologies all alike",
        "bootstrap …",
        "support …",
        "training …",
    ]
    assert [line.split()[1] for line in lines[6:16]] == [f"{step:,}" for step in range(4000, 40_001, 4000)]
    assert lines[6] == (
        "step 4,000   temperature 2.5   bound -7110.02   ELBO -7110.20   12 topologies   250 steps/s   2 min left"
    )
    assert lines[10] == (
        "step 20,000   temperature 1   bound -7110.02   ELBO -7110.20   12 topologies   250 steps/s   80 s left"
    )
    assert lines[15].endswith("12 topologies   250 steps/s")
    assert lines[16:] == ["evaluation …"]


def test_several_runs_are_told_apart(capsys):
    with Lines() as display:
        display(overview(runs=2))
        for run in (1, 2):
            display(training(0, run=run))
        display(training(4000, report(4000, skipped=1, topologies=1), run=2))
        display(training(5000, report(5000), run=2))
    assert told(capsys)[1:] == [
        "model HKY85; branch lengths by edge; 40,000 steps; 2 runs; run directory primates-run",
        "priors: topologies all alike",
        "run 1: training …",
        "run 2: training …",
        "run 2: step 4,000   temperature 2.5   bound -7110.02   ELBO -7110.20   1 topology   1 step skipped",
    ]


def test_a_resumed_run_tells_the_tenths_that_it_reaches(capsys):
    with Lines() as display:
        display(overview())
        display(training(13_000))
        display(training(14_000, report(14_000)))
        display(training(16_000))
        display(training(16_500, report(16_000)))
    assert [line.split("   ")[0] for line in told(capsys)[3:]] == ["training …", "step 16,000"]


def test_a_resumed_run_begins_with_its_last_report(capsys):
    with Lines() as display:
        display(overview())
        display(training(13_000, report(12_800)))
        display(training(14_000, report(14_000)))
    assert [line.split("   ")[0] for line in told(capsys)[3:]] == ["training …", "step 12,800"]


class Plain:
    """A display without a terminal, its clock, and the time of every line that it prints."""

    def __init__(self, capsys) -> None:
        self.now = 0.0
        self.lines: list[tuple[float, str]] = []
        self._capsys = capsys
        self._ticker = Ticker()
        self.display = Lines(clock=lambda: self.now, ticks=self._ticker)

    def wait(self, seconds: int, event: News | None = None) -> None:
        """Time passes, with the same news every second or with none."""
        for _ in range(seconds):
            self.now += 1
            if event is not None:
                self.display(event)
            self._ticker.tick()
            self.lines += [(self.now, line) for line in told(self._capsys)]


@pytest.mark.parametrize("has_news", [True, False])
def test_no_phase_is_silent_for_half_a_minute(has_news, capsys):
    """From before the first news, while kernels compile, to after the last, while the results are written."""
    plain = Plain(capsys)
    with plain.display:
        plain.wait(100)
        plain.display(overview())
        for event in (
            News(1, "bootstrap", 0.4),
            News(1, "support", 0.0),
            training(0),
            training(900),
            News(1, "evaluation", 0.25, 40_000),
            News(1, "done", 1.0, 40_000),
        ):
            plain.display(event)
            plain.wait(100, event if has_news else None)
    times = [0.0, *(time for time, _ in plain.lines), 700.0]
    assert max(later - earlier for earlier, later in pairwise(times)) <= SILENCE_SECONDS
    said = [line for _, line in plain.lines if "so far" in line]
    for text in ("starting", "bootstrap: 40 %", "support: 0 %", "training: step 900", "evaluation: 25 %", "writing"):
        assert any(line.startswith(text) for line in said), text
    assert len(said) < 30, "and no more often than that"


def test_what_breaks_the_silence_says_how_fast_and_how_long(capsys):
    plain = Plain(capsys)
    with plain.display:
        for step in range(200):
            plain.wait(1, training(step * 10))
    assert plain.lines[1][1] == "training: step 300   10 steps/s   1 h 6 min left   0:31 so far"


def test_of_several_runs_those_at_work_break_the_silence(capsys):
    plain = Plain(capsys)
    with plain.display:
        plain.display(overview(runs=3))
        plain.display(News(1, "done", 1.0))
        plain.display(training(500, run=2))
        told(capsys)
        plain.wait(31)
    assert [line for _, line in plain.lines] == ["run 2: training: step 500   0:30 so far"]


def test_ticks_come_until_the_display_is_closed(monkeypatch):
    monkeypatch.setattr("phloem.display.lines.TICK_SECONDS", 0.001)
    ticked, threads = Event(), threading.active_count()
    with ticking(ticked.set):
        assert ticked.wait(60)
    assert threading.active_count() == threads


def test_quiet_shows_notices_only(capsys):
    with Quiet() as display:
        display(overview())
        display(training(40_000, report(40_000)))
        display(Notice("run 2 stopped\nearly"))
    assert told(capsys) == ["phloem: run 2 stopped early"]


def test_lines_show_notices(capsys):
    with Lines() as display:
        display(Notice("all [is] well"))
    assert told(capsys) == ["phloem: all [is] well"]


def test_the_alignment_report_names_what_is_odd():
    lines = words.overview_lines(
        overview(
            missing_share=0.0002,
            constant_sites=1,
            identical=(("A", "B"), ("C", *"DEFGHIJ")),
            empty_taxa=("K\x1b", "L" * 50),
            empty_sites=1200,
        )
    )
    assert lines[:-2] == [
        "primates: 12 taxa, 898 sites, 413 patterns, <0.1 % missing, 1 constant site",
        "identical sequences: A, B; C, D, E, F, G and 3 more (the data cannot tell their order; one of each is enough)",
        f"taxa without any data: K , {'L' * 39}…",
        "sites without any data: 1,200",
    ]


def test_long_lists_of_identical_sequences_end_early():
    line = words.overview_lines(overview(identical=tuple((f"a{group}", f"b{group}") for group in range(8))))[1]
    assert "a4, b4 and 3 more groups (" in line
    assert "a5" not in line


@pytest.mark.parametrize(
    ("seconds", "rough", "exact"),
    [
        (0.2, "0 s", "0:00"),
        (45, "45 s", "0:45"),
        (150, "2 min", "2:30"),
        (3599, "1 h", "59:59"),
        (4800, "1 h 20 min", "1:20:00"),
        (183_600, "2 d 3 h", "51:00:00"),
    ],
)
def test_durations(seconds, rough, exact):
    assert words.rough_duration(seconds) == rough
    assert words.clock_time(seconds) == exact


@pytest.mark.parametrize(
    ("inverse", "text"), [(1.0, "1"), (0.8, "1.25"), (0.0801, "12.5"), (0.001, "1,000"), (0.0, "∞")]
)
def test_temperatures_have_three_digits(inverse, text):
    assert words.temperature(inverse) == text


def test_speeds_below_ten_have_a_decimal():
    assert [words.rate(speed) for speed in (1234.5, 9.96, 3.21)] == ["1,234", "10", "3.2"]


@pytest.mark.parametrize("display", [Lines, Quiet])
@pytest.mark.parametrize("stderr", ["sys.stderr.close()", "sys.stderr = None", "os.close(2)", "os.dup2(broken, 2)"])
def test_a_broken_stderr_does_not_stop_a_run(display, stderr):
    program = f"""
import os, sys
from phloem.display.lines import {display.__name__}
from phloem.display.events import News, Notice
reader, broken = os.pipe()
os.close(reader)
{stderr}
with {display.__name__}() as display:
    display(Notice("text"))
    display(News(1, "training", 0.5, 100))
print("done", flush=True)
os._exit(0)  # Python itself complains about a broken stderr when it ends
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "done\n"


def test_lines_need_neither_rich_nor_torch():
    program = "import sys, phloem.display.lines, phloem.display.lines; print(sys.modules.keys() & {'rich', 'torch'})"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "set()\n"
