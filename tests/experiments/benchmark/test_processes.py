"""Processes: as many at a time as asked, each told of as it ended, none left behind."""

import re

import pytest

from phloem.experiments.benchmark import processes
from phloem.experiments.benchmark.processes import Ended, Process, run_processes


def run_all(commands, at_once=1, waiting=lambda _places: None):
    begun, ended = [], {}
    run_processes(commands, at_once, begun=begun.append, ended=ended.__setitem__, waiting=waiting)
    return begun, ended


@pytest.mark.slow
def test_one_that_fails_stops_no_other():
    begun, ended = run_all([["--version"], ["infer", "nowhere.fasta"], ["--version"]])
    assert begun == [0, 1, 2]
    assert [ended[place].outcome for place in range(3)] == ["finished", "failed", "finished"]
    assert ended[0].output.startswith("phloem ")
    assert ended[1].code == 2
    assert ended[1].problem.startswith("nowhere.fasta: no such file")
    assert ended[2].problem == ""
    assert all(how.seconds > 0 and how.processor_seconds > 0 for how in ended.values())


@pytest.mark.slow
def test_those_at_work_are_stopped_and_told_of(tmp_path):
    """Neither is finished when the user stops us, and one has not begun."""
    long = ["infer", "primates", "--trees", "primates", "--steps", "1000000", "--quiet", "--out"]
    seen = []

    def stop(places):
        seen.append(places)
        if all((tmp_path / str(place) / "history.csv").exists() for place in (0, 1)):
            raise KeyboardInterrupt

    ended = {}
    with pytest.raises(KeyboardInterrupt):
        run_processes(
            [[*long, str(tmp_path / str(place))] for place in range(3)],
            2,
            begun=lambda _place: None,
            ended=ended.__setitem__,
            waiting=stop,
        )
    assert seen[0] == [0, 1]
    assert {place: how.outcome for place, how in ended.items()} == {0: "stopped", 1: "stopped"}
    assert not (tmp_path / "2").exists()


@pytest.mark.slow
def test_one_that_is_killed_says_so():
    process = Process(["infer", "primates", "--steps", "1000000", "--out", "/nonexistent/run"])
    process.kill()
    found = None
    while found is None:
        found = process.ended()
    assert (found.outcome, found.problem) == ("failed", "was killed (signal 9)")


def test_how_it_ended_in_words():
    assert Ended(130, 1.0, 1.0, "stopped").outcome == "stopped"
    assert Ended(1, 1.0, 1.0, "").problem == "ended with exit code 1"
    assert re.fullmatch(r".+, \d+ cores?", processes.processor_name())
