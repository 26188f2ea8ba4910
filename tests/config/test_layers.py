"""What defaults, presets, files and flags come to."""

from dataclasses import replace

import pytest

from phloem.config import EvaluationConfig, InferConfig, ModelConfig, TrainingConfig, from_toml, resolve
from phloem.config.infer import PRESETS
from phloem.config.settings import differences
from phloem.errors import ConfigError


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


def test_nested_settings_and_dotted_keys_are_the_same():
    dotted = resolve(settings=[{"training.steps": 5, "model.name": "F81"}])
    assert dotted == resolve(
        settings=[{"training": {"steps": 5, "ramp": None}, "model": {"name": "F81"}, "support": None}]
    )
    assert (dotted.training.steps, dotted.model.name) == (5, "F81")


def test_what_a_file_lacks_flags_may_give():
    file = from_toml("[model]\ngamma = 4", "run.toml")
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
        ('[model]\nname = "HKY"\nkappa = 2', {"model.name": "JC"}, "model JC has no kappa"),
        ("seed = 5", {"preset": "slow"}, "--preset 'slow'"),
        ("seed = 5", {"sede": 1}, "unknown setting 'sede'. Did you mean 'seed'?"),
    ],
)
def test_only_what_a_file_has_caused_is_told_of_the_file(file, flags, message):
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
    assert differences(one, two) == [
        "seed is 2, not 1",
        "model.name is K80, not JC",
        "model.kappa is [2.0], not unset",
        "training.steps is 8000, not 9000",
        "training.doubly_reparameterized is true, not false",
    ]
    assert differences(one, one) == []
