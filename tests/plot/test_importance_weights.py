"""Importance weights in order."""

import numpy as np
import pytest

from phloem.errors import BadArgument
from phloem.plot import weights
from support.every_figure import legend, texts


def test_weights_are_in_order_and_relative_to_their_mean():
    logs = np.random.default_rng(1).normal(size=100)
    _, line, tail = weights(logs - 7000).axes[0].lines
    plain = np.sort(np.exp(logs))[::-1]
    np.testing.assert_allclose(line.get_ydata(), plain / plain.mean())
    np.testing.assert_allclose(tail.get_ydata(), line.get_ydata()[:20])


@pytest.mark.parametrize(("draws", "tail"), [(10, 2), (100, 20), (1000, 95), (100_000, 949)])
def test_the_tail_is_that_of_pareto_smoothing(draws, tail):
    assert legend(weights(np.zeros(draws))) == [f"tail, {tail} draws"]


def test_diagnostics_are_written_where_they_are_given():
    logs = np.zeros(2000)
    both = "effective draws 1,500 of 2,000 (75 %)\nPareto k̂ 0.43"
    assert texts(weights(logs, effective_samples=1500, pareto_k=0.431)) == [both]
    assert texts(weights(logs, pareto_k=0.431)) == ["Pareto k̂ 0.43"]
    assert texts(weights(logs)) == []


def test_draws_without_weight_count_in_the_mean_but_have_no_place_on_the_axis():
    _, line, _ = weights([0, 0, -np.inf, -np.inf]).axes[0].lines
    assert line.get_ydata().tolist() == [2, 2]


def test_one_huge_weight_does_not_hide_the_others():
    figure = weights([0.0, -1000.0, -1001.0])
    assert figure.axes[0].get_ylim()[0] == 1e-3


@pytest.mark.parametrize("bad", [[], [-np.inf], [np.nan, 0], [np.inf, 0]])
def test_bad_input_is_one_line(bad):
    with pytest.raises(BadArgument, match=r"^weight plot: at least one weight above zero is needed"):
        weights(bad)
