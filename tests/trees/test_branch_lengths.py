"""Lengths by split and by topology, intervals and medians, against dictionaries, DendroPy, ArviZ and numpy."""

import warnings
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.branch_lengths import (
    describe_groups,
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
from reference import slow_intervals
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
        share = weights.sum() / sample.weights.sum()
        has = [any(row.tobytes() == other.tobytes() for other in rows) for rows in members]
        variance = sum(
            (w / sample.weights.sum()) ** 2 * (h - share) ** 2 for w, h in zip(sample.weights, has, strict=True)
        )
        assert lengths.error[number] == pytest.approx(np.sqrt(variance), abs=1e-6)
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


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it announces its next version
    import arviz
VALUES = st.lists(st.floats(-100, 100) | st.integers(0, 5).map(float), min_size=1, max_size=60)
SHARES = st.sampled_from([0.95, 0.9, 0.5, 0.25])  # shares of which arviz' products with counts are exact


@given(VALUES, SHARES)
def test_without_weights_it_is_the_interval_of_arviz(values, share):
    expected = arviz.hdi(np.array(values), hdi_prob=share)
    assert shortest_interval(values, share=share) == tuple(expected)


@pytest.mark.parametrize("count", [1, 19, 20, 21, 40, 1000, 20_000])
def test_arviz_agrees_at_counts_where_the_share_is_a_whole_number_of_values(count):
    values = np.random.default_rng(count).lognormal(size=count)
    assert shortest_interval(values, np.full(count, 0.1)) == tuple(arviz.hdi(values, hdi_prob=0.95))


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 6)), min_size=1, max_size=14).filter(
        lambda pairs: any(weight for _, weight in pairs)
    ),
    st.sampled_from([0.95, 0.5, 0.75, 1.0]),
)
def test_with_weights_every_pair_of_end_points_agrees(pairs, share):
    values = [value / 8 for value, _ in pairs]
    weights = [Fraction(weight) for _, weight in pairs]
    expected = slow_intervals.shortest_interval(values, weights, Fraction(str(share)))
    assert shortest_interval(values, [weight / 7 for _, weight in pairs], share) == expected
    assert weighted_median(values, [weight / 7 for _, weight in pairs]) == slow_intervals.median(values, weights)


def test_a_weight_counts_like_as_many_values():
    random = np.random.default_rng(1)
    values, counts = random.gamma(2, size=300), random.integers(0, 5, 300)
    repeated = np.repeat(values, counts)
    assert shortest_interval(values, counts) == shortest_interval(repeated)
    assert weighted_median(values, counts) == pytest.approx(np.median(repeated), rel=1e-15)


@given(VALUES)
def test_the_median_is_that_of_numpy(values):
    assert weighted_median(values) == pytest.approx(np.median(values), rel=1e-12, abs=1e-12)


def test_the_scale_of_weights_does_not_matter():
    random = np.random.default_rng(2)
    values, weights = random.random(50), random.random(50)
    assert shortest_interval(values, weights * 1e-300) == shortest_interval(values, weights)


def test_the_interval_of_a_skewed_sample_leaves_the_long_tail_out():
    values = np.random.default_rng(3).exponential(size=20_000)
    lower, upper = shortest_interval(values)
    assert lower < 0.002
    assert upper == pytest.approx(-np.log(0.05), rel=0.03)


def test_groups_are_described_each_for_itself():
    random = np.random.default_rng(4)
    values, weights = random.normal(size=(200, 3)), random.integers(0, 4, 200).astype(float)
    kind, groups = random.integers(0, 4, 200), random.integers(0, 6, (4, 3))
    statistics = describe_groups(values, weights, kind, groups, 8, 0.9)
    for group in range(8):
        rows, columns = np.nonzero((groups[kind] == group) & (weights[:, None] > 0))
        inside = values[rows, columns]
        if not len(inside):
            assert np.isnan([part[group] for part in statistics]).all()
            continue
        mean = np.average(inside, weights=weights[rows])
        assert statistics.mean[group] == pytest.approx(mean)
        spread = np.average((inside - mean) ** 2, weights=weights[rows])
        assert statistics.deviation[group] == pytest.approx(np.sqrt(spread))
        assert statistics.median[group] == weighted_median(inside, weights[rows])
        interval = (statistics.lower[group], statistics.upper[group])
        assert interval == shortest_interval(inside, weights[rows], 0.9)
    assert np.isnan(statistics.mean[6:]).all()  # no value belongs to them


@pytest.mark.parametrize("share", [0, -1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(BadArgument, match="above 0 and up to 1"):
        shortest_interval([1, 2, 3], share=share)


@pytest.mark.parametrize(
    ("values", "weights"),
    [([], None), ([1, np.nan], None), ([1, 2], [0, 0]), ([1, 2], [1, -1]), ([1, 2], [1]), ([[1, 2]], None)],
)
def test_values_and_weights_must_make_sense(values, weights):
    with pytest.raises(BadArgument, match="interval"):
        shortest_interval(values, weights)
