"""Random topologies, enumeration, nearest-neighbour interchange."""

import numpy as np
import pytest
from scipy import stats

from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.generation import (
    all_topologies,
    nni_neighbors,
    numbered_topologies,
    random_nni,
    random_topologies,
    topology_count,
    yule_trees,
)
from phloem.trees.splits import robinson_foulds
from phloem.trees.topology import TopologyBatch, TopologyIndex
from reference import nested
from reference.yule import topology_probabilities


def split_sets(topologies: TopologyBatch) -> list[frozenset[frozenset[int]]]:
    return [
        nested.nontrivial_splits(nested.from_parent(parent.tolist(), topologies.taxon_count))
        for parent in topologies.parent
    ]


@pytest.mark.parametrize(("taxa", "count"), [(3, 1), (4, 3), (5, 15), (6, 105), (7, 945), (8, 10395)])
def test_enumeration_is_every_topology_once(taxa, count):
    topologies = all_topologies(taxa)
    assert len(topologies) == topology_count(taxa) == count
    assert set(split_sets(topologies)) == {nested.nontrivial_splits(tree) for tree in nested.all_unrooted(taxa)}
    assert len(np.unique(topologies.parent, axis=0)) == count


def test_counts_of_topologies():
    assert topology_count(10) == 2_027_025
    assert topology_count(27) == np.prod(np.arange(3, 50, 2, dtype=object))


def test_random_topologies_are_uniform():
    draws = random_topologies(6, 105 * 400, stream=RandomStream(7, "uniformity"))
    _, counts = np.unique(draws.parent, axis=0, return_counts=True)
    assert len(counts) == 105
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_seed_gives_the_same_trees_however_many_are_drawn():
    few = random_topologies(20, 3, stream=RandomStream(1, "x"))
    many = random_topologies(20, 50, stream=RandomStream(1, "x"))
    assert few.equal(many[:3]).all()
    assert not many[0].equal(random_topologies(20, 1, stream=RandomStream(2, "x"))).any()
    assert not many[0].equal(random_topologies(20, 1, stream=RandomStream(1, "y"))).any()
    assert not many[0].equal(random_topologies(20, 1, stream=RandomStream(1, "x").at(1))).any()


def test_three_taxa_have_one_topology():
    assert random_topologies(3, 2, stream=RandomStream(1, "x")).parent.tolist() == [[3, 3, 3, -1]] * 2
    assert len(nni_neighbors(all_topologies(3))) == 0


@pytest.mark.parametrize("taxa", [4, 5, 7, 8])
def test_nni_neighbours_are_exactly_the_trees_at_distance_two(taxa):
    topologies = all_topologies(taxa)
    distances = robinson_foulds(topologies[:30], topologies)
    for index, tree in enumerate(topologies[:30]):
        neighbors = nni_neighbors(tree)
        assert len(neighbors) == 2 * (taxa - 3)
        expected = topologies[np.flatnonzero(distances[index] == 2)]
        assert set(split_sets(neighbors)) == set(split_sets(expected))


def test_neighbours_of_a_batch_come_tree_after_tree():
    topologies = all_topologies(6)[:5]
    one_by_one = TopologyBatch.concatenate([nni_neighbors(tree) for tree in topologies])
    assert nni_neighbors(topologies).equal(one_by_one).all()


def test_bad_requests_say_what_to_do():
    with pytest.raises(BadArgument, match="at least 3"):
        all_topologies(2)
    with pytest.raises(BadArgument, match=r"11 taxa have 34,459,425.*at most 10"):
        all_topologies(11)
    with pytest.raises(BadArgument, match="-1 trees"):
        random_topologies(5, -1, stream=RandomStream(0, "x"))
    with pytest.raises(BadArgument, match="It must not be negative"):
        RandomStream(-1, "x")


def test_no_trees_and_too_few_taxa(monkeypatch):
    assert random_topologies(5, 0, stream=RandomStream(0, "x")).parent.shape == (0, 8)
    for ask in (lambda: random_topologies(2, 1, stream=RandomStream(0, "x")), lambda: topology_count(2)):
        with pytest.raises(BadArgument, match="at least 3"):
            ask()
    monkeypatch.setattr("phloem.trees.generation.LARGEST_ENUMERATION", 5)
    assert len(all_topologies(5)) == 15


@pytest.mark.parametrize("taxa", [3, 4, 5, 6, 7, 8])
def test_topologies_by_number_are_those_of_the_enumeration(taxa):
    topologies = all_topologies(taxa)
    numbers = np.random.default_rng(taxa).integers(len(topologies), size=300)
    assert numbered_topologies(taxa, numbers).equal(topologies[numbers]).all()
    assert numbered_topologies(taxa, np.arange(len(topologies))).equal(topologies).all()
    assert len(numbered_topologies(taxa, numbers[:0])) == 0


def test_numbers_of_many_taxa_are_distinct_topologies():
    assert len(numbered_topologies(20, np.array([0, 1, 2**40, 2**62, 2**63 - 1])).distinct()[0]) == 5
    for taxa, bad, last in ((20, -1, "221,643,095,476,699,771,874"), (6, 105, "104")):
        with pytest.raises(BadArgument, match=f"on {taxa} taxa are numbered from 0 to {last}"):
            numbered_topologies(taxa, np.array([3, bad]))


