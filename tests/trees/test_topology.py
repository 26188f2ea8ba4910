"""TopologyBatch: canonical arrays for unrooted binary trees; topologies by number, against a dictionary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, nni_neighbors, random_topologies
from phloem.trees.topology import TopologyBatch, TopologyIndex
from reference import nested
from support.strategies import topology_batches


def shuffled(topologies: TopologyBatch, seed: int) -> np.ndarray:
    """The same trees with another root and interior nodes numbered at random."""
    random = np.random.default_rng(seed)
    taxa, nodes = topologies.taxon_count, topologies.node_count
    result = np.empty_like(topologies.parent)
    for row, parent in enumerate(topologies.parent):
        edges = [(node, above) for node, above in enumerate(parent) if above >= 0]
        name = np.concatenate([np.arange(taxa), taxa + random.permutation(nodes - taxa)])
        adjacent: dict[int, list[int]] = {node: [] for node in range(nodes)}
        for one, other in edges:
            adjacent[name[one]].append(name[other])
            adjacent[name[other]].append(name[one])
        root = int(random.integers(taxa, nodes))
        result[row, root] = -1
        pending = [root]
        while pending:
            node = pending.pop()
            for other in adjacent[node]:
                if other != result[row, node]:
                    result[row, other] = node
                    pending.append(other)
    return result


@given(topology_batches(), st.integers(0, 2**32))
def test_equal_topologies_are_equal_arrays_whatever_their_root_and_numbering(topologies, seed):
    again = TopologyBatch.from_parents(shuffled(topologies, seed))
    np.testing.assert_array_equal(again.parent, topologies.parent)
    np.testing.assert_array_equal(again.neighbors, topologies.neighbors)


@given(topology_batches())
def test_canonical_form_is_as_documented(topologies):
    taxa, root = topologies.taxon_count, topologies.root
    for parent, neighbors in zip(topologies.parent, topologies.neighbors, strict=True):
        assert parent[0] == root
        assert parent[root] == -1
        assert (parent[:root] > np.arange(root)).all()
        least = list(range(taxa)) + [taxa] * (root + 1 - taxa)
        for node in range(root):
            least[parent[node]] = min(least[parent[node]], least[node])
        for node in range(taxa, root + 1):
            children = [int(child) for child in np.flatnonzero(parent == node)]
            expected = sorted(children, key=lambda child: least[child])
            toward_taxon_0 = [] if node == root else [int(parent[node])]
            assert neighbors[node].tolist() == toward_taxon_0 + expected
        assert (neighbors[:taxa, 0] == parent[:taxa]).all()
        assert (neighbors[:taxa, 1:] == -1).all()


def test_interior_nodes_are_numbered_in_postorder():
    topologies = all_topologies(7)
    for parent, neighbors in zip(topologies.parent, topologies.neighbors, strict=True):
        met: list[int] = []

        def visit(node: int, neighbors: np.ndarray = neighbors, met: list[int] = met) -> None:
            for child in neighbors[node][0 if node == 11 else 1 :]:
                if child >= 0:
                    visit(child)
            if node >= 7:
                met.append(node)

        visit(11)
        assert met == list(range(7, 12)), parent


def test_arrays_are_read_only():
    topologies = all_topologies(4)
    with pytest.raises(ValueError, match="read-only"):
        topologies.parent[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        topologies.neighbors[0, 0, 0] = 1


def test_selection_gives_smaller_batches():
    topologies = all_topologies(6)
    assert len(topologies[3]) == 1
    assert len(topologies[-1]) == 1
    assert topologies[[2, 5]].equal(TopologyBatch.concatenate([topologies[2], topologies[5]])).all()
    assert len(topologies[10:20]) == 10
    assert [len(tree) for tree in topologies[:3]] == [1, 1, 1]
    with pytest.raises(IndexError):
        topologies[105]


def test_renaming_leaves_renames_splits_and_carries_lengths_along():
    topologies = all_topologies(6)
    random = np.random.default_rng(1)
    lengths = random.random((len(topologies), topologies.branch_count))
    leaves = random.permutation(6).astype(np.int32)
    renamed, moved = topologies.with_leaves(leaves, lengths)
    for index in range(len(topologies)):
        before = nested.from_parent(topologies.parent[index].tolist(), 6)
        after = nested.from_parent(renamed.parent[index].tolist(), 6)

        def rename(tree: nested.Nested) -> nested.Nested:
            return int(leaves[tree]) if isinstance(tree, int) else tuple(map(rename, tree))

        assert nested.nontrivial_splits(rename(before)) == nested.nontrivial_splits(after)
        assert moved is not None
        np.testing.assert_array_equal(moved[index, leaves], lengths[index, :6])
        np.testing.assert_allclose(moved[index].sum(), lengths[index].sum())
    back, original = renamed.with_leaves(np.argsort(leaves).astype(np.int32), moved)
    assert back.equal(topologies).all()
    np.testing.assert_array_equal(original, lengths)


def test_renaming_needs_a_permutation_and_fitting_lengths():
    topologies = all_topologies(4)
    for leaves in ([0, 1, 2], [0, 1, 2, 4], [0, 1, 1, 2], [-1, 0, 1, 2]):
        with pytest.raises(BadArgument, match="each of 0 to 3 is needed once"):
            topologies.with_leaves(np.array(leaves, np.int32))
    with pytest.raises(BadArgument, match="do not fit"):
        topologies.with_leaves(np.arange(4, dtype=np.int32), np.ones((3, 4)))


def test_the_callers_array_stays_writable():
    parent = np.array([[3, 3, 3, -1]], np.int32)
    TopologyBatch.from_canonical(parent)
    parent[0, 0] = 3


@pytest.mark.parametrize(
    ("parent", "neighbors"),
    [
        (np.zeros(4, np.int32), np.zeros((4, 3), np.int32)),
        (np.zeros((1, 4), np.int32), np.zeros((1, 4, 2), np.int32)),
        (np.zeros((1, 5), np.int32), np.zeros((1, 5, 3), np.int32)),
        (np.zeros((1, 4), np.int64), np.zeros((1, 4, 3), np.int32)),
        (np.full((1, 4), 4, np.int32), np.zeros((1, 4, 3), np.int32)),
        (np.zeros((1, 4), np.int32), np.full((1, 4, 3), -2, np.int32)),
        (np.zeros((1, 4), np.int32), np.full((1, 4, 3), -1, np.int32)),
    ],
)
def test_a_batch_whose_arrays_do_not_fit_cannot_exist(parent, neighbors):
    with pytest.raises(BadArgument, match="topologies:"):
        TopologyBatch(parent, neighbors)


def test_batches_that_cannot_be_joined_or_compared_are_refused():
    with pytest.raises(BadArgument, match="same number of taxa"):
        TopologyBatch.concatenate([])
    with pytest.raises(BadArgument, match="same number of taxa"):
        TopologyBatch.concatenate([all_topologies(4), all_topologies(5)])
    with pytest.raises(BadArgument, match="3 and 2 topologies"):
        all_topologies(4).equal(all_topologies(4)[:2])
    with pytest.raises(BadArgument, match="topologies:"):
        all_topologies(4)[1, 2]


@pytest.mark.parametrize(
    ("parent", "what"),
    [
        ([[3, 3, 3, -1, 3]], "2n-2 nodes"),
        ([[1, -1]], "2n-2 nodes"),
        ([[4, 4, 4, -1]], "one root"),
        ([[3, 3, 3, 3]], "one root"),
        ([[4, 4, 4, 4, -1, 4]], "one neighbour each"),
        ([[-1, 3, 3, 0]], "interior node"),
        ([[4, 4, 5, 5, 5, 4]], "one root"),
        ([[8, 8, 8, 5, 6, 7, 6, 5, -1, 7]], "one neighbour each"),
        ([[9, 9, 9, 6, 7, 8, 7, 8, 6, -1]], "cycle"),
        (np.zeros((1, 1, 4), int), "2n-2 nodes"),
        ([[2**32 + 3, 3, 3, -1]], "one root"),
    ],
)
def test_parents_of_no_binary_tree_are_refused(parent, what):
    with pytest.raises(BadArgument, match=what):
        TopologyBatch.from_parents(np.array(parent))


def test_topologies_of_different_sizes_cannot_be_compared():
    with pytest.raises(BadArgument, match="5 and on 6 taxa"):
        all_topologies(5).equal(all_topologies(6))


@given(st.integers(3, 30), st.integers(1, 40), st.integers(0, 2**32))
def test_places_are_those_of_a_dictionary(taxa, count, seed):
    listed, _ = random_topologies(taxa, count, stream=RandomStream(seed, "listed")).distinct()
    asked = TopologyBatch.concatenate([random_topologies(taxa, 20, stream=RandomStream(seed, "asked")), listed[::-1]])
    if taxa > 3:
        asked = TopologyBatch.concatenate([asked, nni_neighbors(listed[:2])])
    places = {row.tobytes(): place for place, row in enumerate(listed.parent)}
    expected = [places.get(row.tobytes(), -1) for row in asked.parent]
    np.testing.assert_array_equal(TopologyIndex(listed).find(asked), expected)


def test_all_topologies_are_found_where_they_are():
    topologies = all_topologies(7)
    order = np.random.default_rng(1).permutation(len(topologies))
    np.testing.assert_array_equal(TopologyIndex(topologies).find(topologies[order]), order)
    np.testing.assert_array_equal(TopologyIndex(topologies[order]).find(topologies), np.argsort(order))


def test_what_is_not_listed_is_not_found_wherever_it_would_stand():
    topologies = all_topologies(6)
    for place in range(105):
        listed = np.delete(np.arange(105), place)
        found = TopologyIndex(topologies[listed]).find(topologies)
        assert found[place] == -1
        np.testing.assert_array_equal(np.delete(found, place), np.arange(104))


def test_nothing_asked_for_is_nothing_found():
    topologies = all_topologies(5)
    assert TopologyIndex(topologies).find(topologies[:0]).shape == (0,)
    assert (TopologyIndex(topologies[:0]).find(topologies) == -1).all()


def test_other_numbers_of_taxa_are_refused():
    with pytest.raises(BadArgument, match=r"topologies on 6 taxa .* on 5"):
        TopologyIndex(all_topologies(5)).find(all_topologies(6))
