"""Cells: their names, their settings, and what may differ between tables."""

import pytest

from phloem.config.infer import INFER, PRESETS
from phloem.errors import ConfigError
from phloem.experiments.benchmark.cells import Cell, Sessions, Setup, add_session, cells_in, parse_changes


def test_a_setup_is_known_by_the_name_of_its_directory():
    for setup in (
        Setup(),
        Setup("warped", "paper"),
        Setup(changes=parse_changes(["training.refit=0", "training.topology_rate_factor=3.0"], steps=40_000)),
    ):
        assert Setup.from_name(setup.name) == setup
    assert Setup().name == "lognormal-standard"
    assert Setup(changes=parse_changes(["training.refit = 0"], 400)).name == (
        "lognormal-standard-training.refit=0,training.steps=400"
    )
    assert Setup.from_name("notes") is None


def test_the_cells_of_a_directory_are_found(tmp_path):
    cells = [Cell(Setup(), "DS1", "edge", 1), Cell(Setup("warped", "paper"), "DS2", "psp", 12)]
    for cell in cells:
        cell.directory(tmp_path).mkdir(parents=True)
    failed = Cell(Setup(), "DS3", "mlp", 1)
    add_session(failed.sessions_path(tmp_path), session(outcome="failed", problem="no trees"))
    (tmp_path / "cells" / "lognormal-standard" / "DS1-edge-1-copy").mkdir()
    (tmp_path / "cells" / "others" / "DS1-edge-1").mkdir(parents=True)
    assert set(cells_in(tmp_path)) == {*cells, failed}


def test_the_papers_preset_is_the_papers():
    config = Cell(Setup(preset="paper"), "DS1", "edge", 3).config()
    assert (config.training, config.seed, config.branches) == (PRESETS["paper"].training, 3, "edge")
    assert (config.training.steps, config.training.estimator, config.training.refit) == (400_000, "vimco", 0.0)
    assert (config.family, config.model.name, config.model.gamma) == ("lognormal", "JC", None)
    assert (config.branch_prior, config.prior_rate) == ("exponential", 10.0)
    assert (config.evaluation.samples, config.evaluation.repeats) == (1000, 100)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("family", ["lognormal", "warped"])
def test_no_cell_has_chains_annealing_or_a_closed_support(preset, family):
    config = Cell(Setup(family, preset), "DS1", "edge", 1).config()
    assert (config.support.closure, config.support.explore) == ("none", 0)
    assert (config.evaluation.anneal, config.evaluation.chains) == (0, 0)
    assert config.family == family
    assert config.support.credible == 0.95
    assert config.training == PRESETS[preset].training


def test_the_command_gives_the_settings(tmp_path):
    """The command line of a cell, resolved by the parser of `--set` and the flags, is its configuration."""
    cell = Cell(Setup("warped", "quick", parse_changes(["training.ramp=0.5"], 70)), "DS1", "gcn", 4)
    words = cell.arguments(tmp_path, tmp_path / "a.fasta", tmp_path / "trees")
    given = dict(zip(words[2::2], words[3::2], strict=False))
    assert words[:2] == ["infer", str(tmp_path / "a.fasta")]
    assert "--resume" in words
    sets = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    settings = dict(text.split("=", 1) for text in sets)
    assert settings["training.steps"] == "70"
    assert settings["seed"] == "4"
    assert given["--trees"] == str(tmp_path / "trees")
    assert {"--preset", "--family", "--branches", "--model"} <= set(words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("training.refit", "give KEY=VALUE"),
        ("training.stepz=3", "unknown setting"),
        ("seed=3", "same in the whole benchmark, or has an option of its own"),
        ("model.name=HKY", "same in the whole benchmark"),
        ("evaluation.chains=10", "same in the whole benchmark"),
        ("training.refit=[1]", "training.refit is"),
        ("training.decay=../x", "plain number or word"),
    ],
)
def test_what_may_not_differ_is_refused(text, words):
    with pytest.raises(ConfigError, match=words):
        parse_changes([text], None)


def test_another_configuration_is_told_of(tmp_path):
    cell = Cell(Setup(), "DS1", "edge", 1)
    assert cell.problem(tmp_path) == ""
    cell.directory(tmp_path).mkdir(parents=True)
    (cell.directory(tmp_path) / "config.toml").write_text(INFER.to_toml(cell.config()))
    assert cell.problem(tmp_path) == ""
    other = INFER.resolve(base=cell.config(), settings=[{"training.steps": 5}])
    (cell.directory(tmp_path) / "config.toml").write_text(INFER.to_toml(other))
    assert "is a run with other settings: training.steps is 5, not 10000" in cell.problem(tmp_path)


def session(**changes):
    row = {
        "began": "",
        "seconds": 2.0,
        "processor_seconds": 1.0,
        "outcome": "finished",
        "problem": "",
        "processor": "P",
    }
    return row | changes


def test_sessions_add_up(tmp_path):
    path = tmp_path / "deep" / "cell.json"
    assert Sessions.read(path) == Sessions()
    add_session(path, session(outcome="stopped"))
    add_session(path, session(seconds=3.0))
    assert Sessions.read(path) == Sessions(5.0, 2.0, "finished", "", "P")
    add_session(path, session(processor_seconds=None, outcome="failed", problem="why"))
    assert Sessions.read(path) == Sessions(7.0, None, "failed", "why", "P")
    path.write_text("{")
    assert Sessions.read(path) == Sessions()
