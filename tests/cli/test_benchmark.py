"""`phloem reproduce table1`, `table2`, `figures` and `supports`: what users type, see, and get wrong."""

import json

import pytest

from phloem.cli.main import run
from phloem.experiments.benchmark import gaps, task
from phloem.experiments.benchmark.cells import Setup
from phloem.experiments.benchmark.supports import Bootstrap
from support.command_line import complaint
from support.made_up_table import every_state, made_up_gaps


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty directory, and no benchmark data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PHLOEM_DATA", raising=False)
    return tmp_path


@pytest.fixture
def requests(monkeypatch):
    """What would be done, instead of doing it; the results are made up."""
    found = []

    def reproduce(request, *_rest):
        found.append(request)
        return []

    monkeypatch.setattr(task, "reproduce_table1", reproduce)
    monkeypatch.setattr(task, "table1_json", lambda _results: every_state())
    return found


def test_options_make_the_request(requests):
    options = ["--datasets", "DS1, DS4", "--variants", "edge,psp", "--seeds", "1,3", "--preset", "paper", "--jobs", "2"]
    options += ["--family", "warped", "--steps", "500", "--set", "training.refit=0", "--data", "here"]
    options += ["--bootstrap-replicates", "2", "--bootstrap-trees", "50", "--bootstrap-method", "embedded"]
    assert run(["reproduce", "table1", "--out", "out", "--quiet", *options]) == 0
    [request] = requests
    assert (request.datasets, request.variants, request.seeds) == (("DS1", "DS4"), ("edge", "psp"), (1, 3))
    assert request.setup == Setup("warped", "paper", (("training.refit", "0"), ("training.steps", "500")))
    assert request.bootstrap == Bootstrap(2, 50, "embedded")
    assert (str(request.out), str(request.data), request.jobs) == ("out", "here", 2)


def test_defaults_are_the_whole_table_with_our_schedule(requests):
    assert run(["reproduce", "table1", "--out", "out", "--quiet"]) == 0
    [request] = requests
    assert len(request.cells()) == 64
    assert request.setup == Setup("lognormal", "standard")
    assert (request.seeds, request.jobs, request.data) == ((1,), 1, None)


@pytest.mark.usefixtures("requests")
def test_the_table_is_printed(capsys):
    assert run(["reproduce", "table1", "--out", "out"]) == 0
    printed = capsys.readouterr().out
    assert "lognormal, standard: 3 of 5 cells finished" in printed
    first = next(line for line in printed.splitlines() if line.startswith("Split"))
    assert first.split() == ["Split", "−0.50", "stopped"]
    assert run(["reproduce", "table1", "--out", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == every_state()


def test_gaps_are_printed(monkeypatch, capsys):
    monkeypatch.setattr(gaps, "reproduce_table2", lambda *_: made_up_gaps())
    assert run(["reproduce", "table2", "--out", "out"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["EDGE", "1", "0.50", "(0.55)", "0.50", "(0.50)", "0.50", "(1.00)", "0.50", "(0.53)"] in rows
    assert ["PSP", "1", "–", "(1.81)", "–", "(1.82)", "–", "(3.79)", "–", "(0.89)"] in rows
    assert run(["reproduce", "table2", "--out", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == made_up_gaps()


def test_a_stop_says_how_to_resume(monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(task, "reproduce_table1", stop)
    monkeypatch.setattr(gaps, "reproduce_table2", stop)
    for name in ("table1", "table2"):
        assert run(["reproduce", name, "--out", "out"]) == 130
        assert "The same command resumes them." in complaint(capsys)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["table1", "--datasets", "DS11"], "--datasets 'DS11': choose from DS1, DS2"),
        (["table1", "--variants", "edge-text"], "--variants 'edge-text': choose from split"),
        (["table1", "--seeds", "one"], "--seeds one: give numbers"),
        (["table1", "--preset", "fast"], "--preset 'fast'"),
        (["table1", "--family", "normal"], "--family 'normal'"),
        (["table1", "--jobs", "0"], "--jobs 0"),
        (["table1", "--steps", "0"], "--steps 0"),
        (["table1", "--set", "seed=2"], "--set seed: is the same in the whole benchmark"),
        (["table2"], "found no trees of its posterior. Name those of long MrBayes runs by --trees"),
        (["table2", "--trees", "nowhere.t"], "nowhere.t"),
        (["figures"], "has no cells of lognormal-standard with reports. Train them: phloem reproduce table1"),
        (["supports", "--datasets", "DS1,DS1"], "--datasets: give each once"),
    ],
    ids=" ".join,
)
def test_mistakes_are_one_line_and_leave_nothing(words, said, capsys, elsewhere):
    assert run(["reproduce", words[0], "--out", "out", "--quiet", *words[1:]]) == 2
    assert said in complaint(capsys)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", ["table1", "supports"])
def test_data_that_are_missing_are_told_of(name, capsys, elsewhere):
    (elsewhere / "data").mkdir()
    words = ["--datasets", "DS1", "--data", "data", "--quiet"]
    assert run(["reproduce", name, "--out", "out", *words]) == 2
    assert "DS1: found no alignment in data. Name a directory with DS1.fasta (27 taxa, 1,949 sites)" in complaint(
        capsys
    )
