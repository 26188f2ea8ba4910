"""Settings: a bad one cannot exist."""

import pytest

from phloem.config import MODEL_PARAMETERS, ModelConfig
from phloem.errors import ConfigError

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
