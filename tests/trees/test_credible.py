"""The credible cut: the topology that crosses the line is left out, ties go by first appearance."""

import numpy as np
import pytest

from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.credible import credible_topologies
from phloem.trees.generation import all_topologies
from phloem.trees.sample import TreeSample

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
