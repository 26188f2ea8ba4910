"""Splits, Robinson–Foulds distances and distances between samples, against sets, DendroPy and IQ-TREE."""

import gzip
import subprocess

import dendropy
import numpy as np
import pytest
from dendropy.calculate import treecompare
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument, TaxonMismatch
from phloem.kernels.trees import clades
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, nni_neighbors, random_topologies
from phloem.trees.reading import parse_newick, read_trees
from phloem.trees.sample import TreeSample
from phloem.trees.splits import (
    SplitFrequencies,
    nontrivial_splits,
    robinson_foulds,
    split_bits,
    split_deviation,
    split_frequencies,
    split_table,
    total_variation,
)
from phloem.trees.topology import TopologyBatch, clade_hashes, taxon_keys
from phloem.trees.writing import format_newick
from reference import nested
from support.strategies import topology_batches


def names(count: int) -> list[str]:
    return [f"t{number:04d}" for number in range(count)]


@given(topology_batches(most=150))
def test_splits_are_those_of_sets(topologies):
    for parent, members in zip(topologies.parent, nontrivial_splits(topologies), strict=True):
        tree = nested.from_parent(parent.tolist(), topologies.taxon_count)
        assert {frozenset(np.flatnonzero(row).tolist()) for row in members} == nested.nontrivial_splits(tree)


def test_every_branch_has_a_split_and_leaf_branches_a_single_taxon():
    bits = split_bits(random_topologies(70, 3, stream=RandomStream(1, "x")))
    assert bits.shape == (3, 137, 2)
    assert (np.bitwise_count(bits[:, :70]).sum(axis=2) == 1).all()
    assert (np.bitwise_count(bits[:, 70:]).sum(axis=2) >= 2).all()


@given(topology_batches(most=60))
def test_hashes_are_the_xor_of_the_taxa_below(topologies):
    keys = taxon_keys(topologies.taxon_count)
    hashes = clade_hashes(topologies)
    for parent, row in zip(topologies.parent, hashes, strict=True):
        for node in range(topologies.node_count):
            below = [node]
            for other in below:
                below.extend(np.flatnonzero(parent == other).tolist())
            expected = np.bitwise_xor.reduce(keys[[leaf for leaf in below if leaf < len(keys)]])
            np.testing.assert_array_equal(row[node], expected)
    np.testing.assert_array_equal(hashes[:, -1], np.broadcast_to(np.bitwise_xor.reduce(keys), (len(hashes), 2)))


def test_taxon_keys_never_change():
    """Saved files hold hashes, so these values are part of the file format."""
    assert [[hex(word) for word in row] for row in taxon_keys(2).tolist()] == [
        ["0xd2c3b9900679fff1", "0x9380a04dd36e21e2"],
        ["0xafe8a6bbdfba42ea", "0x3878bc9c1137404e"],
    ]
    np.testing.assert_array_equal(taxon_keys(5), taxon_keys(1000)[:5])


def test_keys_are_random_bits():
    keys = taxon_keys(4096)
    assert len(np.unique(keys)) == keys.size
    share_of_ones = np.unpackbits(keys.view(np.uint8)).mean()
    assert abs(share_of_ones - 0.5) < 0.005
    # As vectors over GF(2) the first 100 keys are independent: no small set of taxa XORs to zero.
    rows = [int(high) << 64 | int(low) for high, low in keys[:100]]
    rank = 0
    for bit in reversed(range(128)):
        pivot = next((row for row in rows if row >> bit & 1), None)
        if pivot is not None:
            rank += 1
            rows = [row ^ pivot if row >> bit & 1 else row for row in rows if row != pivot]
    assert rank == 100


def test_distance_is_the_number_of_splits_that_only_one_has():
    topologies = all_topologies(7)[::9]
    distances = robinson_foulds(topologies, topologies)
    splits = [nested.nontrivial_splits(nested.from_parent(parent.tolist(), 7)) for parent in topologies.parent]
    expected = [[len(one ^ other) for other in splits] for one in splits]
    np.testing.assert_array_equal(distances, expected)


