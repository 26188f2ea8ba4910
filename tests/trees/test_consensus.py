"""Consensus trees, the best sampled tree and their branches' statistics, against DendroPy on the same samples."""

import dendropy
import numpy as np
import pytest
from dendropy.calculate import treecompare
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument, TaxonMismatch
from phloem.kernels.trees import clades
from phloem.random_streams import RandomStream
from phloem.trees.branch_lengths import split_lengths
from phloem.trees.consensus import (
    SummaryTree,
    extended_majority_rule,
    majority_rule,
    maximum_clade_credibility,
    summary_tree,
)
from phloem.trees.generation import nni_neighbors, random_topologies
from phloem.trees.reading import parse_newick
from phloem.trees.sample import GroupedTrees, TreeSample
from phloem.trees.splits import (
    SplitFrequencies,
    distinct_splits,
    pack_members,
    robinson_foulds,
    split_frequencies,
    unpack_bits,
)
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree
from phloem.trees.writing import format_tree
from reference import nested
from reference.dendropy_samples import members_of, splits_of, splits_of_ours, tree_list
from support.strategies import nested_trees, related_topologies, topology_batches

SAMPLES = st.tuples(related_topologies(trees=8) | topology_batches(least=4, most=10, trees=6), st.integers(0, 2**32))
THRESHOLDS = [0.5, 0.6, 2 / 3, 0.9, 1]


def sample_of(topologies: TopologyBatch, seed: int, weighted: bool) -> TreeSample:
    random = np.random.default_rng(seed)
    chosen = topologies[random.integers(0, len(topologies), int(random.integers(1, 15)))]
    weights = random.random(len(chosen)) if weighted else np.ones(len(chosen))
    return TreeSample(tuple(f"t{number}" for number in range(topologies.taxon_count)), chosen, weights, None)


def distribution_of(sample: TreeSample) -> dendropy.SplitDistribution:
    return tree_list(sample).split_distribution(use_tree_weights=True)


def is_nontrivial(split: int, taxa: int) -> bool:
    return 2 <= bin(split).count("1") <= taxa - 2


@given(SAMPLES, st.booleans())
def test_split_frequencies_agree_with_dendropy(drawn, weighted):
    sample = sample_of(*drawn, weighted)
    table, taxa = split_frequencies(sample), len(sample.taxa)
    expected = {
        members_of(split, taxa).tobytes(): frequency
        for split, frequency in distribution_of(sample).split_frequencies.items()
        if is_nontrivial(split, taxa)
    }
    found = {row.tobytes(): frequency for row, frequency in zip(table.members, table.frequencies, strict=True)}
    assert found == pytest.approx(expected)


@given(SAMPLES)
def test_robinson_foulds_agrees_with_dendropy(drawn):
    sample = sample_of(*drawn, False)
    trees = tree_list(sample)
    expected = [[treecompare.symmetric_difference(one, other) for other in trees] for one in trees]
    np.testing.assert_array_equal(robinson_foulds(sample.topologies, sample.topologies), expected)


@given(SAMPLES, st.booleans(), st.sampled_from(THRESHOLDS))
def test_majority_rule_agrees_with_dendropy(drawn, weighted, threshold):
    sample = sample_of(*drawn, weighted)
    above = threshold + 1e-6 if threshold < 1 else 1  # DendroPy takes splits that are as frequent, too
    expected = distribution_of(sample).consensus_tree(min_freq=above, summarize_splits=False)
    found = majority_rule(split_frequencies(sample), threshold)
    assert splits_of_ours(found, sample.taxa) == splits_of(expected, "t0")


@given(SAMPLES, st.booleans())
def test_the_extended_majority_rule_agrees_with_dendropy(drawn, weighted):
    sample = sample_of(*drawn, weighted)
    distribution = distribution_of(sample)
    expected = distribution.consensus_tree(min_freq=0, summarize_splits=False)
    ordered = sorted(((frequency, split) for split, frequency in distribution.split_frequencies.items()), reverse=True)
    taxa = len(sample.taxa)
    table = SplitFrequencies(  # ties in DendroPy's order
        sample.taxa,
        np.array([members_of(split, taxa) for _, split in ordered if is_nontrivial(split, taxa)]).reshape(-1, taxa),
        np.array([frequency for frequency, split in ordered if is_nontrivial(split, taxa)]),
    )
    assert splits_of_ours(extended_majority_rule(table), sample.taxa) == splits_of(expected, "t0")


