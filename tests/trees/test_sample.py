"""Tree samples: merging, pooling and weights; draws grouped by topology; credible sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument, TaxonMismatch
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.reading import parse_newick
from phloem.trees.sample import ROUNDING, GroupedTrees, TreeSample, credible_set_size, credible_topologies, pool
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
