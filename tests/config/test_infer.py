"""The settings of `phloem infer`: a bad one cannot exist, and every one is read from its file."""

import math
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.config import (
    EvaluationConfig,
    InferConfig,
    ModelConfig,
    SupportConfig,
    TrainingConfig,
    preset,
    read_config,
    to_toml,
)
from phloem.config.infer import BRANCH_MODELS, CLOSURES, DECAYS, ESTIMATORS, INFER, PRESETS, STOPS
from phloem.errors import ConfigError
from phloem.features.convolutions import CONVOLUTIONS

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"steps": 0}, "--steps 0"),
        ({"steps": 2.5}, "--steps 2.5: give a whole number"),
        ({"steps": True}, "--steps True"),
        ({"particles": 1}, "takes 2 to 10,000"),
        ({"particles": 10_001}, "takes 2 to 10,000"),
        ({"particles": 0, "estimator": "rws"}, "--particles 0"),
        ({"stop": "never"}, "--stop 'never': choose one of steps, auto"),
        ({"estimator": "adam"}, "choose one of vimco, rws"),
        ({"refit": -1.0}, "refit -1: give a number of 0 or more"),
        ({"refit": float("nan")}, "refit nan"),
        ({"refit": 1e6}, "10,000,000 at most"),
        ({"decay": "linear"}, "choose one of cosine, stairs"),
        ({"ramp": 1.5}, "ramp 1.5"),
        ({"ramp": float("nan")}, "ramp nan"),
        ({"first_inverse_temperature": -0.1}, "first_inverse_temperature -0.1"),
        ({"rate": 0.0}, "rate 0"),
        ({"topology_rate_factor": float("inf")}, "topology_rate_factor inf"),
        ({"clipping": 0.0}, "clipping 0"),
        ({"stairs": 0}, "stairs 0"),
        ({"stair_factor": -1.0}, "stair_factor -1"),
    ],
)
def test_trainings_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(ConfigError, match=what):
        TrainingConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"branches": "tree"}, "choose one of split, psp, mlp"),
        ({"family": "normal"}, "choose one of warped, lognormal"),
        ({"seed": -1}, "--seed -1"),
        ({"depth": -1}, "--depth -1"),
        ({"width": 0}, "--width 0"),
        ({"prior_rate": 0.0}, "--prior-rate 0"),
        ({"runs": 0}, "--runs 0: give a whole number from 1 to 100"),
        ({"runs": 101}, "--runs 101: give a whole number from 1 to 100"),
    ],
)
def test_inferences_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(ConfigError, match=what):
        InferConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"credible": 0.0}, "--credible 0"),
        ({"credible": 1.1}, "--credible 1.1"),
        ({"closure": "splits"}, "--closure 'splits': choose one of auto, none, clades"),
        ({"replicates": 0}, "--bootstrap-replicates 0: give a whole number from 1 to 10,000"),
        ({"replicates": 1.5}, "--bootstrap-replicates 1.5: give a whole number"),
        ({"method": "iqtree", "count": 999}, "--bootstrap-trees 999: IQ-TREE makes 1000 bootstrap trees or more"),
        ({"count": 1000.5}, "--bootstrap-trees 1000.5: give a whole number"),
        ({"count": 0}, "--bootstrap-trees 0: give a whole number"),
        ({"method": "raxml"}, "--bootstrap-method 'raxml': choose one of auto, iqtree, embedded"),
        ({"method": "embedded", "model": "MFP"}, "--bootstrap-model 'MFP': give one of JC, K80"),
        ({"model": "-redo"}, "--bootstrap-model '-redo': give one of IQ-TREE's names"),
    ],
)
def test_supports_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(ConfigError, match=what):
        SupportConfig(**settings)


@pytest.mark.parametrize("name", ["samples", "repeats", "reports", "report_samples"])
def test_evaluations_of_nothing_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name} 0: give a whole number from 1 to"):
        EvaluationConfig(**{name: 0})


def test_presets_and_changes_to_them():
    assert preset("standard") == TrainingConfig()
    assert preset("paper") == TrainingConfig(
        steps=400_000,
        doubly_reparameterized=False,
        ramp=0.25,
        rate=0.001,
        topology_rate_factor=1.0,
        clipping=float("inf"),
        decay="stairs",
        refit=0.0,
    )
    assert preset("quick") == TrainingConfig(steps=4000)
    standard = TrainingConfig()
    assert (standard.steps, standard.particles, standard.estimator) == (10_000, 10, "vimco")
    assert (standard.ramp, standard.rate, standard.topology_rate_factor) == (0.75, 0.003, 10.0)
    assert standard.refit == 5.0
    assert [PRESETS[name].evaluation.anneal for name in ("paper", "standard", "quick")] == [0, 5000, 5000]
    assert [PRESETS[name].evaluation.chains for name in ("paper", "standard", "quick")] == [0, 100, 100]
    assert (standard.clipping, standard.doubly_reparameterized, standard.decay) == (3.0, True, "cosine")
    assert [PRESETS[name].family for name in ("paper", "standard", "quick")] == ["lognormal", "warped", "warped"]
    assert preset("paper", steps=None) == PRESETS["paper"].training
    assert preset("paper", steps=7).steps == 7
    assert preset("paper", steps=7).decay == "stairs"
    with pytest.raises(ConfigError, match="choose one of paper, standard, quick"):
        preset("slow")


