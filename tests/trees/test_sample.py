"""TreeSample: merging, pooling, weights."""

import numpy as np
import pytest

from phloem.errors import BadArgument, TaxonMismatch
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.reading import parse_newick
from phloem.trees.sample import TreeSample, pool
from phloem.trees.tree import Tree, WeightedTrees


def test_distinct_merges_equal_topologies_in_order_of_first_appearance():
    sample = parse_newick("[&W 1](A:1,B:1,(C:1,D:1):1);[&W 2]((B,D),A,C);[&W 4](C,D,(B,A));[&W 8](A,C,(B,D));")
    distinct = sample.distinct()
    assert distinct.weights.tolist() == [5, 10]
    assert distinct.branch_lengths is None
    assert distinct.topologies.equal(sample.topologies[:2]).all()
    assert len(sample) == 4


def test_distinct_agrees_with_a_dictionary():
    topologies = random_topologies(5, 1000, stream=RandomStream(1, "x"))
    weights = np.random.default_rng(1).random(1000)
    expected: dict[bytes, float] = {}
    for parent, weight in zip(topologies.parent, weights, strict=True):
        expected[parent.tobytes()] = expected.get(parent.tobytes(), 0) + weight
    distinct = TreeSample(tuple("ABCDE"), topologies, weights, None).distinct()
    assert [parent.tobytes() for parent in distinct.topologies.parent] == list(expected)
    np.testing.assert_allclose(distinct.weights, list(expected.values()))


def test_trees_of_any_degrees_are_merged_too():
    star, cherry = Tree(np.array([4, 4, 4, 4, -1], np.int32), 4), Tree(np.array([5, 5, 4, 4, 5, -1], np.int32), 4)
    trees = WeightedTrees(tuple("ABCD"), (cherry, star, cherry), np.array([1.0, 2.0, 4.0]))
    assert trees.distinct().trees == (cherry, star)
    assert trees.distinct().weights.tolist() == [5, 2]


def test_pooled_samples_weigh_the_same_whatever_their_size():
    first = parse_newick("(A,B,(C,D));" * 3)
    second = parse_newick("(A,C,(B,D));", taxa=["D", "C", "B", "A"])
    pooled = pool([first, second])
    assert pooled.taxa == first.taxa
    np.testing.assert_allclose(pooled.weights, [1 / 6, 1 / 6, 1 / 6, 1 / 2])
    np.testing.assert_allclose(pooled.distinct().weights, [0.5, 0.5])


def test_pooling_keeps_lengths_only_where_all_have_them():
    with_lengths = parse_newick("(A:1,B:2,(C:3,D:4):5);")
    moved = parse_newick("(A:1,B:2,(C:3,D:4):5);", taxa=["D", "C", "B", "A"])
    both = pool([with_lengths, moved])
    assert both.branch_lengths is not None
    np.testing.assert_array_equal(both.branch_lengths, [[1, 2, 3, 4, 5]] * 2)
    assert pool([with_lengths, parse_newick("(A,B,(C,D));")]).branch_lengths is None


def test_pooling_different_taxa_is_refused():
    with pytest.raises(TaxonMismatch, match="lacks 'A'"):
        pool([parse_newick("(A,B,(C,D));"), parse_newick("(E,B,(C,D));")])
    with pytest.raises(BadArgument, match="no tree samples"):
        pool([])


def test_weights_of_zero_cannot_be_normalised():
    with pytest.raises(BadArgument, match="all weights are zero"):
        parse_newick("[&W 0](A,B,(C,D));").normalized()


