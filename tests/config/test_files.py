"""Configurations as files."""

import math
import re
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
    from_toml,
    read_config,
    resolve,
    to_toml,
)
from phloem.config.infer import BRANCH_MODELS, DECAYS, ESTIMATORS, PRESETS, STOPS
from phloem.config.settings import read_toml, values_of
from phloem.errors import ConfigError, FileProblem

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


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
    "depth": ("", "2", "3"),
    "width": ("", "100", "50"),
    "prior_rate": ("", "10.0", "5.0"),
    "seed": ("", "1", "7"),
    "runs": ("", "2", "3"),
    "model.name": ("", '"JC"', '"F81"'),
    "model.kappa": ('name = "K80"', "[2.0]", "[3.0]"),
    "model.frequencies": ('name = "F81"', '"empirical"', "[0.1, 0.2, 0.3, 0.4]"),
    "model.rates": ('name = "SYM"', "[1, 1, 1, 1, 1, 1]", "[1, 2, 3, 4, 5, 6]"),
    "model.gamma": ("alpha = 0.5", "4", "8"),
    "model.alpha": ("gamma = 4", "0.5", "0.7"),
    "model.median_rates": ("gamma = 4\nalpha = 0.5", "false", "true"),
    "model.invariant": ("", "0.1", "0.2"),
    "support.credible": ("", "0.95", "0.9"),
    "support.method": ("", '"auto"', '"embedded"'),
    "support.replicates": ("", "10", "4"),
    "support.count": ("", "1000", "2000"),
    "support.model": ("", '"JC"', '"GTR+G4"'),
    "training.steps": ("", "40000", "500"),
    "training.particles": ("", "10", "20"),
    "training.estimator": ("", '"vimco"', '"rws"'),
    "training.doubly_reparameterized": ("", "true", "false"),
    "training.ramp": ("", "0.75", "0.5"),
    "training.first_inverse_temperature": ("", "0.001", "0.1"),
    "training.rate": ("", "0.003", "0.001"),
    "training.topology_rate_factor": ("", "3.0", "2.0"),
    "training.clipping": ("", "3.0", "inf"),
    "training.decay": ("", '"cosine"', '"stairs"'),
    "training.stairs": ("", "20", "30"),
    "training.stair_factor": ("", "0.75", "0.5"),
    "training.stop": ("", '"steps"', '"auto"'),
    "evaluation.samples": ("", "1000", "10"),
    "evaluation.repeats": ("", "100", "10"),
    "evaluation.reports": ("", "100", "10"),
    "evaluation.report_samples": ("", "200", "10"),
}


def test_every_setting_has_a_case():
    assert [*CASES] == keys_of(InferConfig)


@pytest.mark.parametrize("key", CASES)
def test_every_key_of_a_file_changes_its_own_setting(key):
    besides, *values = CASES[key]
    section, _, name = key.rpartition(".")
    heading = f"[{section}]\n" if section else ""
    one, two = (values_of(read_config(f"{heading}{besides}\n{name} = {value}\n", "run.toml")) for value in values)
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


def test_arrays_are_one_line_and_what_is_not_set_has_none():
    text = to_toml(InferConfig(model=ModelConfig("GTR", rates=(1.0, 2.0, 1.0, 1.0, 2.0, 1.0))))
    assert "rates = [1.0, 2.0, 1.0, 1.0, 2.0, 1.0]\n" in text
    assert "kappa" not in text


