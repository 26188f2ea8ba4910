"""Settings on the command line, and `phloem config show`."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from phloem.cli.flags import FLAGS, SOURCES, Settings, with_settings
from phloem.cli.main import run
from phloem.config import InferConfig, ModelConfig, TrainingConfig, read_config
from phloem.config.infer import PRESETS
from phloem.errors import ConfigError


@pytest.fixture(autouse=True)
def in_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")


def shown(capsys, *options: str) -> dict[str, Any]:
    """What `config show` says, by dotted key."""
    assert run(["config", "show", *options, "--json"]) == 0
    found = {}
    for name, entry in json.loads(capsys.readouterr().out).items():
        found |= {f"{name}.{key}": value for key, value in entry.items()} if isinstance(entry, dict) else {name: entry}
    return found


# For every flag its setting, the options that it needs beside it, its text, and the value that it sets.
GAMMA = ["--gamma", "4", "--alpha", "0.5"]
CASES = {
    "--branches": ("branches", [], "psp", "psp"),
    "--depth": ("depth", [], "3", 3),
    "--width": ("width", [], "50", 50),
    "--prior-rate": ("prior_rate", [], "5", 5.0),
    "--seed": ("seed", [], "7", 7),
    "--runs": ("runs", [], "3", 3),
    "--model": ("model.name", [], "f81", "F81"),
    "--kappa": ("model.kappa", ["--set", "model.name=TN93", "--set", "model.kappa=[1, 1]"], "2,3", [2.0, 3.0]),
    "--frequencies": ("model.frequencies", ["--model", "F81"], ".1,.2,.3,.4", [0.1, 0.2, 0.3, 0.4]),
    "--rates": (
        "model.rates",
        ["--set", "model.name=SYM", "--set", "model.rates=[1,1,1,1,1,1]"],
        "1,2,3,4,5,6",
        [1.0, 2, 3, 4, 5, 6],
    ),
    "--gamma": ("model.gamma", ["--set", "model.gamma=8", "--alpha", "0.5"], "4", 4),
    "--alpha": ("model.alpha", ["--set", "model.alpha=9", "--gamma", "4"], "0.5", 0.5),
    "--median-rates": ("model.median_rates", GAMMA, None, True),
    "--invariant": ("model.invariant", [], "0.1", 0.1),
    "--credible": ("support.credible", [], "0.9", 0.9),
    "--bootstrap-method": ("support.method", [], "embedded", "embedded"),
    "--bootstrap-replicates": ("support.replicates", [], "4", 4),
    "--bootstrap-trees": ("support.count", [], "2000", 2000),
    "--bootstrap-model": ("support.model", [], "GTR+G4", "GTR+G4"),
    "--steps": ("training.steps", [], "77", 77),
    "--particles": ("training.particles", [], "5", 5),
    "--estimator": ("training.estimator", [], "rws", "rws"),
    "--stop": ("training.stop", [], "auto", "auto"),
    "--samples": ("evaluation.samples", [], "10", 10),
    "--repeats": ("evaluation.repeats", [], "10", 10),
}


def test_every_flag_has_a_case():
    assert [*CASES] == [flag.name for flag in FLAGS]
    assert [option.name for option in SOURCES] == ["preset", "file", "assignments"]


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_every_flag_changes_its_own_setting(flag, capsys):
    key, besides, text, value = CASES[flag.name]
    before = shown(capsys, *besides)
    after = shown(capsys, *besides, flag.name, *([] if text is None else [text]))
    changed = {key for key in before if before[key] != after[key]}
    assert changed == ({key, "model.frequencies"} if flag.name == "--model" else {key})
    assert after[key] == value


def test_preset_file_and_set_change_settings(capsys):
    default = shown(capsys)
    Path("run.toml").write_text("seed = 5\n")
    assert default | {"seed": 5} == shown(capsys, "--config", "run.toml")
    assert default | {"training.ramp": 0.5} == shown(capsys, "--set", "training.ramp=0.5")
    quick = {"runs": 1, "training.steps": 8000, "training.topology_rate_factor": 10.0}
    assert default | quick == shown(capsys, "--preset", "quick")


def test_what_comes_later_counts(capsys):
    Path("run.toml").write_text('preset = "paper"\n[training]\nsteps = 2\nparticles = 3\nstairs = 4\n')
    options = ["--config", "run.toml"]
    assert shown(capsys, *options)["support.count"] == 10_000
    options += ["--preset", "quick", "--set", "training.particles=5", "--set", "training.steps=6", "--steps", "7"]
    found = shown(capsys, *options)
    assert (found["support.count"], found["training.topology_rate_factor"]) == (1000, 10.0)
    assert (found["training.steps"], found["training.particles"], found["training.stairs"]) == (7, 5, 4)


def test_a_flag_undoes_what_a_file_says(capsys):
    Path("run.toml").write_text("[model]\ngamma = 4\nalpha = 1\nmedian_rates = true\n")
    assert shown(capsys, "--config", "run.toml")["model.median_rates"] is True
    assert shown(capsys, "--config", "run.toml", "--no-median-rates")["model.median_rates"] is False


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("training.estimator=rws", "training.estimator", "rws"),
        ('training.estimator="rws"', "training.estimator", "rws"),
        ("training.clipping=inf", "training.clipping", "inf"),
        (" seed = 5", "seed", 5),
        ("training={steps=5}", "training.steps", 5),
        ("training.doubly_reparameterized=false", "training.doubly_reparameterized", False),
        ("preset=quick", "training.steps", 8000),
    ],
)
def test_set_takes_toml_values_and_bare_words(text, key, value, capsys):
    assert shown(capsys, "--set", text)[key] == value


def test_what_is_shown_is_a_file_that_gives_the_same(capsys):
    options = ["--preset", "paper", "--model", "HKY", "--kappa", "2", "--gamma", "4", "--alpha", "0.5"]
    assert run(["config", "show", *options]) == 0
    text = capsys.readouterr().out
    expected = Settings(
        "paper", None, {"model.name": "HKY", "model.kappa": (2.0,), "model.gamma": 4, "model.alpha": 0.5}
    ).resolve()
    assert read_config(text, "run.toml") == expected
    assert expected.model == ModelConfig("HKY", kappa=(2.0,), gamma=4, alpha=0.5)
    Path("run.toml").write_text(text)
    assert run(["config", "show", "--config", "run.toml"]) == 0
    assert capsys.readouterr().out == text


BAD = {
    "an unknown preset": (["--preset", "slow"], "phloem: --preset 'slow': choose one of paper, standard, quick."),
    "an unknown setting": (
        ["--set", "training.setps=5"],
        "phloem: --set: unknown setting 'training.setps'. Did you mean",
    ),
    "a misspelt section": (
        ["--set", "trainig.setps=5"],
        "phloem: --set: unknown setting 'trainig.setps'. Did you mean ",
    ),
    "an unknown section": (["--set", "zoo.zebra=5"], "phloem: --set: unknown setting 'zoo.zebra'. Known are model, "),
    "no value": (["--set", "seed"], "phloem: --set 'seed': give KEY=VALUE, such as training.ramp=0.5."),
    "an empty value": (["--set", "seed="], "phloem: --set: seed is the text '': give a whole number."),
    "two lines": (["--set", "seed=1\nruns=2"], "phloem: --set: seed is the text '1\\nruns=2': give a whole number."),
    "a value out of range": (["--steps", "0"], "phloem: --steps 0: give a whole number from 1 to 1,000,000,000."),
    "letters for numbers": (["--model", "K80", "--kappa", "two"], "phloem: --kappa two: give numbers, separated by"),
    "no file": (
        ["--config", "none.toml"],
        "phloem: none.toml: cannot be read (No such file or directory). Name a TOML",
    ),
    "a directory": (["--config", "."], "phloem: .: cannot be read (Is a directory). Name a TOML file with settings."),
    "an unknown setting in a file": (
        ["--config", "bad.toml"],
        "phloem: bad.toml: unknown setting 'trainig'. Did you mean",
    ),
    "a text for a number": (["--seed", "one"], "phloem: Invalid value for '--seed'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_are_one_line_and_exit_code_2(case, capsys):
    options, message = BAD[case]
    Path("bad.toml").write_text("[trainig]\nsteps = 5\n")
    assert run(["config", "show", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(message)
    assert len(captured.err.splitlines()) == 1


def collected(**given: Any) -> Settings:
    """What a command with settings gets."""
    seen = []

    @with_settings
    def command(out: str, settings: Settings, loud: bool = False) -> None:
        """Do it."""
        seen.append((out, settings, loud))

    assert [*inspect.signature(command).parameters][:4] == ["out", "preset", "file", "assignments"]
    assert [*inspect.signature(command).parameters][-1] == "loud"
    assert command.__doc__ == "Do it."
    command(out="here", loud=True, **given)
    [(out, settings, loud)] = seen
    assert (out, loud) == ("here", True)
    return settings


def test_a_command_gets_what_was_given_and_nothing_else():
    assert collected() == Settings()
    for given in ({"preset": "quick"}, {"file": Path("run.toml")}, {"seed": 1}, {"assignments": ["seed=1"]}):
        assert collected(**given) != Settings()
    assert collected(seed=1, assignments=["training.ramp=0.5"]).flags == {"training.ramp": 0.5, "seed": 1}


def test_settings_are_laid_upon_a_base():
    base = InferConfig(seed=9, training=TrainingConfig(steps=5))
    assert collected().resolve(base) == base
    assert collected(depth=3).resolve(base) == InferConfig(seed=9, depth=3, training=TrainingConfig(steps=5))
    assert collected(preset="quick").resolve(base).training == PRESETS["quick"].training
    with pytest.raises(ConfigError, match="--steps 0"):
        collected(steps=0).resolve(base)


def test_a_command_with_a_parameter_of_the_same_name_is_refused_at_once():
    def command(steps: int, settings: Settings) -> None: ...

    with pytest.raises(ValueError, match="duplicate parameter name"):
        with_settings(command)


def test_help_shows_panels_and_the_defaults_of_the_standard_preset(capsys):
    assert run(["config", "show", "--help"]) == 0
    output = capsys.readouterr().out
    assert all(f"─ {panel} ─" in output for panel in ("Model", "Support", "Training", "Evaluation"))
    assert "(40000, or the preset's)" in output
    assert "(edge)" in output
