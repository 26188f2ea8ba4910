"""Settings of any command: TOML files, and what defaults, presets, files and flags resolve to."""

from dataclasses import dataclass, field, replace

import pytest

from phloem.config import (
    EvaluationConfig,
    InferConfig,
    ModelConfig,
    TrainingConfig,
    from_toml,
    read_config,
    resolve,
    to_toml,
)
from phloem.config.infer import INFER, PRESETS
from phloem.config.settings import Schema, command_of, heading
from phloem.errors import ConfigError, FileProblem


@dataclass(frozen=True)
class Oven:
    heat: float = 180.0
    fan: bool = False


@dataclass(frozen=True)
class Cake:
    name: str = "plain"
    minutes: int = 40
    layers: tuple[float, ...] | None = None
    oven: Oven = field(default_factory=Oven)


BAKE = Schema(Cake, "bake cake", {"plain": Cake(), "flat": Cake("pan", 10, oven=Oven(220.0))}, ("minutes", "oven"))


def test_any_record_of_records_has_keys_toml_presets_and_differences():
    assert BAKE.keys == ("name", "minutes", "layers", "oven.heat", "oven.fan")
    cake = BAKE.resolve(preset="flat", settings=[{"oven.fan": True, "layers": [1, 2]}, {"oven": {"heat": 200}}])
    assert cake == Cake("plain", 10, (1.0, 2.0), Oven(200.0, True))
    text = BAKE.to_toml(cake)
    assert text == heading("bake cake") + (
        'name = "plain"\nminutes = 10\nlayers = [1.0, 2.0]\n\n[oven]\nheat = 200.0\nfan = true\n'
    )
    assert BAKE.read(text, "cake.toml") == cake
    assert command_of(text) == BAKE.command
    assert BAKE.differences(cake, Cake(minutes=10)) == [
        "layers is [1.0, 2.0], not unset",
        "oven.heat is 200.0, not 180.0",
        "oven.fan is true, not false",
    ]


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("minuts", "Did you mean 'minutes'?"),
        ("heat", "Did you mean 'oven.heat'?"),
        ("oven.minutes", "Did you mean 'minutes'?"),
        ("oven.hat", "Did you mean 'heat'?"),
        ("oven.x", "Known settings: heat, fan."),
        ("x", "Known settings: preset, name, minutes, layers, oven."),
        ("x.y", "Known settings: oven."),
    ],
)
def test_an_unknown_key_brings_advice(key, advice):
    with pytest.raises(ConfigError, match="unknown setting") as raised:
        BAKE.flatten({key: 1})
    assert str(raised.value) == f"unknown setting '{key}'. {advice}"


def test_defaults_then_base_then_preset_then_file_then_flags():
    base = InferConfig(seed=9, runs=5, training=TrainingConfig(steps=1111, particles=33))
    file = from_toml('preset = "paper"\n[training]\nsteps = 2222', "run.toml")
    assert resolve() == InferConfig()
    assert resolve(base=base) == base
    assert resolve(base=base, preset="quick") == replace(PRESETS["quick"], seed=9)
    assert resolve(base=base, settings=[{"runs": 3}]) == replace(base, runs=3)
    assert resolve(settings=[file]).training == replace(PRESETS["paper"].training, steps=2222)
    assert resolve(preset="quick", settings=[file]).training == replace(PRESETS["quick"].training, steps=2222)
    both = resolve(preset="quick", settings=[file, {"training.steps": 3333, "seed": None}])
    assert both == replace(PRESETS["quick"], training=replace(PRESETS["quick"].training, steps=3333))
    assert resolve(settings=[file, {"preset": "quick"}]).training.topology_rate_factor == 10.0


def test_a_preset_leaves_the_question_alone():
    asked = {"branches": "psp", "depth": 4, "width": 7, "prior_rate": 3.0, "seed": 8, "model": ModelConfig("F81")}
    for name, config in PRESETS.items():
        base = InferConfig(runs=50, evaluation=EvaluationConfig(samples=5), **asked)
        assert resolve(base=base, preset=name) == replace(config, **asked)
    assert resolve(preset="paper").model == ModelConfig("JC")
    assert resolve(preset="quick").model == ModelConfig("GTR+G4")


def test_what_is_said_of_a_model_counts_until_another_is_named_with_or_after_it():
    k80 = {"model": {"name": "K80", "kappa": 4.0}}
    assert resolve(settings=[k80, {"model.name": "HKY"}]).model == ModelConfig("HKY")
    # A file that names no model speaks of the one that a flag names.
    kappa, shape = {"model": {"kappa": 4.0}}, {"model": {"gamma": 8}}
    assert resolve(settings=[kappa, shape, {"model.name": "HKY"}]).model == ModelConfig("HKY", kappa=4.0, gamma=8)
    assert resolve(settings=[k80, shape, {"model.name": "HKY"}]).model == ModelConfig("HKY", gamma=8)
    with pytest.raises(ConfigError, match="model GTR has no kappa"):
        resolve(settings=[kappa, {"model.name": "GTR"}])


def test_nested_settings_and_dotted_keys_are_the_same():
    dotted = resolve(settings=[{"training.steps": 5, "model.name": "F81"}])
    assert dotted == resolve(
        settings=[{"training": {"steps": 5, "ramp": None}, "model": {"name": "F81"}, "support": None}]
    )
    assert (dotted.training.steps, dotted.model.name) == (5, "F81")


