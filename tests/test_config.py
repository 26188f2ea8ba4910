"""Settings: a bad one cannot exist."""

import pytest

from phloem.config import (
    BRANCH_MODELS,
    MODEL_PARAMETERS,
    PRESETS,
    EvaluationConfig,
    InferConfig,
    ModelConfig,
    TrainingConfig,
    preset,
)
from phloem.errors import ConfigError
from phloem.features.convolutions import CONVOLUTIONS

GOOD = {
    "JC": {},
    "K80": {"kappa": (2.0,)},
    "F81": {"frequencies": (0.25,) * 4},
    "HKY": {"kappa": (2.0,), "frequencies": "empirical"},
    "TN93": {"kappa": (2.0, 3.0), "frequencies": (0.25,) * 4},
    "SYM": {"rates": (1.0,) * 6},
    "GTR": {"rates": (1.0,) * 6, "frequencies": (0.25,) * 4},
}


@pytest.mark.parametrize("name", MODEL_PARAMETERS)
def test_every_model_takes_its_parameters_and_no_others(name):
    ModelConfig(name, **GOOD[name])
    for parameter, value in {"kappa": (2.0,), "frequencies": (0.25,) * 4, "rates": (1.0,) * 6}.items():
        if parameter in GOOD[name]:
            without = {key: kept for key, kept in GOOD[name].items() if key != parameter}
            with pytest.raises(ConfigError, match=f"needs {parameter}"):
                ModelConfig(name, **without)
        else:
            with pytest.raises(ConfigError, match=f"has no {parameter}"):
                ModelConfig(name, **GOOD[name], **{parameter: value})


def test_names_in_any_case_and_their_other_forms():
    assert ModelConfig("jc69").name == "JC"
    assert ModelConfig("hky85", **GOOD["HKY"]).name == "HKY"
    with pytest.raises(ConfigError, match="choose one of JC, K80"):
        ModelConfig("WAG")


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"name": "K80", "kappa": (1.0, 2.0)}, "takes 1 numbers, not 2"),
        ({"name": "TN93", "kappa": (1.0,), "frequencies": (0.25,) * 4}, "takes 2 numbers, not 1"),
        ({"name": "F81", "frequencies": (0.5, 0.5)}, "takes 4 numbers, not 2"),
        ({"gamma": 4}, "belong together"),
        ({"alpha": 0.5}, "belong together"),
        ({"median_rates": True}, "only gamma categories have medians"),
    ],
)
def test_combinations_that_make_no_sense(settings, what):
    with pytest.raises(ConfigError, match=what):
        ModelConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"steps": 0}, "--steps 0"),
        ({"steps": 2.5}, "--steps 2.5: give a whole number"),
        ({"steps": True}, "--steps True"),
        ({"particles": 1}, "vimco takes 2 to 10,000"),
        ({"particles": 10_001}, "vimco takes 2 to 10,000"),
        ({"particles": 0, "estimator": "rws"}, "--particles 0"),
        ({"estimator": "adam"}, "choose one of vimco, rws"),
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
        ({"seed": -1}, "--seed -1"),
        ({"depth": -1}, "depth -1"),
        ({"width": 0}, "width 0"),
        ({"credible": 0.0}, "credible 0"),
        ({"credible": 1.1}, "credible 1.1"),
        ({"prior_rate": 0.0}, "prior_rate 0"),
    ],
)
def test_inferences_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(ConfigError, match=what):
        InferConfig(**settings)


@pytest.mark.parametrize("name", ["samples", "repeats", "reports", "report_samples"])
def test_evaluations_of_nothing_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name} 0: give a whole number, 1 or more"):
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
    )
    assert preset("quick") == TrainingConfig(steps=8000, topology_rate_factor=10.0)
    standard = TrainingConfig()
    assert (standard.steps, standard.particles, standard.estimator) == (40_000, 10, "vimco")
    assert (standard.ramp, standard.rate, standard.topology_rate_factor) == (0.75, 0.003, 3.0)
    assert (standard.clipping, standard.doubly_reparameterized, standard.decay) == (3.0, True, "cosine")
    assert preset("paper", steps=None) == PRESETS["paper"]
    assert preset("paper", steps=7).steps == 7
    assert preset("paper", steps=7).decay == "stairs"
    with pytest.raises(ConfigError, match="choose one of paper, standard, quick"):
        preset("slow")


def test_names_of_branch_models_are_those_that_can_be_built():
    assert {*BRANCH_MODELS} == {"split", "psp", "mlp", *CONVOLUTIONS}
