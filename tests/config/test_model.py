"""Substitution models: with given parameters, and those to estimate, by the names that users know from IQ-TREE."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phloem.config.model import (
    MODEL_PARAMETERS,
    MOST_CATEGORIES,
    SHAPES,
    SUM_TOLERANCE,
    EstimatedModel,
    ModelConfig,
    parse_estimated_model,
)
from phloem.errors import BadArgument, ConfigError
from phloem.target.substitution import LARGEST_CATEGORIES, SiteRates, f81
from support.models import GOOD


@pytest.mark.parametrize("name", MODEL_PARAMETERS)
def test_every_model_takes_its_parameters_and_no_others(name):
    ModelConfig(name, **GOOD[name])
    for parameter, value in {"kappa": (2.0,), "frequencies": (0.25,) * 4, "rates": (1.0,) * 6}.items():
        if parameter in GOOD[name]:
            without = ModelConfig(name, **{key: kept for key, kept in GOOD[name].items() if key != parameter})
            assert without.inferred == (parameter,)
            if parameter != "frequencies":
                with pytest.raises(ConfigError, match=f"needs {parameter}"):
                    without.fixed()
        else:
            with pytest.raises(ConfigError, match=f"has no {parameter}"):
                ModelConfig(name, **GOOD[name], **{parameter: value})


@pytest.mark.parametrize("name", [name for name, taken in MODEL_PARAMETERS.items() if "frequencies" in taken])
def test_frequencies_that_are_not_given_are_inferred_or_counted_where_nothing_is(name):
    given = {key: value for key, value in GOOD[name].items() if key != "frequencies"}
    model = ModelConfig(name, **given)
    assert model.frequencies == "inferred"
    assert model.fixed() == ModelConfig(name, **given, frequencies="empirical")
    assert ModelConfig(name, **GOOD[name]).fixed() == ModelConfig(name, **GOOD[name])


def test_names_in_any_case_and_their_other_forms():
    assert ModelConfig("jc69").name == "JC"
    assert ModelConfig("hky85", **GOOD["HKY"]).name == "HKY"
    with pytest.raises(ConfigError, match="give one of JC, K80"):
        ModelConfig("WAG")


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"name": "K80", "kappa": (1.0, 2.0)}, "takes 1 numbers, not 2"),
        ({"name": "TN93", "kappa": (1.0,), "frequencies": (0.25,) * 4}, "takes 2 numbers, not 1"),
        ({"name": "F81", "frequencies": (0.5, 0.5)}, "takes 4 numbers, not 2"),
        ({"alpha": 0.5}, "--alpha: it is the shape of gamma rate categories"),
        ({"median_rates": True}, "only gamma categories have medians"),
        ({"name": "F81", "frequencies": "counted"}, "takes 4 numbers, not 'counted'"),
        ({"name": "F81", "frequencies": (0.3,) * 4}, "--frequencies sum to 1.2: they must sum to 1"),
        ({"name": "F81", "frequencies": (0.5, 0.5, 0.0, 0.0)}, "--frequencies .*finite numbers above 0"),
        ({"name": "K80", "kappa": (0.0,)}, "--kappa .*finite numbers above 0"),
        ({"name": "K80", "kappa": (float("nan"),)}, "--kappa .*finite numbers above 0"),
        ({"name": "SYM", "rates": (1.0,) * 5 + (float("inf"),)}, "--rates .*finite numbers above 0"),
        ({"gamma": 0, "alpha": 1.0}, "--gamma 0: give a whole number from 1 to"),
        ({"gamma": 2.5, "alpha": 1.0}, "--gamma 2.5: give a whole number"),
        ({"gamma": 65, "alpha": 1.0}, "--gamma 65: give a whole number from 1 to 64"),
        ({"gamma": 4, "alpha": 0.0}, "gamma shape 0: --alpha must be from 0.001 to 10000"),
        ({"gamma": 4, "alpha": float("nan")}, "gamma shape nan"),
        ({"invariant": 1.0}, "invariant sites 1: --invariant must be from 0 up to 1"),
        ({"invariant": -0.1}, "invariant sites -0.1"),
    ],
)
def test_combinations_that_make_no_sense(settings, what):
    with pytest.raises(ConfigError, match=what):
        ModelConfig(**settings)


def test_limits_of_models_are_those_of_the_likelihood():
    assert MOST_CATEGORIES == LARGEST_CATEGORIES
    for shape in SHAPES:
        SiteRates(torch.tensor(shape, dtype=torch.float64))
    for shape in (SHAPES[0] * 0.999, SHAPES[1] * 1.001):
        with pytest.raises(BadArgument):
            SiteRates(torch.tensor(shape, dtype=torch.float64))
    f81([0.25, 0.25, 0.25, 0.25 + 0.9 * SUM_TOLERANCE])
    with pytest.raises(BadArgument):
        f81([0.25, 0.25, 0.25, 0.25 + 1.1 * SUM_TOLERANCE])


WORDS = {
    "JC": EstimatedModel("JC"),
    "JC69": EstimatedModel("JC"),
    "K2P": EstimatedModel("K80"),
    "K80": EstimatedModel("K80"),
    "F81+F": EstimatedModel("F81"),
    "HKY": EstimatedModel("HKY"),
    "hky85": EstimatedModel("HKY"),
    "TN": EstimatedModel("TN93"),
    "TN93+F": EstimatedModel("TN93"),
    "sym+i": EstimatedModel("SYM", invariant=True),
    "GTR+G4": EstimatedModel("GTR", 4),
    "GTR+G": EstimatedModel("GTR", 4),
    "gtr+g8": EstimatedModel("GTR", 8),
    "JC+G64": EstimatedModel("JC", 64),
    "HKY+I+G4": EstimatedModel("HKY", 4, True),
    "GTR+G4+I": EstimatedModel("GTR", 4, True),
    "GTR+F+I+G": EstimatedModel("GTR", 4, True),
    "GTR+I+G4+F": EstimatedModel("GTR", 4, True),
}
UNKNOWN = [
    "",
    "+",
    "+G4",
    "WAG",
    "TVM+G4",
    "GTR+",
    "GTR+G1",
    "GTR+G0",
    "GTR+G65",
    "GTR+G1000",
    "GTR+G-4",
    "GTR+G4+G4",
    "GTR+I+I",
    "GTR+F+F",
    "GTR+R4",
    "GTR+G{0.5}",
    "GTR{1,2,3,4,5}",
    "JC+F",
    "K80+F",
    "SYM+F",
    "GTR +G4",
    "GTR+G٤",
    "GTR\n",
    "G" * 500,
]


@pytest.mark.parametrize("text", WORDS)
def test_words_of_iqtree_mean_the_same_here(text):
    assert parse_estimated_model("--model", text) == WORDS[text]


@pytest.mark.parametrize("text", UNKNOWN)
def test_other_words_are_refused_in_a_line_that_names_those_that_work(text):
    with pytest.raises(
        ConfigError, match=r"^--model '.*': give one of JC, K80, F81, HKY, TN93, SYM, GTR, .*GTR\+I\+G4"
    ) as info:
        parse_estimated_model("--model", text)
    message = str(info.value)
    assert "the method iqtree" in message
    assert "\n" not in message
    assert len(message) < 300


def test_a_search_infers_no_frequencies():
    with pytest.raises(ConfigError, match=r"^--model 'GTR\+FO': a search counts frequencies\."):
        parse_estimated_model("--model", "GTR+FO")


@given(st.sampled_from(sorted(MODEL_PARAMETERS)), st.none() | st.integers(2, 64), st.booleans())
def test_a_model_written_in_its_own_words_is_read_again(name, gamma, invariant):
    model = EstimatedModel(name, gamma, invariant)
    assert parse_estimated_model("--model", str(model)) == model
    assert parse_estimated_model("--model", str(model).lower()) == model


def test_canonical_words():
    assert str(parse_estimated_model("--model", "gtr+f+g+i")) == "GTR+I+G4"
    assert str(EstimatedModel("hky85")) == "HKY"
    assert str(EstimatedModel("K2P", 6)) == "K80+G6"


@pytest.mark.parametrize(("name", "gamma"), [("WAG", None), ("", None), ("JC", 1), ("JC", 65), ("JC", -4)])
def test_a_bad_model_cannot_exist(name, gamma):
    with pytest.raises(ConfigError):
        EstimatedModel(name, gamma)


def test_a_name_of_any_length_is_said_in_a_short_line():
    for settings in ({"name": "HK" * 10_000}, {"name": "F81", "frequencies": "x" * 10_000}):
        with pytest.raises(ConfigError) as caught:
            ModelConfig(**settings)
        assert len(str(caught.value)) < 200
