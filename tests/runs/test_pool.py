"""Tasks shared out over worker processes that fail, die, and are stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from phloem.runs.pool import Task, work_through
from support.waiting import wait_until

WORK = "support.pool_work:do"
TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def workers_find_their_work(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]))


def tasks_of(folder: Path, **what: str) -> list[Task]:
    return [Task(name, {"name": name, "what": kind, "folder": str(folder)}) for name, kind in what.items()]


def events_of(folder: Path, at_once: int = 1, **what: str) -> list:
    return list(work_through(tasks_of(folder, **what), WORK, at_once))


def ends(events: list) -> dict[str, str]:
    """The last word on every task, each of which has one."""
    found = [(event.name, event.kind) for event in events if event.kind in ("done", "failed")]
    assert len(dict(found)) == len(found)
    return dict(found)


def log(folder: Path) -> list[list[str]]:
    """Every try: the task and the process."""
    return [line.split() for line in (folder / "log").read_text().splitlines()]


def test_one_process_does_task_after_task(tmp_path):
    events = events_of(tmp_path, a="", b="notice", c="")
    assert ends(events) == {"a": "done", "b": "done", "c": "done"}
    assert [name for name, _ in log(tmp_path)] == ["a", "b", "c"]
    assert len({process for _, process in log(tmp_path)}) == 1
    of_b = [(event.kind, event.text, event.share) for event in events if event.name == "b"]
    assert of_b == [("begun", "", 0), ("news", "training", 0.5), ("notice", "look out", 0), ("done", "", 0)]
    assert [event.result["name"] for event in events if event.kind == "done"] == ["a", "b", "c"]


def test_as_many_processes_as_are_wanted_and_no_more_than_tasks(tmp_path):
    events = events_of(tmp_path, 2, a="", b="", c="", d="")
    assert set(ends(events).values()) == {"done"}
    assert len({process for _, process in log(tmp_path)}) == 2
    assert events_of(tmp_path, 2) == []


def test_a_task_that_fails_stops_no_other(tmp_path):
    events = events_of(tmp_path, a="fail", b="")
    assert ends(events) == {"a": "failed", "b": "done"}
    assert next(event.text for event in events if event.kind == "failed") == "no luck. Try again."
    assert len({process for _, process in log(tmp_path)}) == 1


@pytest.mark.parametrize(("what", "said"), [("break", "ValueError: a bug."), ("no memory", "not enough memory.")])
def test_after_a_defect_another_process_goes_on(tmp_path, what, said):
    events = events_of(tmp_path, a=what, b="")
    assert ends(events) == {"a": "failed", "b": "done"}
    assert said in next(event.text for event in events if event.kind == "failed")
    (_, one), (_, other) = log(tmp_path)
    assert one != other


@pytest.mark.parametrize("what", ["die once", "stop once"])
def test_a_task_whose_process_is_killed_is_done_by_another(tmp_path, what):
    events = events_of(tmp_path, 2, a=what, b="", c="")
    assert set(ends(events).values()) == {"done"}
    assert [event.name for event in events if event.kind == "lost"] == ["a"]
    assert sorted(name for name, _ in log(tmp_path)) == ["a", "a", "b", "c"]


def test_a_task_that_kills_its_process_twice_has_failed(tmp_path):
    events = events_of(tmp_path, a="die", b="")
    assert ends(events) == {"a": "failed", "b": "done"}
    assert next(event.text for event in events if event.kind == "failed") == "its process was killed (signal 9)."
    assert [name for name, _ in log(tmp_path)] == ["a", "a", "b"]


def test_who_ends_early_stops_the_workers(tmp_path):
    events = work_through(tasks_of(tmp_path, a="wait", b="wait"), WORK, 2)
    assert [next(events).kind, next(events).kind] == ["begun", "begun"]
    wait_until(lambda: (tmp_path / "a waits").exists() and (tmp_path / "b waits").exists())
    events.close()
    assert (tmp_path / "a stopped").exists()
    assert (tmp_path / "b stopped").exists()


def test_workers_of_a_killed_process_stop(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        "import sys\nfrom phloem.runs.pool import Task, work_through\n"
        f"task = Task('a', {{'name': 'a', 'what': 'wait', 'folder': {str(tmp_path)!r}}})\n"
        f"print(list(work_through([task], {WORK!r}, 1)))\n"
    )
    process = subprocess.Popen([sys.executable, str(script)])
    wait_until((tmp_path / "a waits").exists, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until((tmp_path / "a stopped").exists)
