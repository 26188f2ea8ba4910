"""Distances between samples of trees, against DendroPy's frequencies and the definitions."""

import dendropy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument, TaxonMismatch
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitFrequencies, split_deviation, split_frequencies, split_table, total_variation
from phloem.trees.writing import format_newick

TAXA = tuple("abcdef")


def sample(seed: int, count: int = 40, distinct: int = 6) -> TreeSample:
    random = np.random.default_rng(seed)
    topologies = random_topologies(6, distinct, stream=RandomStream(1, "comparison"))
    return TreeSample(TAXA, topologies[random.integers(0, distinct, count)], np.ones(count), None)


def dendropy_frequencies(tree_sample: TreeSample, namespace) -> dict[int, float]:
    """Frequencies of nontrivial splits by bit mask."""
    text = "\n".join(format_newick(tree_sample.topologies, TAXA))
    trees = dendropy.TreeList.get(data=text, schema="newick", taxon_namespace=namespace, rooting="force-unrooted")
    distribution = trees.split_distribution(is_bipartitions_updated=False)
    return {
        split: frequency
        for split, frequency in distribution.split_frequencies.items()
        if 2 <= bin(split).count("1") <= len(TAXA) - 2
    }


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_deviations_are_those_of_dendropys_frequencies(one, other):
    samples = [sample(one), sample(other)]
    namespace = dendropy.TaxonNamespace(TAXA)
    tables = [dendropy_frequencies(trees, namespace) for trees in samples]
    rows = np.array([[table.get(split, 0.0) for table in tables] for split in {*tables[0], *tables[1]}])
    common = np.abs(rows[:, 0] - rows[:, 1])[rows.max(axis=1) > 0.0999999] / np.sqrt(2)
    found = split_deviation([split_frequencies(trees) for trees in samples])
    assert found.average == pytest.approx(common.mean())
    assert found.largest == pytest.approx(common.max())
    assert found.largest_difference == pytest.approx(np.abs(rows[:, 0] - rows[:, 1]).max())


def test_rare_splits_count_in_differences_only():
    common, rare = random_topologies(6, 2, stream=RandomStream(9, "comparison"))
    samples = [
        TreeSample(TAXA, random_topologies(6, 2, stream=RandomStream(9, "comparison")), np.array(weights), None)
        for weights in ([0.95, 0.05], [1.0, 0.0])
    ]
    assert not common.equal(rare)[0]
    found = split_deviation([split_frequencies(trees) for trees in samples])
    assert found.largest_difference == pytest.approx(0.05)
    shared = split_table([split_frequencies(trees) for trees in samples]).frequencies
    assert found.average == pytest.approx(shared[shared.max(axis=1) >= 0.1].std(axis=1, ddof=1).mean())


def frequencies_of(*shares: float) -> SplitFrequencies:
    """Made-up frequencies of the splits f, ef, def, …, which need not be those of trees."""
    members = np.tri(6, dtype=np.bool_)[:, ::-1][1:4]
    return SplitFrequencies(TAXA, members[: len(shares)], np.array(shares))


def test_a_split_counts_in_averages_from_a_frequency_of_a_tenth_in_one_sample():
    for share, expected in ((0.099, 0.0), (0.1 - 1e-12, 0.05), (0.1, 0.05)):
        found = split_deviation([frequencies_of(0.9, share), frequencies_of(0.9)])
        assert found.average == pytest.approx(expected / np.sqrt(2))
        assert found.largest == pytest.approx(2 * expected / np.sqrt(2))


def test_the_largest_difference_may_be_that_of_a_rare_split_and_of_any_two_samples():
    found = split_deviation([frequencies_of(0.9, 0.02), frequencies_of(0.89, 0.09), frequencies_of(0.9)])
    assert found.largest_difference == pytest.approx(0.09)
    assert found.largest == pytest.approx(np.std([0.9, 0.89, 0.9], ddof=1))
    only_rare = split_deviation([frequencies_of(0.05), frequencies_of(0.01)])
    assert only_rare == (0, 0, pytest.approx(0.04))


def test_one_sample_and_three_taxa_deviate_by_nothing():
    assert split_deviation([split_frequencies(sample(1))]) == (0, 0, 0)
    star = TreeSample(tuple("abc"), random_topologies(3, 1, stream=RandomStream(1, "x")), np.ones(1), None)
    assert split_deviation([split_frequencies(star)] * 2) == (0, 0, 0)


def test_other_taxa_are_refused():
    renamed = TreeSample(tuple("abcdeg"), sample(1).topologies, sample(1).weights, None)
    with pytest.raises(BadArgument, match="same taxa"):
        split_table([split_frequencies(sample(1)), split_frequencies(renamed)])
    with pytest.raises(BadArgument, match="one or more"):
        split_table([])
    with pytest.raises(TaxonMismatch, match="lacks 'f'"):
        total_variation(sample(1), renamed)


def test_total_variation_is_half_the_sum_of_differences_whatever_the_order_of_taxa():
    topologies = random_topologies(6, 3, stream=RandomStream(5, "comparison"))
    one = TreeSample(TAXA, topologies, np.array([0.5, 0.5, 0.0]), None)
    other = TreeSample(TAXA, topologies, np.array([0.2, 0.3, 0.5]), None)
    assert total_variation(one, one) == 0
    assert total_variation(one, other) == pytest.approx(0.5)
    assert total_variation(one, other.with_taxa(TAXA[::-1])) == pytest.approx(0.5)
    assert total_variation(one[:1], other[2:]) == 1
    repeated = TreeSample(TAXA, topologies[[0, 1, 2, 1, 2]], 40 * np.array([0.2, 0.1, 0.4, 0.2, 0.1]), None)
    assert total_variation(one, repeated) == total_variation(repeated, one) == pytest.approx(0.5)