@pytest.mark.parametrize(
    ("taxa", "weights", "lengths", "what"),
    [
        ("ABC", [1.0] * 3, None, "names for 4 taxa"),
        ("ABCC", [1.0] * 3, None, "3 distinct names"),
        ("ABCD", [1.0] * 2, None, "one finite weight"),
        ("ABCD", [1.0, -1.0, 1.0], None, "not negative"),
        ("ABCD", [1.0, np.nan, 1.0], None, "one finite weight"),
        ("ABCD", [1.0, np.inf, 1.0], None, "one finite weight"),
        ("ABCD", [1.0] * 3, np.ones((3, 6)), "do not fit"),
    ],
)
def test_a_sample_that_does_not_hold_together_cannot_exist(taxa, weights, lengths, what):
    with pytest.raises(BadArgument, match=what):
        TreeSample(tuple(taxa), all_topologies(4), np.array(weights), lengths)


def test_some_of_the_trees():
    sample = parse_newick("[&W 1](A:1,B:1,(C:1,D:1):1);[&W 2]((B,D),A,C);[&W 4](C:2,D:2,(B:2,A:2):2);")
    assert sample[1:].weights.tolist() == [2, 4]
    chosen = sample[[2, 0]]
    assert chosen.weights.tolist() == [4, 1]
    assert chosen.branch_lengths is not None
    np.testing.assert_array_equal(chosen.branch_lengths, [[2] * 5, [1] * 5])
    assert chosen.topologies.equal(sample.topologies[[2, 0]]).all()


def test_records_leave_the_callers_arrays_as_they_are():
    weights = np.ones(3)
    sample = TreeSample(tuple("ABCD"), all_topologies(4), weights, None)
    weights[0] = 2
    with pytest.raises(ValueError, match="read-only"):
        sample.weights[0] = 3


def test_a_rooted_tree_with_a_trifurcation_is_not_binary_though_its_nodes_are_as_many():
    tree = Tree(np.array([5, 5, 5, 6, 6, 7, 7, -1], np.int32), 5)
    assert not tree.is_binary
    assert Tree(all_topologies(5).parent[0], 5).is_binary


@pytest.mark.parametrize(
    ("taxa", "weights"), [("ABC", [1.0]), ("ABCC", [1.0]), ("ABCD", [-1.0]), ("ABCD", [1.0, 1.0]), ("ABCD", [np.inf])]
)
def test_weighted_trees_that_do_not_hold_together_cannot_exist(taxa, weights):
    star = Tree(np.array([4, 4, 4, 4, -1], np.int32), 4)
    with pytest.raises(BadArgument, match="trees:"):
        WeightedTrees(tuple(taxa), (star,), np.array(weights))


@pytest.mark.parametrize(
    ("parent", "leaves"),
    [
        ([3, 3, 3], 3),
        ([3, 3, 3, 3], 3),
        ([3, 3, 4, 4, -1], 4),
        ([9, 9, 9, -1], 3),
        ([4, 4, 3, 4, -1], 3),
        ([4, 4, 4, 4, 5, -1], 4),
    ],
)
def test_a_tree_that_is_none_cannot_exist(parent, leaves):
    with pytest.raises(BadArgument, match="tree:"):
        Tree(np.array(parent, np.int32), leaves)


def test_taxa_in_another_order_keep_their_branches():
    sample = parse_newick("(A:1,B:2,(C:3,(D:4,E:5):6):7);")
    moved = sample.with_taxa(list("BCAED"))
    assert moved.branch_lengths is not None
    assert moved.branch_lengths[0, :5].tolist() == [2, 3, 1, 5, 4]
    back = moved.with_taxa(sample.taxa)
    assert back.topologies.equal(sample.topologies).all()
    np.testing.assert_array_equal(back.branch_lengths, sample.branch_lengths)


def test_every_array_of_a_record_is_read_only():
    sample = parse_newick("(A:1,B:1,C:1);")
    assert sample.branch_lengths is not None
    tree = Tree(np.array([3, 3, 3, -1], np.int32), 3)
    arrays = (sample.weights, sample.branch_lengths, sample.topologies.parent, tree.parent)
    assert not any(array.flags.writeable for array in arrays)
    assert not WeightedTrees(("A", "B", "C"), (tree,), np.ones(1)).weights.flags.writeable
