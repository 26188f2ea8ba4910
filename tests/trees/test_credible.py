"""The credible cut: what crosses the line is left out of the sample, and counts in the size of a credible set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies
from phloem.trees.sample import ROUNDING, TreeSample, credible_set_size, credible_topologies

TOPOLOGIES = all_topologies(5)


def sample_of(*counts: float) -> TreeSample:
    """Topology i appears with weight counts[i]."""
    return TreeSample(tuple("abcde"), TOPOLOGIES[: len(counts)], np.array(counts, float), None)


def kept(sample: TreeSample, share: float) -> list[int]:
    cut = credible_topologies(sample, share).topologies
    return [int(np.flatnonzero((TOPOLOGIES.parent == row).all(axis=1))[0]) for row in cut.parent]


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ((50, 30, 15, 5), 0.95, [0, 1, 2]),  # on the line is not across it
        ((50, 30, 14, 6), 0.95, [0, 1, 2]),
        ((50, 30, 16, 4), 0.95, [0, 1]),
        ((5, 15, 30, 50), 0.95, [3, 2, 1]),
        ((1, 1, 1, 1), 0.5, [0, 1]),  # ties by first appearance
        ((2, 1, 3, 1, 1), 0.9, [2, 0, 1, 3]),
        ((97, 3), 0.95, [0]),  # the most frequent stays, also beyond the line
        ((1,), 0.95, [0]),
        ((0.1,) * 10, 0.3, [0, 1, 2]),  # sums of tenths are not exact
        ((2, 1, 0), 1.0, [0, 1, 2]),  # all
    ],
)
def test_the_cut_keeps_the_most_frequent_within_the_share(counts, share, expected):
    assert kept(sample_of(*counts), share) == expected


def test_many_ties_go_by_first_appearance():
    topologies = all_topologies(7)[:400]
    weights = np.ones(400)
    weights[[7, 300]] = 2
    cut = credible_topologies(TreeSample(tuple("abcdefg"), topologies, weights, None), 0.5)
    expected = [7, 300, *(place for place in range(400) if place not in (7, 300))][: len(cut)]
    assert len(cut) == 199  # 2 + 2 + 197 of 402
    np.testing.assert_array_equal(cut.topologies.parent, topologies[expected].parent)


def test_equal_topologies_count_together():
    sample = TreeSample(tuple("abcde"), TOPOLOGIES[[2, 0, 2, 1, 2]], np.array([1.0, 2, 1, 1, 1]), None)
    cut = credible_topologies(sample, 0.85)
    assert kept(sample, 0.85) == [2, 0]
    assert cut.weights.tolist() == [3, 2]


@pytest.mark.parametrize("share", [0, -0.1, 1.01, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(BadArgument, match="above 0 and up to 1"):
        credible_topologies(sample_of(1, 2), share)


def test_shares_grow_with_the_level():
    weights = RandomStream(1, "weights").generator().random(15)
    sizes = [len(kept(sample_of(*weights), share)) for share in np.linspace(0.01, 1, 50)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 15


def smallest_set(probabilities: list[float], share: float) -> int:
    """How many of the largest it takes, added up one by one from the front."""
    held = 0.0
    for size, probability in enumerate(probabilities, 1):
        held += probability
        if held >= share * sum(probabilities) - ROUNDING:
            return size
    raise AssertionError


@given(st.integers(1, 60), st.floats(0.01, 1), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 0.01, 700.0]))
def test_a_credible_set_is_the_smallest_that_holds_the_share(count, share, seed, total):
    weights = total * np.sort(np.random.default_rng(seed).dirichlet(np.full(count, 0.4)))[::-1]
    size = credible_set_size(weights, share)
    assert size == smallest_set(weights.tolist(), share)
    assert weights[:size].sum() >= share * weights.sum() - 2e-9
    assert weights[: size - 1].sum() < share * weights.sum()


@pytest.mark.parametrize(
    ("probabilities", "share", "expected"),
    [
        ([0.5, 0.3, 0.15, 0.05], 0.95, 3),  # on the line is enough
        ([0.5, 0.3, 0.14, 0.06], 0.95, 4),
        ([0.97, 0.03], 0.95, 1),
        ([0.6, 0.3, 0.05, 0.05], 0.9, 2),  # sums of such numbers are not exact
        ([0.1] * 10, 0.3, 3),
        ([0.1] * 10, 0.31, 4),
        ([50.0, 30.0, 15.0, 5.0], 0.95, 3),  # of whatever the total is
        ([0.6, 0.4, 0.0], 1.0, 2),  # what has no probability is in no set
        ([1.0], 0.5, 1),
    ],
)
def test_the_topology_that_crosses_the_line_is_in_the_set(probabilities, share, expected):
    assert credible_set_size(np.array(probabilities), share) == expected


@pytest.mark.parametrize("share", [0, -0.1, 1.01, float("nan")])
def test_a_credible_set_has_a_share_above_0_and_up_to_1(share):
    with pytest.raises(BadArgument, match="above 0 and up to 1"):
        credible_set_size(np.array([0.5, 0.5]), share)