@given(SAMPLES, st.booleans())
def test_the_credibility_of_the_best_tree_agrees_with_dendropy(drawn, weighted):
    sample = sample_of(*drawn, weighted)
    trees = tree_list(sample)
    array = dendropy.TreeArray(taxon_namespace=trees.taxon_namespace, is_rooted_trees=False, use_tree_weights=True)
    array.add_trees(trees)
    scores, _ = array.calculate_log_product_of_split_supports()
    best = maximum_clade_credibility(sample, split_frequencies(sample))
    tied = np.flatnonzero(np.array(scores) > max(scores) - 1e-9)  # DendroPy takes the first of these
    rows = sample.topologies.parent
    probability = [sample.weights[(rows == rows[tree]).all(axis=1)].sum() for tree in tied]
    most_probable = tied[np.array(probability) > max(probability) - 1e-9]
    assert any((best.parent == rows[tree]).all() for tree in most_probable)
    if len(tied) == 1:
        expected = array.maximum_product_of_split_support_tree(summarize_splits=False)
        assert splits_of_ours(best, sample.taxa) == splits_of(expected, "t0")


@given(nested_trees(least=4))
def test_the_tree_of_its_own_splits_is_the_tree_in_canonical_order(tree):
    taxa = len(nested.leaves(tree))
    splits = sorted(map(sorted, nested.nontrivial_splits(tree)))
    members = np.zeros((len(splits), taxa), bool)
    for row, split in zip(members, splits, strict=True):
        row[split] = True
    names = tuple(f"t{number:02d}" for number in range(taxa))
    table = SplitFrequencies(names, members, np.full(len(splits), 0.8))
    found = extended_majority_rule(table)
    np.testing.assert_array_equal(found.parent, majority_rule(table).parent)
    assert splits_of_ours(found, names) == {frozenset(names[leaf] for leaf in split) for split in splits}
    assert found.parent[0] == len(found.parent) - 1
    again = format_tree(found, names)
    np.testing.assert_array_equal(nested.to_parent(nested.from_parent(found.parent.tolist(), taxa), taxa), found.parent)
    assert again.startswith("(t00,")


def counted(*counts: int) -> TreeSample:
    sample = parse_newick(["(a,b,(c,(d,e)));", "(a,c,(b,(d,e)));", "(a,d,(b,(c,e)));"])
    return TreeSample(sample.taxa, sample.topologies[: len(counts)], np.array(counts, float), None)


@pytest.mark.parametrize(
    ("counts", "threshold", "expected"),
    [
        ((1, 1), 0.5, "(a,b,c,(d,e));"),  # half is no majority
        ((51, 49), 0.5, "(a,b,(c,(d,e)));"),
        ((51, 49), 0.51, "(a,b,c,(d,e));"),  # nor is the threshold itself
        ((7, 3), 0.7, "(a,b,c,(d,e));"),
        ((999, 1), 0.9, "(a,b,(c,(d,e)));"),
        ((999, 1), 1, "(a,b,c,(d,e));"),  # at 1 those that every tree has
        ((5, 3, 2), 1, "(a,b,c,d,e);"),
        ((5, 3, 2), 0.5, "(a,b,c,(d,e));"),
        ((1,), 1, "(a,b,(c,(d,e)));"),
    ],
)
def test_the_line_of_a_majority(counts, threshold, expected):
    sample = counted(*counts)
    assert format_tree(majority_rule(split_frequencies(sample), threshold), sample.taxa) == expected


def test_a_sum_of_weights_that_is_not_exact_does_not_cross_the_line():
    table = split_frequencies(counted(1, 1))
    above = SplitFrequencies(table.taxa, table.members, np.nextafter(table.frequencies, 2))
    assert format_tree(majority_rule(above), "abcde") == "(a,b,c,(d,e));"
    below = SplitFrequencies(table.taxa, table.members, np.nextafter(table.frequencies, 0))
    assert format_tree(majority_rule(below, 1), "abcde") == "(a,b,c,(d,e));"


@pytest.mark.parametrize("threshold", [0.49, 0, -1, 1.01, float("nan")])
def test_a_threshold_that_is_no_majority_is_refused(threshold):
    with pytest.raises(BadArgument, match=r"from 0\.5 to 1.*extended majority rule"):
        majority_rule(split_frequencies(counted(1)), threshold)


