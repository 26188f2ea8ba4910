"""Several runs at the same time, each in a process of its own."""

import json
from pathlib import Path

import pytest

from phloem.errors import ProgramProblem
from phloem.runs import several
from phloem.runs.driver import RunOptions
from phloem.runs.events import News, Notice
from phloem.runs.several import INTERRUPTED, complete_runs, decode_event, encode_event
from support.counting_runs import CountReport, count_directory
from support.messages import saying


def test_a_run_that_fails_ends_the_others_and_is_told_of(tmp_path, monkeypatch):
    script = tmp_path / "fails.py"
    script.write_text('import sys\nprint(\'["error", "no luck. Try again."]\', flush=True)\nsys.exit(2)\n')
    with pytest.raises(ProgramProblem, match=r"run 1: no luck\. Try again\."):
        complete_with(script, tmp_path, monkeypatch)


def test_a_run_that_dies_is_told_of(tmp_path, monkeypatch):
    script = tmp_path / "dies.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(ProgramProblem, match=saying("run 1 … signal 9 … --resume")):
        complete_with(script, tmp_path, monkeypatch)
    script.write_text("raise ValueError('a bug')\n")
    with pytest.raises(ProgramProblem, match=saying("run 1 … ValueError: a bug … --resume")):
        complete_with(script, tmp_path, monkeypatch)


def test_a_run_that_somebody_else_stops_stops_all(tmp_path, monkeypatch):
    script = tmp_path / "stops.py"
    script.write_text(f"import sys\nsys.exit({INTERRUPTED})\n")
    with pytest.raises(KeyboardInterrupt):
        complete_with(script, tmp_path, monkeypatch)


@pytest.mark.parametrize("suspended", [False, True])
def test_the_others_are_told_to_stop_when_one_fails(tmp_path, monkeypatch, suspended):
    script = tmp_path / "two.py"
    script.write_text(f"""
import json, os, pathlib, signal, subprocess, sys, time
folder = pathlib.Path(__file__).parent
ready = folder / "ready"
def is_suspended():
    state = ["ps", "-o", "stat=", "-p", ready.read_text()]
    return subprocess.run(state, capture_output=True, text=True).stdout.startswith("T")
if json.loads(sys.argv[1])[2] == 1:
    while not ready.exists() or {suspended} and not is_suspended():
        time.sleep(0.01)
    print('["error", "no luck."]')
    sys.exit(2)
def stop(*_arguments):
    (folder / "told").touch()
    sys.exit(130)
signal.signal(signal.SIGTERM, stop)
(folder / "writing").write_text(str(os.getpid()))
(folder / "writing").rename(ready)
if {suspended}:
    os.kill(os.getpid(), signal.SIGSTOP)
while True:
    time.sleep(60)
""")
    with pytest.raises(ProgramProblem, match=r"run 1: no luck."):
        complete_with(script, tmp_path, monkeypatch, runs=2, threads=2)
    assert (tmp_path / "told").exists()


def test_one_that_does_not_hear_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(several, "STOP_SECONDS", 0.1)
    script = tmp_path / "deaf.py"
    script.write_text("""
import json, pathlib, signal, sys, time
ready = pathlib.Path(__file__).with_name("ready")
if json.loads(sys.argv[1])[2] == 1:
    while not ready.exists():
        time.sleep(0.01)
    print('["error", "no luck."]')
    sys.exit(2)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
ready.touch()
while True:
    time.sleep(60)
""")
    with pytest.raises(ProgramProblem, match=r"run 1: no luck."):
        complete_with(script, tmp_path, monkeypatch, runs=2, threads=2)


@pytest.mark.parametrize(("runs", "threads", "at_once", "each"), [(3, 2, 2, 1), (2, 5, 2, 2), (2, None, 1, 1)])
def test_cores_are_shared_among_the_runs(tmp_path, monkeypatch, runs, threads, at_once, each):
    script = tmp_path / "notes.py"
    script.write_text("""
import json, pathlib, sys, time
def note(what):
    with pathlib.Path(__file__).with_name("log").open("a") as log:
        log.write(f"{what} {json.loads(sys.argv[1])[3]}\\n")
note("begins")
time.sleep(0.3)
note("ends")
""")
    complete_with(script, tmp_path, monkeypatch, runs=runs, threads=threads)
    at_work, most = 0, 0
    for line in (tmp_path / "log").read_text().splitlines():
        what, own_threads = line.split()
        assert int(own_threads) == each
        at_work += 1 if what == "begins" else -1
        most = max(most, at_work)
    assert 1 <= most <= at_once


def complete_with(script: Path, folder: Path, monkeypatch, *, runs: int = 1, threads: int | None = 1) -> None:
    """Complete runs with a program of the test's in the worker's place."""
    begin = several.subprocess.Popen

    class Popen(begin):
        def __init__(self, arguments, **options):
            super().__init__([arguments[0], str(script), arguments[-1]], **options)

    monkeypatch.setattr(several.subprocess, "Popen", Popen)
    numbered = [(number, count_directory(folder / "none")) for number in range(1, runs + 1)]
    complete_runs(numbered, "no:task", RunOptions(threads=threads), lambda _event: None)


def test_files_of_the_users_are_not_taken_for_packages(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise ValueError('mine')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProgramProblem, match=saying("run 1 … no_such_module")):
        complete_runs(
            [(1, count_directory(tmp_path / "none"))], "no_such_module:f", RunOptions(threads=1), lambda _event: None
        )


def test_news_survive_the_way_between_processes():
    report = CountReport(3, 0.5, float("nan"))
    for event in (News(2, "training", 0.5, 3, report), News(1, "evaluation", 0.25), Notice("x: full")):
        again = decode_event(json.dumps(encode_event(event)), CountReport)
        assert repr(again) == repr(event)