@pytest.mark.parametrize("taxa", [4, 5, 6, 7])
def test_a_random_interchange_gives_each_neighbour_equally_often(taxa):
    for number in (0, topology_count(taxa) // 2):
        tree = all_topologies(taxa)[number]
        repeated = tree[np.zeros(20_000, np.int64)]
        places = TopologyIndex(nni_neighbors(tree)).find(random_nni(repeated, stream=RandomStream(1, "nni")))
        assert (places >= 0).all()
        counts = np.bincount(places, minlength=2 * (taxa - 3))
        assert len(counts) == 2 * (taxa - 3)
        assert stats.chisquare(counts).pvalue > 1e-4


def test_interchanges_go_both_ways_equally_often():
    topologies = all_topologies(6)
    index = TopologyIndex(topologies)
    steps = np.zeros((105, 105), int)
    for place, tree in enumerate(topologies):
        np.add.at(steps[place], index.find(nni_neighbors(tree)), 1)
    np.testing.assert_array_equal(steps, steps.T)
    assert set(steps.ravel()) == {0, 1}
    repeats = np.repeat(np.arange(105), 1000)
    moved = index.find(random_nni(topologies[repeats], stream=RandomStream(2, "nni")))
    counts = np.zeros((105, 105), int)
    np.add.at(counts, (repeats, moved), 1)
    assert (counts[steps == 0] == 0).all()
    assert stats.chisquare(counts[steps == 1]).pvalue > 1e-4
    assert stats.chisquare(np.bincount(moved)).pvalue > 1e-4  # uniform trees stay uniform


def test_random_interchanges_depend_on_the_stream_alone():
    topologies = random_topologies(9, 50, stream=RandomStream(1, "trees"))
    one, again, other = (random_nni(topologies, stream=RandomStream(3, "nni", step)) for step in (1, 1, 2))
    assert one.equal(again).all()
    assert not one.equal(other).all()
    assert not one.equal(topologies).any()
    single = all_topologies(3)
    assert random_nni(single, stream=RandomStream(1, "nni")).equal(single).all()


@pytest.mark.parametrize("taxa", [4, 5, 6])
def test_yule_trees_are_as_frequent_as_orders_of_merging_say(taxa):
    topologies, _ = yule_trees(taxa, 40_000, stream=RandomStream(3, "yule"))
    kinds, counts = np.unique(topologies.parent, axis=0, return_counts=True)
    expected = topology_probabilities(taxa)
    found = dict(zip(split_sets(TopologyBatch.from_canonical(kinds)), counts, strict=True))
    assert sum(expected.values()) == pytest.approx(1)
    assert found.keys() == expected.keys()
    pairs = [(found[kind], 40_000 * expected[kind]) for kind in expected]
    assert stats.chisquare(*zip(*pairs, strict=True)).pvalue > 1e-4
    uniform = np.full(len(pairs), 40_000 / len(pairs))
    if taxa > 5:  # up to five taxa have one shape
        assert stats.chisquare([count for count, _ in pairs], uniform).pvalue < 1e-9


def test_yule_trees_have_a_clock():
    topologies, lengths = yule_trees(8, 50, stream=RandomStream(3, "yule"))
    assert (lengths > 0).all()
    for parent, own in zip(topologies.parent, lengths, strict=True):
        # Through the root, two taxa are twice its height apart, which is as far as any two are.
        apart = distances(parent, own)
        assert apart.max() == pytest.approx(2)
        farthest = apart > 2 - 1e-9
        assert (farthest.sum(axis=1) >= 1).all()  # every taxon has one on the other side of the root


def test_times_of_yule_trees_are_exponential():
    """With three taxa the first pair merges at A of A + B, where A is Exponential(3) and B Exponential(2)."""
    topologies, lengths = yule_trees(3, 4000, stream=RandomStream(4, "yule"))
    first = np.sort(lengths, axis=1)[:, 0]  # two of the three taxa are as far from their ancestor
    assert stats.kstest(first, lambda x: 3 * x / (3 * x + 2 * (1 - x))).pvalue > 1e-4
    assert len(topologies) == 4000


def test_yule_trees_of_too_few_taxa_or_trees():
    for taxa, count in ((2, 1), (5, -1)):
        with pytest.raises(BadArgument, match=r"at least 3|-1 trees"):
            yule_trees(taxa, count, stream=RandomStream(0, "x"))
    assert yule_trees(5, 0, stream=RandomStream(0, "x"))[1].shape == (0, 7)


def distances(parent: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Between all pairs of taxa, (taxa, taxa), by the paths to the root."""
    taxa = len(parent) // 2 + 1
    paths = []
    for leaf in range(taxa):
        path, node = set(), leaf
        while parent[node] >= 0:
            path.add(node)
            node = parent[node]
        paths.append(path)
    return np.array([[sum(lengths[node] for node in one ^ other) for other in paths] for one in paths])