def test_names_of_branch_models_are_those_that_can_be_built():
    assert {*BRANCH_MODELS} == {"split", "psp", "mlp", *CONVOLUTIONS}


def test_presets_make_one_run_and_differ_in_bootstrap_trees_too():
    assert PRESETS["standard"] == InferConfig()
    assert {name: config.runs for name, config in PRESETS.items()} == {"paper": 1, "standard": 1, "quick": 1}
    assert {name: config.support.count for name, config in PRESETS.items()} == {
        "paper": 10_000,
        "standard": 1000,
        "quick": 1000,
    }


@pytest.mark.parametrize(
    ("record", "setting"),
    [
        (TrainingConfig, {"steps": 10**30}),
        (InferConfig, {"seed": 2**63}),
        (InferConfig, {"width": 10_001}),
        (InferConfig, {"depth": 101}),
        (EvaluationConfig, {"samples": 10**8}),
        (EvaluationConfig, {"repeats": 10**5}),
        (EvaluationConfig, {"report_samples": 10**8}),
    ],
)
def test_more_than_any_machine_can_do_is_refused_in_a_line_of_readable_length(record, setting):
    with pytest.raises(ConfigError, match=r"give a whole number from \d to [\d,]+\.$") as problem:
        record(**setting)
    assert len(str(problem.value)) < 120