def test_what_a_file_lacks_flags_may_give():
    file = from_toml('[model]\nname = "JC"\ngamma = 4', "run.toml")
    assert resolve(settings=[file, {"model.alpha": 0.5}]).model == ModelConfig(gamma=4, alpha=0.5)
    zero = from_toml("[training]\nsteps = 0", "run.toml")
    assert resolve(settings=[zero, {"training.steps": 5}]).training.steps == 5


@pytest.mark.parametrize(
    ("file", "flags", "message"),
    [
        ("[training]\nsteps = 0", {"seed": 5}, "run.toml: --steps 0"),
        ("seed = 5", {"training.steps": 0}, "--steps 0"),
        ("[evaluation]\nsamples = 0", {"training.steps": 0}, "--steps 0"),
        ("[model]\ngamma = 4", {"model.alpha": 0.5, "training.steps": 0}, "--steps 0"),
        ('[model]\nname = "HKY"\nkappa = 2', {"model.rates": (1.0,) * 6}, "model HKY has no rates"),
        ("seed = 5", {"preset": "slow"}, "--preset 'slow'"),
        ("seed = 5", {"sede": 1}, "unknown setting 'sede'. Did you mean 'seed'?"),
    ],
)
def test_a_message_names_the_file_only_if_the_file_caused_it(file, flags, message):
    with pytest.raises(ConfigError) as raised:
        resolve(settings=[from_toml(file, "run.toml"), flags])
    assert str(raised.value).startswith(message)


def test_an_unknown_preset_is_refused():
    for name in ("slow", ""):
        with pytest.raises(ConfigError, match=f"^--preset '{name}': choose one of paper, standard, quick"):
            resolve(preset=name)


def test_differences_are_lines_in_the_order_of_the_fields():
    one = InferConfig(seed=2, model=ModelConfig("K80", kappa=(2.0,)), training=TrainingConfig(steps=8000))
    two = InferConfig(training=TrainingConfig(steps=9000, doubly_reparameterized=False))
    assert INFER.differences(one, two) == [
        "seed is 2, not 1",
        "model.name is K80, not GTR",
        "model.kappa is [2.0], not unset",
        "model.frequencies is unset, not inferred",
        "model.gamma is unset, not 4",
        "training.steps is 8000, not 9000",
        "training.doubly_reparameterized is true, not false",
    ]
    assert INFER.differences(one, one) == []


def test_arrays_are_one_line_and_what_is_not_set_has_none():
    text = to_toml(InferConfig(model=ModelConfig("GTR", rates=(1.0, 2.0, 1.0, 1.0, 2.0, 1.0))))
    assert "rates = [1.0, 2.0, 1.0, 1.0, 2.0, 1.0]\n" in text
    assert "kappa" not in text


BAD_TEXTS = {
    "an unknown setting": (
        "[training]\nsetps = 5",
        "run.toml: unknown setting 'training.setps'. Did you mean 'steps'?",
    ),
    "an unknown section": ("[trainnig]\nsteps = 5", "run.toml: unknown setting 'trainnig'. Did you mean 'training'?"),
    "an unknown empty section": (
        "[zebra]",
        "run.toml: unknown setting 'zebra'. Known settings: preset, branches, family, depth, ",
    ),
    "nothing like it in a section": (
        "[evaluation]\nzebra = 1",
        "run.toml: unknown setting 'evaluation.zebra'. Known settings: samples, repeats, reports, report_samples, "
        "anneal, chains.",
    ),
    "the right name in the wrong place": ("steps = 5", "unknown setting 'steps'. Did you mean 'training.steps'?"),
    "a section for a number": (
        "[training.steps]\na = 1",
        "run.toml: training.steps is a section: give a whole number.",
    ),
    "a section in a section": ("[training.more]\na = 1", "run.toml: unknown setting 'training.more'. "),
    "a number for a section": ("training = 5", "run.toml: training is 5: it is a section, [training], of settings."),
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
        "run.toml: model.frequencies is the text 'mine': give numbers such as [1.0, 2.0] or "
        '"empirical" or "inferred".',
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
    "values that do not go together": (
        '[model]\nname = "JC"\nalpha = 0.5',
        "run.toml: --alpha: it is the shape of gamma rate categories. Give --gamma, or a model with +G.",
    ),
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
        (None, r"run\.toml: no such file"),
        (b"seed = 1\n# \xff\n", r"run\.toml, line 2: is not UTF-8 text\. Save it as UTF-8\."),
    ],
)
def test_files_that_cannot_be_read(tmp_path, content, message):
    path = tmp_path / "run.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileProblem, match=message):
        INFER.read_toml(path)


def test_a_directory_and_an_impossible_name_cannot_be_read(tmp_path):
    with pytest.raises(FileProblem, match="is a directory"):
        INFER.read_toml(tmp_path)
    with pytest.raises(FileProblem, match="cannot be read"):
        INFER.read_toml(tmp_path / "a\0b")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "run.toml").write_bytes(b"\xef\xbb\xbfseed = 5\n")
    assert resolve(settings=[INFER.read_toml(tmp_path / "run.toml")]).seed == 5
