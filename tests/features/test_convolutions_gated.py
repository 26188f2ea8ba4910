"""The gated step at all widths of its inputs, and what it leaves out."""

import numpy as np
import pytest
import torch

from phloem.features.convolutions import GgnnConvolution
from phloem.features.layers import DenseStates, TreeGraph
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.tree import Tree
from reference.node_loops import NAIVE

POLYTOMIES = [
    Tree(np.array([5, 5, 5, 5, 5, -1], np.int32), 5),
    Tree(np.array([7, 5, 5, 6, 6, 7, 7, -1], np.int32), 5),
]
GRAPHS = {
    "binary": TreeGraph.of_topologies(random_topologies(6, 3, stream=RandomStream(6, "graph"))),
    "polytomies": TreeGraph.of_trees(POLYTOMIES),
}


def make(inputs: int) -> GgnnConvolution:
    torch.manual_seed(1)
    return GgnnConvolution(inputs, 4).double()


def states_for(graph: TreeGraph, channels: int) -> torch.Tensor:
    return torch.randn(graph.node_count, channels, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def lists(graph: TreeGraph) -> list[list[int]]:
    return [[int(u) for u in row if u >= 0] for row in graph.neighbors]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("inputs", [1, 4, 6])  # narrower than the state, of its width, wider
def test_ggnn_of_any_width_is_that_of_a_loop_over_nodes(inputs, graph):
    graph, layer = GRAPHS[graph], make(inputs)
    states = states_for(graph, inputs).requires_grad_()
    found, expected = layer(DenseStates(states), graph), NAIVE[GgnnConvolution](layer, states, lists(graph))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    variables = [states, *layer.parameters()]
    weights = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    ours = torch.autograd.grad(found, variables, weights, retain_graph=True)
    theirs = torch.autograd.grad(expected, variables, weights)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)
    for one, again in zip(ours, torch.autograd.grad(found, variables, weights), strict=True):
        assert torch.equal(one, again)
    names = [name for name, _ in layer.named_parameters()]

    def run(states, *values):
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (DenseStates(states), graph))

    assert torch.autograd.gradcheck(run, variables, eps=1e-6, atol=1e-6)


def test_what_ggnn_fills_up_with_zeros_moves_no_weight():
    graph, layer = GRAPHS["binary"], make(2)
    layer(DenseStates(states_for(graph, 2)), graph).square().sum().backward()
    for parameter in (layer.message.weight, layer.gru.weight_hh):
        assert (parameter.grad[:, :2] != 0).all()
        assert (parameter.grad[:, 2:] == 0).all()
