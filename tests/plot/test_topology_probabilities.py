"""Topology probabilities and credible sets."""

from dataclasses import replace

import numpy as np
import pytest

from phloem.errors import BadArgument
from phloem.plot import topologies
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.sample import TreeSample
from support.every_figure import sample, texts


def stairs(figure) -> list[list[float]]:
    return [part.get_data().values.round(9).tolist() for part in figure.axes[0].patches]


def test_steps_are_the_probabilities_and_their_sums():
    assert stairs(topologies(sample())) == [[0.6, 0.2, 0.1, 0.1], [0.6, 0.8, 0.9, 1.0]]


def test_credible_sets_are_marked_with_their_sizes():
    figure = topologies(sample(), shares=(0.5, 0.6, 0.8, 0.81, 0.95))
    assert texts(figure) == ["50 %: 1", "60 %: 1", "80 %: 2", "81 %: 3", "95 %: 4"]
    heights = [line.get_ydata()[0] for line in figure.axes[0].lines]
    np.testing.assert_allclose(heights, [0.6, 0.6, 0.8, 0.9, 1])


def test_equal_topologies_are_one_and_weights_need_not_sum_to_one():
    twice = sample()[[0, 0, 1, 1, 2, 2, 3, 3, 4, 4]]
    assert stairs(topologies(replace(twice, weights=7 * twice.weights))) == stairs(topologies(sample()))


def test_the_marks_agree_with_a_count_by_hand_on_many_topologies():
    random = np.random.default_rng(3)
    trees = random_topologies(20, 400, stream=RandomStream(3, "trees"))
    weights = random.pareto(1, 400)
    figure = topologies(TreeSample(tuple(map(str, range(20))), trees, weights, None))
    shares = sorted(weights / weights.sum(), reverse=True)
    for text, share in zip(texts(figure), (0.5, 0.9, 0.95, 0.99), strict=True):
        count = next(count for count in range(1, 401) if sum(shares[:count]) >= share)
        assert text == f"{100 * share:g} %: {count:,}"
    assert figure.axes[0].get_xscale() == "log"


def test_a_single_topology_is_drawn():
    assert stairs(topologies(sample()[:1])) == [[1.0], [1.0]]


def test_bad_input_is_one_line():
    with pytest.raises(BadArgument, match=r"^topology plot: credible shares must be above 0 and below 1.$"):
        topologies(sample(), shares=(0.5, 1.0))
    with pytest.raises(BadArgument, match="all weights are zero"):
        topologies(replace(sample(), weights=np.zeros(5)))
