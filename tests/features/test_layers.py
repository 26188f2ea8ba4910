"""Trees as a graph, states of its nodes, and single layers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from phloem.errors import BadArgument
from phloem.features.convolutions import GcnConvolution
from phloem.features.layers import BranchMax, DenseStates, RawStates, TreeGraph, TreeSum, run
from phloem.features.raw import dirichlet_features
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree
from support.strategies import topology_batches

UNEQUAL = [  # 7, 6 and 8 nodes
    Tree(np.array([5, 5, 6, 6, 6, 6, -1], np.int32), 5),
    Tree(np.array([5, 5, 5, 5, 5, -1], np.int32), 5),
    Tree(np.array([7, 5, 5, 6, 6, 7, 7, -1], np.int32), 5),
]


def example(taxa: int = 7, count: int = 3) -> TopologyBatch:
    return random_topologies(taxa, count, stream=RandomStream(taxa, "learnable"))


@given(topology_batches(most=30, trees=3))
@settings(max_examples=25)
def test_a_graph_has_the_topologies_neighbours_and_branches(topologies):
    graph = TreeGraph.of_topologies(topologies)
    nodes = topologies.node_count
    assert graph.node_count == len(topologies) * nodes
    for tree in range(len(topologies)):
        for node in range(nodes):
            row = graph.neighbors[tree * nodes + node]
            expected = {tree * nodes + u for u in topologies.neighbors[tree, node] if u >= 0}
            assert set(row[row >= 0]) == expected
            assert (row[len(expected) :] == -1).all()
    parents = (topologies.parent[:, :-1] + nodes * np.arange(len(topologies))[:, None]).reshape(-1)
    np.testing.assert_array_equal(graph.branches[:, 1], parents)
    np.testing.assert_array_equal(
        graph.degrees, [1 if n % nodes < topologies.taxon_count else 3 for n in range(len(graph.neighbors))]
    )


def test_graphs_that_are_none_are_refused():
    good = TreeGraph.of_topologies(random_topologies(6, 3, stream=RandomStream(6, "graph")))
    for spoil in (
        lambda table: table.__setitem__((0, 0), -1),  # no neighbour
        lambda table: table.__setitem__((0, 0), 3),  # not mutual
        lambda table: table.__setitem__((8, 0), 500),
    ):
        table = good.neighbors.copy()
        spoil(table)
        with pytest.raises(BadArgument, match="must be mutual"):
            TreeGraph(table, good.branches, good.tree_starts)
    with pytest.raises(BadArgument, match="32-bit"):
        TreeGraph(good.neighbors.astype(np.int64), good.branches, good.tree_starts)
    with pytest.raises(BadArgument, match="branches must end"):
        TreeGraph(good.neighbors, good.branches + np.int32(5), good.tree_starts)


@given(topology_batches(most=40, trees=3))
@settings(max_examples=25)
def test_projected_features_are_products_with_the_features(topologies):
    """Both ways of a linear map of raw features, forward and back."""
    random = torch.Generator().manual_seed(1)
    weight = torch.randn(6, topologies.taxon_count, dtype=torch.float64, generator=random).requires_grad_()
    features = torch.from_numpy(dirichlet_features(topologies).reshape(-1, topologies.taxon_count))
    gradient = torch.randn(len(features), 6, dtype=torch.float64, generator=random)
    expected = features @ weight.T
    expected.backward(gradient)
    expected_gradient, weight.grad = weight.grad, None
    found = RawStates(topologies, torch.float64).linear(weight)
    found.backward(gradient)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(weight.grad, expected_gradient, rtol=1e-10, atol=1e-11)


def test_gradients_of_branch_maxima_go_to_the_larger_end():
    topologies = example(5, 2)
    graph = TreeGraph.of_topologies(topologies)
    states = torch.randn(graph.node_count, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: run([BranchMax()], DenseStates(x), graph), states)


@pytest.mark.parametrize("channels", [1, 3, 37])
def test_trees_are_summed_and_gradients_go_to_all_nodes(channels):
    graph = TreeGraph.of_trees(UNEQUAL)
    states = torch.randn(21, channels, dtype=torch.float64, requires_grad=True)
    found = run([TreeSum()], DenseStates(states), graph)
    torch.testing.assert_close(found, torch.stack([part.sum(0) for part in states.split([7, 6, 8])]))
    assert torch.autograd.gradcheck(lambda x: run([TreeSum()], DenseStates(x), graph), states)


def test_what_is_not_a_number_is_seen_in_its_own_trees_sum_only():
    states = torch.ones(21, 3)
    states[9, 1] = torch.nan
    sums = run([TreeSum()], DenseStates(states), TreeGraph.of_trees(UNEQUAL))
    assert torch.isnan(sums).nonzero().tolist() == [[1, 1]]


def test_dense_states_without_gradients_ask_for_none():
    graph = TreeGraph.of_topologies(example(5, 1))
    states = torch.randn(graph.node_count, 5, dtype=torch.float64)
    layer = GcnConvolution(5, 3).double()
    layer(DenseStates(states), graph).sum().backward()
    assert states.grad is None
    assert layer.linear.weight.grad is not None