def test_distances_agree_with_dendropy_on_random_trees():
    base = random_topologies(40, 6, stream=RandomStream(2, "x"))
    trees = TopologyBatch.concatenate([base, nni_neighbors(base[:1])[:6]])
    lists = dendropy.TreeList.get(
        data="\n".join(format_newick(trees, names(40))), schema="newick", rooting="force-unrooted"
    )
    expected = [[treecompare.symmetric_difference(one, other) for other in lists] for one in lists]
    np.testing.assert_array_equal(robinson_foulds(trees, trees), expected)


def test_distances_agree_with_dendropy_on_real_trees(real_data):
    trees = read_trees(real_data / "ufboot/DS1/rep_1.ufboot.gz").topologies[:40]
    text = "\n".join(format_newick(trees, names(27)))
    lists = dendropy.TreeList.get(data=text, schema="newick", rooting="force-unrooted")
    expected = [[treecompare.symmetric_difference(one, other) for other in lists] for one in lists]
    np.testing.assert_array_equal(robinson_foulds(trees, trees), expected)


def test_distances_agree_with_iqtree(iqtree, tmp_path):
    trees = random_topologies(12, 8, stream=RandomStream(3, "x"))
    (tmp_path / "trees.nwk").write_text("\n".join(format_newick(trees, names(12))) + "\n")
    subprocess.run([iqtree, "-rf_all", "trees.nwk", "-pre", "out"], cwd=tmp_path, check=True, capture_output=True)
    table = [line.split()[1:] for line in (tmp_path / "out.rfdist").read_text().splitlines()[1:]]
    np.testing.assert_array_equal(robinson_foulds(trees, trees), np.array(table, int))


def test_trees_of_different_sizes_have_no_distance():
    with pytest.raises(BadArgument, match="cannot be compared"):
        robinson_foulds(all_topologies(5), all_topologies(6))


def test_split_frequencies_weigh_trees():
    sample = parse_newick("[&W 3](A,B,(C,(D,E)));[&W 1](A,C,(B,(D,E)));")
    table = split_frequencies(sample)
    found = {
        "".join(np.array(sample.taxa)[row]): frequency
        for row, frequency in zip(table.members, table.frequencies, strict=True)
    }
    assert list(found) == ["DE", "CDE", "BDE"]
    assert found == {"DE": 1, "CDE": 0.75, "BDE": 0.25}


def test_split_frequencies_agree_with_dendropy(real_data):
    path = real_data / "mrbayes/DS1/rep_1.trprobs.gz"
    sample = read_trees(path)
    table = split_frequencies(sample)
    assert (np.diff(table.frequencies) <= 0).all()
    trees = dendropy.TreeList.get(
        data=gzip.decompress(path.read_bytes()).decode(),
        schema="nexus",
        preserve_underscores=True,
        store_tree_weights=True,
        rooting="force-unrooted",
    )
    expected = trees.split_distribution(use_tree_weights=True)
    namespace = trees.taxon_namespace
    for row, frequency in zip(table.members[:60], table.frequencies[:60], strict=True):
        taxa = [sample.taxa[index] for index in np.flatnonzero(row)]
        mask = namespace.taxa_bitmask(labels=taxa)
        normal = dendropy.Bipartition.normalize_bitmask(mask, namespace.all_taxa_bitmask())
        assert expected[normal] == pytest.approx(frequency, abs=1e-9)


def test_hashes_with_equal_first_words_are_told_apart_by_the_second():
    rows = np.array([[[5, 3], [5, 1], [2, 9], [5, 2]]], np.uint64)
    assert clades.sort_rows(rows)[0].tolist() == [[2, 9], [5, 1], [5, 2], [5, 3]]
    one, other = np.array([[5, 1], [5, 4]], np.uint64), np.array([[5, 2], [5, 4]], np.uint64)
    assert clades.count_shared(one, other) == 1


def test_64_taxa_fit_one_word():
    assert split_bits(random_topologies(64, 1, stream=RandomStream(1, "x"))).shape == (1, 125, 1)


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