BAD_TEXTS = {
    "an unknown setting": (
        "[training]\nsetps = 5",
        "run.toml: unknown setting 'training.setps'. Did you mean 'steps'?",
    ),
    "an unknown table": ("[trainnig]\nsteps = 5", "run.toml: unknown setting 'trainnig'. Did you mean 'training'?"),
    "an unknown empty table": ("[zebra]", "run.toml: unknown setting 'zebra'. Known are preset, branches, depth, "),
    "nothing like it in a table": (
        "[evaluation]\nzebra = 1",
        "run.toml: unknown setting 'evaluation.zebra'. Known are samples, repeats, reports, report_samples.",
    ),
    "the right name in the wrong place": ("steps = 5", "unknown setting 'steps'. Did you mean 'training.steps'?"),
    "a table in a table": ("[training.steps]\na = 1", "run.toml: training.steps is a table: give a whole number."),
    "a table below the tables": ("[training.more]\na = 1", "run.toml: unknown setting 'training.more'. "),
    "no table": ("training = 5", "run.toml: training is 5: it is a table, [training], of settings."),
    "text for a whole number": ('seed = "3"', "run.toml: seed is the text '3': give a whole number."),
    "yes for a whole number": ("seed = true", "run.toml: seed is true: give a whole number."),
    "a fraction for a whole number": ("seed = 3.0", "run.toml: seed is 3.0: give a whole number."),
    "yes for a number": ("prior_rate = false", "run.toml: prior_rate is false: give a number."),
    "a number for yes or no": ("[model]\nmedian_rates = 1", "run.toml: model.median_rates is 1: give true or false."),
    "a number for a text": ("branches = 5", "run.toml: branches is 5: give a text."),
    "a list for a number": ("seed = [1]", "run.toml: seed is [1]: give a whole number."),
    "texts for numbers": (
        '[model]\nkappa = ["a"]',
        "run.toml: model.kappa is ['a']: give numbers such as [1.0, 2.0].",
    ),
    "another text for frequencies": (
        '[model]\nfrequencies = "mine"',
        "run.toml: model.frequencies is the text 'mine': give numbers such as [1.0, 2.0] or \"empirical\".",
    ),
    "a date": ("seed = 2000-01-01", "run.toml: seed is 2000-01-01: give a whole number."),
    "a number without end": (f"prior_rate = 1{'0' * 400}", "run.toml: prior_rate is 10000"),
    "more digits than Python takes": (f"seed = {'1' * 5000}", "run.toml: is not TOML (Exceeds the limit"),
    "brackets without end": (f"seed = {'[' * 5000}", "run.toml: brackets are nested too deep."),
    "no value": ("seed = 1\nruns =\ndepth = 2", "run.toml, line 2, column 7: Invalid value."),
    "an open bracket": ("seed = 1\n\nruns = [\n\n", "run.toml, line 3: Invalid value, at the end of the file."),
    "the same twice": ("seed = 1\nseed = 2\n", "run.toml, line 2, column 9: Cannot overwrite a value."),
    "a preset that is a number": ("preset = 1", "run.toml: preset is 1: give a text."),
    "an unknown preset": ('preset = "slow"', "run.toml: --preset 'slow': choose one of paper, standard, quick."),
    "a value out of range": (
        "[training]\nsteps = 0",
        "run.toml: --steps 0: give a whole number from 1 to 1,000,000,000.",
    ),
    "a value that no flag sets": ("[training]\nramp = 2", "run.toml: ramp 2: give a number from 0 to 1."),
    "values that do not go together": ("[model]\ngamma = 4", "run.toml: --gamma and --alpha belong together"),
}


@pytest.mark.parametrize("case", BAD_TEXTS)
def test_what_is_wrong_with_a_file_is_one_line_that_begins_with_its_name(case):
    text, message = BAD_TEXTS[case]
    with pytest.raises(ConfigError) as raised:
        read_config(text, "run.toml")
    assert str(raised.value).startswith("run.toml")
    assert message in str(raised.value)
    assert str(raised.value).isprintable()


def test_whole_numbers_do_for_numbers_and_one_number_for_a_list():
    config = read_config('prior_rate = 5\n[model]\nname = "K80"\nkappa = 2', "run.toml")
    assert config == InferConfig(prior_rate=5.0, model=ModelConfig("K80", kappa=(2.0,)))
    assert type(config.prior_rate) is float
    assert from_toml("prior_rate = 5\n[model]\nkappa = [2]", "run.toml") == {
        "prior_rate": 5.0,
        "model": {"kappa": (2.0,)},
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"run\.toml: cannot be read \(No such file or directory\)\. Name a TOML file with settings\."),
        (b"seed = 1\n# \xff\n", r"run\.toml, line 2: is not UTF-8 text\. Save it as UTF-8\."),
    ],
)
def test_files_that_cannot_be_read(tmp_path, content, message):
    path = tmp_path / "run.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileProblem, match=message):
        read_toml(path)


def test_a_directory_and_an_impossible_name_are_no_files(tmp_path):
    with pytest.raises(FileProblem, match=r"cannot be read \(Is a directory\)"):
        read_toml(tmp_path)
    with pytest.raises(FileProblem, match="cannot be read"):
        read_toml(tmp_path / "a\0b")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "run.toml").write_bytes(b"\xef\xbb\xbfseed = 5\n")
    assert resolve(settings=[read_toml(tmp_path / "run.toml")]).seed == 5


def test_the_documentation_lists_every_setting_with_its_default():
    rows = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]*) \|", PAGE.read_text(), re.MULTILINE))
    expected = {key: "" if value is None else f"`{value}`" for key, value in values_of(InferConfig()).items()}
    assert rows == expected | {"model.median_rates": "`false`", "training.doubly_reparameterized": "`true`"}
