"""Models to estimate, in the words that users know from IQ-TREE."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.config.model import MODEL_PARAMETERS, EstimatedModel, parse_estimated_model
from phloem.errors import ConfigError

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
    "GTR+FO",
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
        ConfigError, match=r"^--model '.*': give JC, K80, F81, HKY, TN93, SYM, GTR, .*GTR\+I\+G4"
    ) as info:
        parse_estimated_model("--model", text)
    message = str(info.value)
    assert "the method iqtree" in message
    assert "\n" not in message
    assert len(message) < 300


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
