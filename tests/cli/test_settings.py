"""Settings on the command line, and `phloem config show`."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import typer

from phloem.cli import bootstrap, density, search
from phloem.cli.flags import INFER_FLAGS, Flag, Flags, Settings, with_config, with_infer_settings, with_settings
from phloem.cli.main import run
from phloem.config import InferConfig, ModelConfig, TrainingConfig, read_config
from phloem.config.infer import INFER, PRESETS
from phloem.config.search import SEARCH, SearchConfig
from phloem.errors import ConfigError
from support.command_line import complaint
from support.messages import assert_says


@pytest.fixture(autouse=True)
def wide_terminal(in_empty_directory, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def shown(capsys, *options: str) -> dict[str, Any]:
    """What `config show` says, by dotted key."""
    assert run(["config", "show", *options, "--json"]) == 0
    found = {}
    for name, entry in json.loads(capsys.readouterr().out).items():
        found |= {f"{name}.{key}": value for key, value in entry.items()} if isinstance(entry, dict) else {name: entry}
    return found


# For every flag its setting, the options that it needs beside it, its text, and the value that it sets.
GAMMA = ["--model", "JC", "--gamma", "4", "--alpha", "0.5"]
INFER_CASES = {
    "--branches": ("branches", [], "psp", "psp"),
    "--family": ("family", [], "lognormal", "lognormal"),
    "--depth": ("depth", [], "3", 3),
    "--width": ("width", [], "50", 50),
    "--branch-prior": ("branch_prior", [], "uniform", "uniform"),
    "--prior-rate": ("prior_rate", [], "5", 5.0),
    "--constrain": ("constrain", [], "clades.txt", "clades.txt"),
    "--outgroup": ("outgroup", [], "Mus,Rattus", "Mus,Rattus"),
    "--seed": ("seed", [], "7", 7),
    "--runs": ("runs", [], "3", 3),
    "--model": ("model.name", ["--set", "model.name=JC"], "f81", "F81"),
    "--kappa": ("model.kappa", ["--set", "model.name=TN93"], "2,3", (2.0, 3.0)),
    "--frequencies": ("model.frequencies", ["--model", "F81"], ".1,.2,.3,.4", (0.1, 0.2, 0.3, 0.4)),
    "--rates": ("model.rates", ["--model", "SYM"], "1,2,3,4,5,6", (1.0, 2, 3, 4, 5, 6)),
    "--gamma": ("model.gamma", ["--alpha", "0.5"], "8", 8),
    "--alpha": ("model.alpha", [], "0.5", 0.5),
    "--median-rates": ("model.median_rates", GAMMA, None, True),
    "--invariant": ("model.invariant", [], "0.1", 0.1),
    "--partition": ("partition.sites", [], "genes.nex", "genes.nex"),
    "--link": ("partition.link", ["--partition", "by-codon"], "alpha,rates", "alpha,rates"),
    "--part-rates": ("partition.rates", ["--partition", "by-codon"], "equal", "equal"),
    "--credible": ("support.credible", [], "0.9", 0.9),
    "--closure": ("support.closure", [], "clades", "clades"),
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


DENSITY_CASES = {
    "--convolution": ("convolution", [], "gin", "gin"),
    "--noise": ("noise", [], "listed", "listed"),
    "--base": ("base", [], "uniform", "uniform"),
    "--noise-ratio": ("noise_ratio", [], "3", 3),
    "--uniform-share": ("uniform_share", [], "0.5", 0.5),
    "--steps": ("steps", [], "77", 77),
    "--batch": ("batch", [], "7", 7),
    "--rate": ("rate", [], "1", 1.0),
    "--depth": ("depth", [], "3", 3),
    "--width": ("width", [], "50", 50),
    "--samples": ("samples", [], "10", 10),
    "--seed": ("seed", [], "7", 7),
}
BOOTSTRAP_CASES = {
    "--count": ("count", [], "2000", 2000),
    "--replicates": ("replicates", [], "3", 3),
    "--seed": ("seed", [], "4", 4),
    "--model": ("model", [], "HKY", "HKY"),
    "--method": ("method", [], "embedded", "embedded"),
    "--keep": ("keep", [], "7", 7),
    "--within": ("within", [], "8", 8.0),
    "--threads": ("threads", [], "5", 5),
    "--timeout": ("timeout", [], "6", 6.0),
}
SEARCH_CASES = {
    "--model": ("model", [], "GTR+I+G4", "GTR+I+G4"),
    "--count": ("count", [], "20", 20),
    "--seed": ("seed", [], "4", 4),
    "--keep": ("keep", [], "5", 5),
    "--within": ("within", [], "6", 6.0),
    "--threads": ("threads", [], "7", 7),
}
TABLES = {
    "infer": (INFER_FLAGS, INFER_CASES),
    "density fit": (density.FIT_FLAGS, DENSITY_CASES),
    "bootstrap": (bootstrap.FLAGS, BOOTSTRAP_CASES),
    "search": (search.FLAGS, SEARCH_CASES),
}


@pytest.mark.parametrize("command", TABLES)
def test_every_flag_has_a_case(command):
    flags, cases = TABLES[command]
    assert [*cases] == [flag.name for flag in flags.flags]
    assert flags.schema.command == command


def resolved(flags: Flags, options: list[str]) -> dict[str, Any]:
    """What a command with these flags gets, by dotted key."""
    seen: list[Settings] = []

    @with_settings(flags, "seed=1")
    def command(settings: Settings) -> None:
        seen.append(settings)

    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(command)
    app(options, standalone_mode=False)
    return flags.schema.values(seen[0].resolve())


@pytest.mark.parametrize(
    ("command", "flag"),
    [(command, flag) for command, (flags, _) in TABLES.items() for flag in flags.flags],
    ids=lambda part: part.name if isinstance(part, Flag) else part,
)
def test_every_flag_changes_its_own_setting(command, flag):
    flags, cases = TABLES[command]
    key, besides, text, value = cases[flag.name]
    before = resolved(flags, besides)
    after = resolved(flags, [*besides, flag.name, *([] if text is None else [text])])
    changed = {key for key in before if before[key] != after[key]}
    assert changed == ({key, "model.frequencies"} if key == "model.name" else {key})
    assert after[key] == value
    assert type(after[key]) is type(value)


def test_preset_file_and_set_change_settings(capsys):
    default = shown(capsys)
    Path("run.toml").write_text("seed = 5\n")
    assert default | {"seed": 5} == shown(capsys, "--config", "run.toml")
    assert default | {"training.ramp": 0.5} == shown(capsys, "--set", "training.ramp=0.5")
    quick = {"runs": 1, "training.steps": 4000, "training.topology_rate_factor": 10.0}
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
        ("preset=quick", "training.steps", 4000),
    ],
)
def test_set_takes_toml_values_and_bare_words(text, key, value, capsys):
    assert shown(capsys, "--set", text)[key] == value


def test_what_is_shown_is_a_file_that_gives_the_same(capsys):
    options = ["--preset", "paper", "--model", "HKY", "--kappa", "2", "--gamma", "4", "--alpha", "0.5"]
    assert run(["config", "show", *options]) == 0
    text = capsys.readouterr().out
    expected = Settings(
        INFER, "paper", {}, {"model.name": "HKY", "model.kappa": (2.0,), "model.gamma": 4, "model.alpha": 0.5}
    ).resolve()
    assert read_config(text, "run.toml") == expected
    assert expected.model == ModelConfig("HKY", kappa=(2.0,), gamma=4, alpha=0.5)
    Path("run.toml").write_text(text)
    assert run(["config", "show", "--config", "run.toml"]) == 0
    assert capsys.readouterr().out == text


BAD = {
    "an unknown preset": (["--preset", "slow"], "--preset 'slow' … paper, standard, quick"),
    "an unknown setting": (
        ["--set", "training.setps=5"],
        "--set: … 'training.setps' … 'steps'",
    ),
    "a misspelt section": (
        ["--set", "trainig.setps=5"],
        "--set: … 'trainig.setps'",
    ),
    "an unknown section": (["--set", "zoo.zebra=5"], "--set: … 'zoo.zebra' … model, "),
    "no value": (["--set", "seed"], "--set 'seed' … KEY=VALUE"),
    "an empty value": (["--set", "seed="], "--set: … seed … '' … whole number"),
    "two lines": (["--set", "seed=1\nruns=2"], "--set: … seed … '1\\nruns=2' … whole number"),
    "a value out of range": (["--steps", "0"], "--steps 0 … 1 … 1,000,000,000"),
    "letters for numbers": (["--model", "K80", "--kappa", "two"], "--kappa two"),
    "no file": (
        ["--config", "none.toml"],
        "none.toml: … no such file",
    ),
    "a directory": (["--config", "."], "phloem: .: … is a directory"),
    "an unknown setting in a file": (
        ["--config", "bad.toml"],
        "bad.toml: … 'trainig' … training",
    ),
    "a text for a number": (["--seed", "one"], "Invalid value for '--seed'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_are_one_line_and_exit_code_2(case, capsys):
    options, facts = BAD[case]
    Path("bad.toml").write_text("[trainig]\nsteps = 5\n")
    assert run(["config", "show", *options]) == 2
    assert_says(complaint(capsys), facts)


def collected(**given: Any) -> Settings[InferConfig]:
    """What a command with settings gets."""
    seen = []

    @with_infer_settings
    def command(out: str, settings: Settings[InferConfig], loud: bool = False) -> None:
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
    Path("run.toml").write_text('preset = "paper"\nruns = 3\n')
    assert collected() == Settings(INFER)
    for given in ({"preset": "quick"}, {"file": Path("run.toml")}, {"seed": 1}, {"assignments": ["seed=1"]}):
        assert collected(**given) != Settings(INFER)
    assert collected(seed=1, assignments=["training.ramp=0.5"]).flags == {"training.ramp": 0.5, "seed": 1}
    assert collected(seed=1, file=Path("run.toml")).layers() == [{"preset": "paper", "runs": 3}, {"seed": 1}]


def test_a_file_is_read_once_so_that_it_may_be_a_pipe():
    Path("run.toml").write_text("seed = 5\n")
    settings = collected(file=Path("run.toml"))
    Path("run.toml").unlink()
    assert settings.resolve() == settings.resolve() == InferConfig(seed=5)


def test_settings_are_laid_upon_a_base():
    base = InferConfig(seed=9, training=TrainingConfig(steps=5))
    assert collected().resolve(base) == base
    assert collected(depth=3).resolve(base) == InferConfig(seed=9, depth=3, training=TrainingConfig(steps=5))
    assert collected(preset="quick").resolve(base).training == PRESETS["quick"].training
    with pytest.raises(ConfigError, match="--steps 0"):
        collected(steps=0).resolve(base)


def test_a_command_may_get_the_record_instead():
    seen = []

    @with_config(search.FLAGS)
    def command(config: SearchConfig) -> None:
        seen.append(config)

    command(count=20)
    assert seen == [SEARCH.resolve(settings=[{"count": 20}])]


def test_a_command_with_a_parameter_of_the_same_name_is_refused_at_once():
    def command(steps: int, settings: Settings[InferConfig]) -> None: ...

    with pytest.raises(ValueError, match="duplicate parameter name"):
        with_infer_settings(command)


def test_help_shows_panels_and_the_defaults_of_the_standard_preset(capsys):
    assert run(["config", "show", "--help"]) == 0
    output = capsys.readouterr().out
    assert all(f"─ {panel} ─" in output for panel in ("Model", "Support", "Training", "Evaluation"))
    assert "(10000, or the preset's)" in output
    assert "(edge)" in output
