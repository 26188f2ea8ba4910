"""Weighted trees that share topologies, against samples that hold a topology for every tree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.sample import GroupedTrees, TreeSample

TAXA = tuple("abcde")
EVERYTHING = all_topologies(5)  # 15, with seven branches each


def sample(which: list[int], weights: list[float]) -> TreeSample:
    """Trees with these topologies and weights; tree i has lengths from i on."""
    lengths = np.arange(len(which))[:, None] + np.linspace(0.1, 0.7, 7)
    return TreeSample(TAXA, EVERYTHING[which], np.array(weights, float), lengths)


def parts(**changes):
    """What makes three trees of two topologies, with some parts of it changed."""
    whole = {
        "taxa": TAXA,
        "topologies": EVERYTHING[[3, 8]],
        "group": np.array([0, 1, 0], np.int32),
        "weights": np.array([1.0, 2.0, 1.0]),
        "branch_lengths": np.ones((3, 7)),
    }
    return whole | changes


@given(st.integers(3, 8), st.integers(1, 6), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_a_sample_is_held_with_each_topology_once(taxa, distinct, trees, seed):
    random = np.random.default_rng(seed)
    pool = random_topologies(taxa, distinct, stream=RandomStream(seed, "grouped"))
    which = random.integers(0, distinct, trees)
    lengths = random.random((trees, 2 * taxa - 3))
    given_sample = TreeSample(tuple("abcdefgh"[:taxa]), pool[which], 7 * random.random(trees), lengths)
    grouped = GroupedTrees.from_sample(given_sample)
    assert len(grouped) == trees
    assert len(grouped.topologies) == len(given_sample.distinct())
    np.testing.assert_array_equal(grouped.topologies.parent[grouped.group], given_sample.topologies.parent)
    np.testing.assert_array_equal(grouped.branch_lengths, lengths)
    np.testing.assert_allclose(grouped.weights, given_sample.weights / given_sample.weights.sum(), rtol=1e-12)


def test_the_share_of_a_topology_is_that_of_its_trees():
    grouped = GroupedTrees.from_sample(sample([4, 9, 4, 0, 9, 9], [1, 2, 3, 4, 0, 6]))
    np.testing.assert_allclose(grouped.topology_weights(), [4 / 16, 8 / 16, 4 / 16])
    np.testing.assert_array_equal(grouped.topologies.parent, EVERYTHING.parent[[4, 9, 0]])


def test_a_topology_that_no_tree_has_counts_nothing():
    grouped = GroupedTrees(**parts(topologies=EVERYTHING[[3, 8, 11]]))
    np.testing.assert_array_equal(grouped.topology_weights(), [0.5, 0.5, 0.0])


def test_topologies_come_with_their_shares_the_most_probable_first_and_equal_ones_as_they_are_held():
    found = GroupedTrees.from_sample(sample([7, 2, 5, 2, 1], [1, 2, 1, 2, 3])).topology_sample()
    np.testing.assert_array_equal(found.topologies.parent, EVERYTHING.parent[[2, 1, 7, 5]])
    np.testing.assert_allclose(found.weights, [4 / 9, 3 / 9, 1 / 9, 1 / 9])
    assert found.branch_lengths is None


def test_selected_trees_keep_their_topologies_and_lengths_and_weigh_the_same():
    whole = sample([6, 6, 12, 1], [1, 2, 3, 4])
    found = GroupedTrees.from_sample(whole).select(np.array([3, 0, 3, 2]))
    assert found.taxa == TAXA
    np.testing.assert_array_equal(found.topologies.parent, EVERYTHING.parent[[1, 6, 1, 12]])
    np.testing.assert_array_equal(found.branch_lengths, whole.branch_lengths[[3, 0, 3, 2]])
    np.testing.assert_array_equal(found.weights, np.full(4, 0.25))


def test_no_trees_can_be_selected():
    assert len(GroupedTrees(**parts()).select(np.empty(0, np.int32))) == 0


def test_weights_are_shares_that_nobody_changes():
    grouped = GroupedTrees(**parts())
    np.testing.assert_array_equal(grouped.weights, [0.25, 0.5, 0.25])
    with pytest.raises(ValueError, match="read-only"):
        grouped.weights[0] = 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"taxa": TAXA[:4]}, "4 names for 5 taxa"),
        ({"branch_lengths": np.ones((2, 7))}, r"shape \(2, 7\) do not fit"),
        ({"branch_lengths": np.ones((3, 6))}, r"shape \(3, 6\) do not fit"),
        ({"weights": np.zeros(3)}, "all weights are zero"),
        ({"weights": np.ones(2)}, "one finite weight"),
        ({"weights": np.array([1.0, -1.0, 1.0])}, "one finite weight"),
        ({"weights": np.array([1.0, np.inf, 1.0])}, "one finite weight"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(changes, problem):
    with pytest.raises(BadArgument, match=problem):
        GroupedTrees(**parts(**changes))


def test_every_branch_of_a_sample_needs_a_length():
    whole = sample([0, 1], [1, 1])
    holes = whole.branch_lengths.copy()
    holes[1, 3] = np.nan
    for lengths in (None, holes):
        with pytest.raises(BadArgument, match="needs a length"):
            GroupedTrees.from_sample(TreeSample(TAXA, whole.topologies, whole.weights, lengths))
