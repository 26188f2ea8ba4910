"""Lengths by split and by topology, against dictionaries and DendroPy."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.branch_lengths import (
    shortest_interval,
    split_lengths,
    topology_lengths,
    tree_lengths,
    weighted_median,
)
from phloem.trees.generation import random_topologies
from phloem.trees.reading import parse_newick
from phloem.trees.sample import GroupedTrees, TreeSample
from phloem.trees.splits import split_bits, split_frequencies, unpack_bits
from phloem.trees.topology import TopologyBatch
from reference.dendropy_samples import members_of, tree_list
from support.strategies import related_topologies, topology_batches


def random_sample(topologies: TopologyBatch, trees: int, seed: int) -> TreeSample:
    random = np.random.default_rng(seed)
    chosen = topologies[random.integers(0, len(topologies), trees)]
    names = tuple(f"t{number}" for number in range(topologies.taxon_count))
    return TreeSample(names, chosen, random.random(trees), random.exponential(0.1, (trees, chosen.branch_count)))


@given(related_topologies() | topology_batches(most=8, trees=3), st.integers(1, 30), st.integers(0, 2**32))
def test_statistics_are_over_the_trees_that_have_the_split(topologies, trees, seed):
    sample = random_sample(topologies, trees, seed)
    lengths = split_lengths(GroupedTrees.from_sample(sample))
    found = defaultdict(list)
    members = unpack_bits(split_bits(sample.topologies), topologies.taxon_count)
    for tree, rows in enumerate(members):
        for branch, row in enumerate(rows):
            found[row.tobytes()].append((sample.branch_lengths[tree, branch], sample.weights[tree]))
    assert len(lengths.members) == len(found)
    for number, row in enumerate(lengths.members):
        values, weights = np.array(found[row.tobytes()]).T
        mean = np.average(values, weights=weights)
        assert lengths.frequency[number] == pytest.approx(weights.sum() / sample.weights.sum())
        assert lengths.mean[number] == pytest.approx(mean)
        deviation = np.sqrt(np.average((values - mean) ** 2, weights=weights))
        assert lengths.deviation[number] == pytest.approx(deviation, abs=1e-12)
        assert lengths.median[number] == pytest.approx(weighted_median(values, weights))
        assert (lengths.lower[number], lengths.upper[number]) == shortest_interval(values, weights)


def test_splits_come_as_in_the_table_of_frequencies_after_the_trivial_ones():
    sample = random_sample(random_topologies(9, 12, stream=RandomStream(1, "x")), 40, 1)
    lengths, table = split_lengths(GroupedTrees.from_sample(sample)), split_frequencies(sample)
    np.testing.assert_array_equal(lengths.members[:9], np.eye(9, dtype=bool))
    assert (lengths.frequency[:9] == 1).all()
    np.testing.assert_array_equal(lengths.members[9:], table.members)
    np.testing.assert_allclose(lengths.frequency[9:], table.frequencies)


@pytest.mark.parametrize("seed", range(5))
def test_means_agree_with_dendropy(seed):
    sample = random_sample(random_topologies(8, 6, stream=RandomStream(seed, "x")), 25, seed)
    sample = TreeSample(sample.taxa, sample.topologies, np.ones(25), sample.branch_lengths)  # its means have no weights
    lengths = split_lengths(GroupedTrees.from_sample(sample))
    trees = tree_list(sample)
    distribution = trees.split_distribution(ignore_edge_lengths=False)
    theirs = {
        members_of(split, 8).tobytes(): values
        for split, values in distribution.split_edge_lengths.items()
        if bin(split).count("1") not in (0, 8)
    }
    for row, mean, deviation in zip(lengths.members[1:], lengths.mean[1:], lengths.deviation[1:], strict=True):
        assert mean == pytest.approx(np.mean(theirs[row.tobytes()]))
        assert deviation == pytest.approx(np.std(theirs[row.tobytes()]), abs=1e-12)
    np.testing.assert_allclose(tree_lengths(GroupedTrees.from_sample(sample)), [tree.length() for tree in trees])


@given(related_topologies() | topology_batches(most=8, trees=3), st.integers(0, 2**32))
def test_lengths_of_one_topology_are_those_of_its_trees_alone(topologies, seed):
    sample = random_sample(topologies, 20, seed)
    grouped = GroupedTrees.from_sample(sample)
    number = int(grouped.group[0])
    alone = sample[np.flatnonzero(grouped.group == number)]
    statistics = topology_lengths(grouped, number)
    for branch, values in enumerate(alone.branch_lengths.T):
        assert statistics.mean[branch] == pytest.approx(np.average(values, weights=alone.weights))
        interval = (statistics.lower[branch], statistics.upper[branch])
        assert interval == shortest_interval(values, alone.weights)


def grouped_with_weights(*weights: float) -> GroupedTrees:
    sample = parse_newick(["(a:1,b:1,(c:1,d:1):1);", "(a:2,c:2,(b:2,d:2):2);"])
    return GroupedTrees.from_sample(
        TreeSample(sample.taxa, sample.topologies, np.array(weights), sample.branch_lengths)
    )


def test_splits_and_lengths_of_trees_without_weight_do_not_count():
    lengths = split_lengths(grouped_with_weights(1, 0))
    assert len(lengths.members) == 5
    assert (lengths.mean == 1).all()
    assert (lengths.upper == 1).all()


def test_nothing_is_known_of_a_topology_without_weight():
    assert (topology_lengths(grouped_with_weights(1, 0), 0).median == 1).all()
    with pytest.raises(BadArgument, match="topology 1: none of its trees has any weight"):
        topology_lengths(grouped_with_weights(1, 0), 1)
    with pytest.raises(BadArgument, match="topologies 0 to 1"):
        topology_lengths(grouped_with_weights(1, 1), 2)


def test_lengths_that_are_missing_are_refused():
    trees = grouped_with_weights(1, 1)
    holes = GroupedTrees(trees.taxa, trees.topologies, trees.group, trees.weights, np.full((2, 5), np.nan))
    with pytest.raises(BadArgument, match="needs a finite length"):
        split_lengths(holes)


def test_a_narrower_interval_holds_less():
    sample = random_sample(random_topologies(6, 1, stream=RandomStream(1, "x")), 200, 1)
    wide, narrow = (split_lengths(GroupedTrees.from_sample(sample), share) for share in (0.95, 0.5))
    assert (narrow.upper - narrow.lower < wide.upper - wide.lower).all()