def test_equally_frequent_splits_are_tried_in_the_given_order():
    table = split_frequencies(counted(1, 1))
    assert format_tree(extended_majority_rule(table), "abcde") == "(a,b,(c,(d,e)));"
    turned = SplitFrequencies(table.taxa, table.members[::-1], table.frequencies[::-1])
    assert format_tree(extended_majority_rule(turned), "abcde") == "(a,(b,(d,e)),c);"


def test_splits_of_frequency_zero_resolve_nothing():
    table = split_frequencies(counted(0, 0, 1))
    assert format_tree(extended_majority_rule(table), "abcde") == "(a,(b,(c,e)),d);"
    nothing = SplitFrequencies(table.taxa, table.members, np.zeros(len(table.members)))
    assert format_tree(extended_majority_rule(nothing), "abcde") == "(a,b,c,d,e);"


def test_three_taxa_have_one_tree():
    sample = parse_newick("(a,b,c);")
    table = split_frequencies(sample)
    for tree in (majority_rule(table), extended_majority_rule(table), maximum_clade_credibility(sample, table)):
        assert tree.parent.tolist() == [3, 3, 3, -1]


def test_splits_that_contradict_each_other_are_no_frequencies():
    table = split_frequencies(counted(1, 1))
    with pytest.raises(BadArgument, match="incompatible"):
        majority_rule(SplitFrequencies(table.taxa, table.members, np.full(3, 0.9)))


def test_of_equally_credible_topologies_the_more_probable_wins():
    sample = parse_newick(["(a,b,(c,d));", "(a,c,(b,d));"])
    half = SplitFrequencies(sample.taxa, split_frequencies(sample).members, np.array([0.5, 0.5]))
    for weights, expected in ((1, 2), "(a,(b,d),c);"), ((2, 1), "(a,b,(c,d));"), ((1, 1), "(a,b,(c,d));"):
        weighted = TreeSample(sample.taxa, sample.topologies, np.array(weights, float), None)
        assert format_tree(maximum_clade_credibility(weighted, half), sample.taxa) == expected


def test_trees_and_splits_that_do_not_belong_together_are_refused():
    sample = counted(1, 1)
    with pytest.raises(TaxonMismatch, match="same taxa in the same order"):
        maximum_clade_credibility(sample, split_frequencies(parse_newick("(a,b,(c,d));")))
    with pytest.raises(BadArgument, match="split of frequency zero"):
        maximum_clade_credibility(sample[:1], split_frequencies(sample[1:]))


@given(topology_batches(most=150))
def test_distinct_splits_number_those_of_every_tree(topologies):
    sets, number = distinct_splits(topologies)
    assert len(np.unique(sets, axis=0)) == len(sets)
    taxa = topologies.taxon_count
    members = unpack_bits(sets, taxa)
    np.testing.assert_array_equal(pack_members(members), sets)
    for parent, row in zip(topologies.parent, number, strict=True):
        expected = nested.nontrivial_splits(nested.from_parent(parent.tolist(), taxa))
        assert {frozenset(np.flatnonzero(members[split]).tolist()) for split in row} == expected


def test_splits_of_many_trees_are_found_some_trees_at_a_time(monkeypatch):
    topologies = random_topologies(70, 25, stream=RandomStream(1, "x"))
    sets, number = distinct_splits(topologies)
    monkeypatch.setattr("phloem.trees.splits.TREES_AT_A_TIME", 4)
    for whole, in_parts in zip((sets, number), distinct_splits(topologies), strict=True):
        np.testing.assert_array_equal(whole, in_parts)


def test_ten_thousand_splits_of_500_taxa_make_one_tree():
    topologies = random_topologies(500, 1, stream=RandomStream(1, "x"))
    neighbors = nni_neighbors(topologies)
    sample = TreeSample(
        tuple(f"t{number}" for number in range(500)),
        TopologyBatch.concatenate([neighbors, random_topologies(500, 22, stream=RandomStream(2, "x"))]),
        np.random.default_rng(1).random(len(neighbors) + 22),
        None,
    )
    table = split_frequencies(sample)
    assert len(table.members) > 10_000
    found = extended_majority_rule(table)
    np.testing.assert_array_equal(found.parent, topologies.parent[0])  # each split is missing in two neighbours alone


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