def test_settings_load_neither_torch_nor_numba_nor_a_terminal():
    script = (
        "import sys, phloem.config; sys.exit(bool({'torch', 'numba', 'rich', 'typer', 'numpy'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def keys_of(record: type, prefix: str = "") -> list[str]:
    """The dotted keys of all fields, found by a walk of its own."""
    keys = []
    for field in fields(record):
        kind = get_type_hints(record)[field.name]
        keys += keys_of(kind, f"{prefix}{field.name}.") if is_dataclass(kind) else [prefix + field.name]
    return keys


# For every key what a file has besides it, and two values.
CASES = {
    "branches": ("", '"edge"', '"psp"'),
    "family": ("", '"warped"', '"lognormal"'),
    "depth": ("", "2", "3"),
    "width": ("", "100", "50"),
    "branch_prior": ("", '"exponential"', '"uniform"'),
    "prior_rate": ("", "10.0", "5.0"),
    "constrain": ("", '"clades.txt"', '"tree.nwk"'),
    "outgroup": ("", '"Mus"', '"Mus,Rattus"'),
    "seed": ("", "1", "7"),
    "runs": ("", "2", "3"),
    "own": ("", '"prior Gamma"', '"prior Uniform"'),
    "model.name": ("", '"JC"', '"F81"'),
    "model.kappa": ('name = "K80"', "[2.0]", "[3.0]"),
    "model.frequencies": ('name = "F81"', '"empirical"', "[0.1, 0.2, 0.3, 0.4]"),
    "model.rates": ('name = "SYM"', "[1, 1, 1, 1, 1, 1]", "[1, 2, 3, 4, 5, 6]"),
    "model.gamma": ("alpha = 0.5", "4", "8"),
    "model.alpha": ("gamma = 4", "0.5", "0.7"),
    "model.median_rates": ("gamma = 4\nalpha = 0.5", "false", "true"),
    "model.invariant": ("", "0.1", "0.2"),
    "partition.sites": ("", '"a.nex"', '"by-codon"'),
    "partition.models": ('sites = "by-codon"', '"JC,JC,HKY"', '"GTR+G4"'),
    "partition.link": ('sites = "by-codon"', '"alpha"', '"all"'),
    "partition.rates": ('sites = "by-codon"', '"inferred"', '"equal"'),
    "support.credible": ("", "0.95", "0.9"),
    "support.closure": ("", '"auto"', '"clades"'),
    "support.explore": ("", "200", "0"),
    "support.method": ("", '"auto"', '"embedded"'),
    "support.replicates": ("", "10", "4"),
    "support.count": ("", "1000", "2000"),
    "support.model": ("", '"JC"', '"GTR+G4"'),
    "training.steps": ("", "10000", "500"),
    "training.particles": ("", "10", "20"),
    "training.estimator": ("", '"vimco"', '"rws"'),
    "training.doubly_reparameterized": ("", "true", "false"),
    "training.ramp": ("", "0.75", "0.5"),
    "training.first_inverse_temperature": ("", "0.001", "0.1"),
    "training.rate": ("", "0.003", "0.001"),
    "training.topology_rate_factor": ("", "10.0", "2.0"),
    "training.clipping": ("", "3.0", "inf"),
    "training.decay": ("", '"cosine"', '"stairs"'),
    "training.stairs": ("", "20", "30"),
    "training.stair_factor": ("", "0.75", "0.5"),
    "training.stop": ("", '"steps"', '"auto"'),
    "training.refit": ("", "5.0", "0"),
    "evaluation.samples": ("", "1000", "10"),
    "evaluation.repeats": ("", "100", "10"),
    "evaluation.reports": ("", "100", "10"),
    "evaluation.report_samples": ("", "200", "10"),
    "evaluation.anneal": ("", "5000", "0"),
    "evaluation.chains": ("", "100", "0"),
}


def test_every_setting_has_a_case():
    assert [*CASES] == keys_of(InferConfig)


@pytest.mark.parametrize("key", CASES)
def test_every_key_of_a_file_changes_its_own_setting(key):
    besides, *values = CASES[key]
    section, _, name = key.rpartition(".")
    heading = f"[{section}]\n" if section else ""
    one, two = (INFER.values(read_config(f"{heading}{besides}\n{name} = {value}\n", "run.toml")) for value in values)
    changed = {setting for setting in one if one[setting] != two[setting]}
    assert changed == ({key, "model.frequencies"} if key == "model.name" else {key})


positive = st.floats(1e-6, 1e6)
counts = st.integers(1, 10**4)
shares = st.floats(0, 1)


def numbers(count: int) -> st.SearchStrategy[tuple[float, ...]]:
    return st.tuples(*[positive] * count)


@st.composite
def models(draw: st.DrawFn) -> ModelConfig:
    name = draw(st.sampled_from(["JC", "k2p", "F81", "HKY", "tn", "SYM", "GTR"]))
    kappas = {"k2p": 1, "HKY": 1, "tn": 2}
    settings = {"kappa": numbers(kappas[name])} if name in kappas else {}
    if name in ("SYM", "GTR"):
        settings["rates"] = numbers(6)
    if name in ("F81", "HKY", "tn", "GTR"):
        adding_up = numbers(4).map(lambda values: tuple(value / math.fsum(values) for value in values))
        settings["frequencies"] = st.none() | st.just("empirical") | adding_up
    if draw(st.booleans()):
        settings |= {"gamma": st.integers(1, 64), "alpha": st.floats(0.001, 10_000), "median_rates": st.booleans()}
    invariant = st.none() | st.floats(0, 0.99)
    return ModelConfig(name, **{key: draw(value) for key, value in settings.items()}, invariant=draw(invariant))


supports = st.builds(
    SupportConfig,
    credible=st.floats(0.01, 1),
    closure=st.sampled_from(CLOSURES),
    explore=st.just(0) | st.integers(2, 10_000),
    replicates=st.integers(1, 10_000),
    count=st.integers(1000, 10**6),
    model=st.none() | st.from_regex(r"[A-Z0-9+]{1,12}", fullmatch=True),
)
trainings = st.builds(
    TrainingConfig,
    steps=counts,
    particles=st.integers(2, 10_000),
    estimator=st.sampled_from(ESTIMATORS),
    doubly_reparameterized=st.booleans(),
    ramp=shares,
    first_inverse_temperature=shares,
    rate=positive,
    topology_rate_factor=positive,
    clipping=positive | st.just(math.inf),
    decay=st.sampled_from(DECAYS),
    stairs=counts,
    stair_factor=positive,
    stop=st.sampled_from(STOPS),
)
configs = st.builds(
    InferConfig,
    branches=st.sampled_from(BRANCH_MODELS),
    depth=st.integers(0, 10),
    width=counts,
    prior_rate=positive | st.integers(1, 100),
    seed=st.integers(0, 2**63 - 1),
    runs=st.integers(1, 100),
    model=models(),
    support=supports,
    training=trainings,
    evaluation=st.builds(EvaluationConfig, counts, counts, counts, counts),
)


@given(configs)
def test_a_configuration_comes_back_from_its_file(config):
    assert read_config(to_toml(config), "config.toml") == config


@pytest.mark.parametrize("name", PRESETS)
def test_presets_come_back_from_their_files(name):
    text = to_toml(PRESETS[name])
    assert read_config(text, "config.toml") == PRESETS[name]
    assert ("clipping = inf" in text) == (name == "paper")


def test_the_documentation_lists_every_setting_with_its_default():
    rows = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]*) \|", PAGE.read_text(), re.MULTILINE))
    expected = {key: "" if value is None else f"`{value}`" for key, value in INFER.values(InferConfig()).items()}
    assert rows == expected | {"model.median_rates": "`false`", "training.doubly_reparameterized": "`true`"}


def test_a_record_from_before_a_setting_has_what_there_was_then():
    record = to_toml(InferConfig())
    older = "".join(line for line in record.splitlines(keepends=True) if not line.startswith(("family", "refit")))
    found = INFER.read_record(older, "config.toml")
    assert (found.family, found.training.refit) == ("lognormal", 0.0)
    assert read_config(older, "config.toml").family == "warped"
    assert INFER.read_record(to_toml(InferConfig()), "config.toml") == InferConfig()
