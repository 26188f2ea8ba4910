"""Which topologies were drawn, and how much weight each has."""

import numpy as np
import pytest

from phloem.errors import BadArgument
from phloem.inference import tally as module
from phloem.inference.tally import TopologyTally
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies

TAXA = tuple("abcdef")


def draws(count: int):
    """Topologies of six taxa, many of them more than once, with weights that would overflow."""
    random = np.random.default_rng(3)
    topologies = random_topologies(6, 20, stream=RandomStream(1, "trees"))[random.integers(0, 20, count)]
    return topologies, random.normal(1000, 3, count)


def test_weights_are_shares_by_topology_the_largest_first():
    topologies, log_weights = draws(500)
    tally = TopologyTally()
    for first in range(0, 500, 90):
        tally.add(topologies[first : first + 90], log_weights[first : first + 90])
    sample = tally.sample(TAXA)
    expected: dict[bytes, float] = {}
    for parent, log_weight in zip(topologies.parent, log_weights, strict=True):
        expected[parent.tobytes()] = expected.get(parent.tobytes(), 0.0) + np.exp(log_weight - 1000)
    total = sum(expected.values())
    assert len(tally) == len(sample) == len(expected) > 10
    for parent, weight in zip(sample.topologies.parent, sample.weights, strict=True):
        assert weight == pytest.approx(expected[parent.tobytes()] / total, rel=1e-12)
    assert (np.diff(sample.weights) <= 0).all()


def test_no_more_draws_are_looked_at_than_fit(monkeypatch):
    monkeypatch.setattr(module, "MOST_NODES", 105)  # ten trees of ten nodes
    topologies, log_weights = draws(30)
    whole, part = TopologyTally(), TopologyTally()
    for first in range(0, 30, 7):
        whole.add(topologies[first : first + 7], log_weights[first : first + 7])
    part.add(topologies[:10], log_weights[:10])
    np.testing.assert_array_equal(whole.sample(TAXA).weights, part.sample(TAXA).weights)


def test_nothing_drawn_is_an_error():
    with pytest.raises(BadArgument, match="nothing was drawn"):
        TopologyTally().sample(TAXA)
