"""Places of nodes in a drawing: against recursion on nested trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.trees.layout import ladder_order, lay_out
from phloem.trees.reading import parse_newick
from reference.nested import Nested, from_parent, leaves, to_parent
from support.strategies import nested_trees, topology_batches


def slow_order(tree: Nested) -> list[int]:
    """Leaves from left to right, after sisters are sorted by size; the strategies' numbering breaks ties."""
    if isinstance(tree, int):
        return [tree]
    return [leaf for child in sorted(tree, key=lambda child: len(leaves(child))) for leaf in slow_order(child)]


def slow_y(tree: Nested, order: list[int]) -> float:
    if isinstance(tree, int):
        return order.index(tree)
    below = [slow_y(child, order) for child in tree]
    return (min(below) + max(below)) / 2


def subtrees(tree: Nested) -> list[Nested]:
    """All of them, by the node numbers of `to_parent`: leaves, then interior nodes in postorder."""

    def interior(subtree: Nested) -> list[Nested]:
        return [] if isinstance(subtree, int) else [part for child in subtree for part in interior(child)] + [subtree]

    return [*range(len(leaves(tree))), *interior(tree)]


@given(nested_trees(), st.integers(0, 2**32))
def test_places_of_any_tree_are_those_of_recursion(nested, seed):
    leaf_count = len(leaves(nested))
    parent = to_parent(nested, leaf_count)
    lengths = np.random.default_rng(seed).exponential(size=len(parent))
    order = ladder_order(parent, leaf_count)
    assert order.tolist() == slow_order(from_parent(parent.tolist(), leaf_count))
    layout = lay_out(parent, leaf_count, lengths)
    for node, subtree in enumerate(subtrees(nested)):
        path = [node]
        while parent[path[-1]] >= 0:
            path.append(parent[path[-1]])
        assert layout.x[node] == pytest.approx(sum(lengths[path[:-1]]))
        assert layout.y[node] == slow_y(subtree, order.tolist())
        if node >= leaf_count:
            below = layout.y[parent == node]
            assert (layout.first[node], layout.last[node]) == (below.min(), below.max())


@given(topology_batches(), st.integers(0, 2**32))
def test_a_batch_is_laid_out_as_its_trees_are(topologies, seed):
    lengths = np.random.default_rng(seed).exponential(size=(len(topologies), topologies.branch_count))
    leaf_count = topologies.taxon_count
    batch = lay_out(topologies.parent, leaf_count, lengths)
    orders = ladder_order(topologies.parent, leaf_count)
    for tree in range(len(topologies)):
        alone = lay_out(topologies.parent[tree], leaf_count, lengths[tree])
        np.testing.assert_array_equal([part[tree] for part in batch], alone)
        np.testing.assert_array_equal(orders[tree], ladder_order(topologies.parent[tree], leaf_count))


@given(nested_trees())
def test_clades_stay_together(nested):
    """Branches do not cross: between the first and the last leaf of a clade there is no other."""
    leaf_count = len(leaves(nested))
    rank = np.argsort(ladder_order(to_parent(nested, leaf_count), leaf_count))
    for subtree in subtrees(nested):
        ranks = rank[list(leaves(subtree))]
        assert np.ptp(ranks) == len(ranks) - 1


def test_a_small_tree_is_laid_out_like_this():
    sample = parse_newick("(A:1,(B:1,(C:2,D:2):3):1,E:4);", taxa="ABCDE")
    layout = lay_out(sample.topologies.parent[0], 5, sample.branch_lengths[0])
    assert layout.x.tolist() == [1, 2, 6, 6, 4, 4, 1, 0]
    assert layout.y.tolist() == [0, 2, 3, 4, 1, 3.5, 2.75, 1.375]


def test_without_lengths_all_leaves_end_at_one():
    parent = parse_newick("(A,(B,(C,D)),E);", taxa="ABCDE").topologies.parent
    assert np.round(3 * lay_out(parent, 5).x, 12).tolist() == [[3, 3, 3, 3, 3, 2, 1, 0]]


def test_an_order_of_ones_own_is_kept_and_unknown_lengths_are_none():
    parent = parse_newick("(A,(B,(C,D)),E);", taxa="ABCDE").topologies.parent
    layout = lay_out(parent, 5, np.full(parent.shape, np.nan), np.array([4, 3, 2, 1, 0]))
    assert layout.y[0, :5].tolist() == [4, 3, 2, 1, 0]
    assert not layout.x.any()


def test_what_does_not_fit_is_refused():
    parent = parse_newick("(A,(B,(C,D)),E);", taxa="ABCDE").topologies.parent
    with pytest.raises(BadArgument, match="tree layout: lengths"):
        lay_out(parent, 5, np.ones((2, 7)))
    with pytest.raises(BadArgument, match="tree layout: the order"):
        lay_out(parent, 5, None, np.array([0, 1, 2, 3, 3]))


@given(nested_trees(rooted=True))
def test_without_lengths_the_root_is_at_0_every_leaf_at_1_and_every_node_right_of_its_parent(nested):
    leaf_count = len(leaves(nested))
    parent = to_parent(nested, leaf_count)
    level = lay_out(parent, leaf_count).x
    assert level[-1] == 0
    assert (level[:leaf_count] == 1).all()
    assert (level[:-1] > level[parent[:-1]]).all()
