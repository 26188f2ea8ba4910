"""Tables of topologies: the features of any of them are those that would be computed for it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phloem.energy import model as tree_table
from phloem.energy.model import FeatureCache
from phloem.features.layers import DenseStates, RawStates, TreeGraph
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.topology import TopologyBatch
from reference.laplacian import dense_features
from support.strategies import topology_batches


def assert_same(table: FeatureCache, places: np.ndarray, others: TopologyBatch | None, dtype: torch.dtype) -> None:
    """Trees, features and graph, against those of the same trees as one batch."""
    expected = table.topologies[places]
    if others is not None:
        expected = TopologyBatch.concatenate([expected, others])
    trees, states, graph = table.states(places, others)
    np.testing.assert_array_equal(trees.parent, expected.parent)
    assert states.dtype == dtype
    torch.testing.assert_close(states.dense(), RawStates(expected, dtype).dense(), rtol=0, atol=0)
    np.testing.assert_array_equal(graph.neighbors, TreeGraph.of_topologies(expected).neighbors)
    weight = torch.randn(3, expected.taxon_count, dtype=dtype)
    torch.testing.assert_close(states.product(weight), RawStates(expected, dtype).product(weight))


@given(topology_batches(least=3, most=20, trees=6), st.data())
@settings(max_examples=30)
def test_any_places_with_any_others_have_their_own_features(topologies, data):
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    places = np.array(data.draw(st.lists(st.integers(0, len(topologies) - 1), min_size=1, max_size=8)))
    taxa = topologies.taxon_count
    count = data.draw(st.integers(0, 3))
    others = None if count == 0 else random_topologies(taxa, count, stream=RandomStream(1, "others"))
    table = FeatureCache(topologies, dtype)
    assert len(table) == len(topologies)
    assert isinstance(table.states(places)[1], DenseStates)
    assert_same(table, places, others, dtype)


@pytest.mark.parametrize(("taxa", "most"), [(9, 0), (64, 1 << 30), (70, 1 << 30)])
def test_features_that_are_not_kept_are_computed(taxa, most, monkeypatch):
    monkeypatch.setattr(tree_table, "MOST_BYTES", most)
    topologies = random_topologies(taxa, 5, stream=RandomStream(2, "table"))
    others = random_topologies(taxa, 2, stream=RandomStream(3, "table"))
    table = FeatureCache(topologies)
    assert isinstance(table.states(np.array([0]))[1], RawStates)
    assert_same(table, np.array([4, 0, 4]), None, torch.float32)
    assert_same(table, np.array([1, 3]), others, torch.float32)


def test_features_are_kept_as_far_as_memory_is_given(monkeypatch):
    topologies = random_topologies(10, 6, stream=RandomStream(4, "table"))
    single = 6 * 18 * 10 * 4  # bytes
    for dtype, bytes_ in ((torch.float32, single), (torch.float64, 2 * single)):
        monkeypatch.setattr(tree_table, "MOST_BYTES", bytes_)
        assert isinstance(FeatureCache(topologies, dtype).states(np.array([0]))[1], DenseStates)
        monkeypatch.setattr(tree_table, "MOST_BYTES", bytes_ - 1)
        assert isinstance(FeatureCache(topologies, dtype).states(np.array([0]))[1], RawStates)


def test_features_are_those_of_a_linear_solve():
    topologies = random_topologies(8, 3, stream=RandomStream(5, "table"))
    _, states, _ = FeatureCache(topologies, torch.float64).states(np.array([2, 1]))
    expected = np.concatenate([dense_features(topologies.parent[tree], np.eye(8)) for tree in (2, 1)])
    np.testing.assert_allclose(states.dense().numpy(), expected, atol=1e-12)


def test_no_others_are_none():
    topologies = random_topologies(6, 3, stream=RandomStream(6, "table"))
    trees, states, _ = FeatureCache(topologies).states(np.array([1]), topologies.take(np.array([], np.int64)))
    assert len(trees) == 1
    assert states.node_count == 10
