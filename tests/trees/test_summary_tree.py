"""What a sample says of the branches of a tree: looked up by split."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.kernels.trees import clades
from phloem.trees.branch_lengths import split_lengths
from phloem.trees.consensus import SummaryTree, extended_majority_rule, majority_rule, summary_tree
from phloem.trees.reading import parse_newick
from phloem.trees.sample import GroupedTrees, TreeSample
from phloem.trees.splits import split_frequencies, unpack_bits
from phloem.trees.tree import Tree
from support.strategies import related_topologies


@given(related_topologies(), st.integers(0, 2**32))
def test_every_branch_has_the_numbers_of_its_split(topologies, seed):
    random = np.random.default_rng(seed)
    names = tuple(f"t{number}" for number in range(topologies.taxon_count))
    lengths = random.random((len(topologies), topologies.branch_count))
    sample = TreeSample(names, topologies, random.random(len(topologies)), lengths)
    table = split_lengths(GroupedTrees.from_sample(sample))
    for tree in (majority_rule(split_frequencies(sample)), extended_majority_rule(split_frequencies(sample))):
        summary = summary_tree(tree, table)
        np.testing.assert_array_equal(summary.tree.parent, tree.parent)
        assert not summary.is_rooted
        below = unpack_bits(clades.clade_bits(tree.parent[None], len(names))[0], len(names))
        for branch, members in enumerate(below[:-1]):
            split = int(np.flatnonzero((table.members == members).all(axis=1))[0])
            assert summary.support[branch] == table.frequency[split]
            assert summary.length[branch] == table.mean[split]
            assert (summary.lower[branch], summary.upper[branch]) == (table.lower[split], table.upper[split])
        assert (summary.support[: len(names)] == 1).all()
        for part in (summary.support, summary.length, summary.lower, summary.upper):
            assert np.isnan(part[-1])


def test_a_branch_that_no_tree_has_is_unknown_and_a_root_of_degree_two_is_none():
    sample = parse_newick("(a:1,b:2,(c:3,d:4):5);")
    table = split_lengths(GroupedTrees.from_sample(sample))
    rooted = Tree(np.array([4, 4, 5, 5, 6, 6, -1], np.int32), 4)  # ((a,b),(c,d))
    summary = summary_tree(rooted, table)
    assert summary.tree.parent.tolist() == sample.topologies.parent[0].tolist()
    assert summary.length[:-1].tolist() == [1, 2, 3, 4, 5]
    other = summary_tree(Tree(np.array([5, 4, 5, 4, 5, -1], np.int32), 4), table)  # (a,c,(b,d))
    assert other.support[:-1].tolist() == [1, 1, 1, 1, 0]
    assert np.isnan([other.length[4], other.lower[4], other.upper[4]]).all()


def test_tree_and_lengths_must_fit():
    table = split_lengths(GroupedTrees.from_sample(parse_newick("(a:1,b:2,(c:3,d:4):5);")))
    with pytest.raises(BadArgument, match="a tree of 3 taxa and branch lengths for 4"):
        summary_tree(Tree(np.array([3, 3, 3, -1], np.int32), 3), table)
    with pytest.raises(BadArgument, match="3 names for 4 taxa"):
        SummaryTree(("a", "b", "c"), Tree(np.array([4, 4, 4, 4, -1], np.int32), 4), *[np.ones(5)] * 4)
    with pytest.raises(BadArgument, match=r"shape \(4,\)"):
        SummaryTree(("a", "b", "c"), Tree(np.array([3, 3, 3, -1], np.int32), 3), *[np.ones(5)] * 4)
