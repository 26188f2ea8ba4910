"""Models from settings, and states counted in the alignment."""

import pytest

from phloem.config import ModelConfig
from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.target.substitution import build_model, count_states, empirical_frequencies

PATTERNS = compress(Alignment.from_sequences("abc", ["AACCG", "AACRN", "A-GTT"]))


def test_states_are_counted_where_they_are_known():
    assert count_states(PATTERNS).tolist() == [5, 3, 2, 2]
    assert empirical_frequencies(PATTERNS) == pytest.approx([5 / 12, 3 / 12, 2 / 12, 2 / 12])


def test_a_model_has_the_frequencies_that_are_given_or_else_those_that_are_counted():
    counted = build_model(ModelConfig("HKY", kappa=(3.0,)), PATTERNS)
    assert counted.frequencies.tolist() == pytest.approx([5 / 12, 3 / 12, 2 / 12, 2 / 12])
    assert counted.exchangeabilities.tolist() == [1, 3, 1, 1, 3, 1]
    given = build_model(ModelConfig("F81", frequencies=(0.4, 0.3, 0.2, 0.1)), PATTERNS)
    assert given.frequencies.tolist() == [0.4, 0.3, 0.2, 0.1]
