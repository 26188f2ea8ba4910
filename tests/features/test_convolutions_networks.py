"""Learnable features as a whole: raw features, convolutions, node MLP, read-outs."""

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from phloem.errors import BadArgument
from phloem.features.convolutions import (
    CONVOLUTIONS,
    BranchReadout,
    Convolution,
    EdgeConvolution,
    GcnConvolution,
    NodeFeatures,
    TreeReadout,
)
from phloem.features.layers import BranchMax, DenseStates, run
from phloem.features.raw import dirichlet_features
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree
from reference.node_loops import NAIVE

NAMES = [*CONVOLUTIONS, "mlp"]


def trees_of(topologies: TopologyBatch) -> list[Tree]:
    return [Tree(parent, topologies.taxon_count) for parent in topologies.parent]


def example(taxa: int = 7, count: int = 3) -> TopologyBatch:
    return random_topologies(taxa, count, stream=RandomStream(taxa, "learnable"))


def build(name: str, taxa: int = 7, **options) -> NodeFeatures:
    torch.manual_seed(3)
    return NodeFeatures(taxa, name, width=11, **options).double()


@pytest.mark.parametrize("name", NAMES)
def test_features_are_convolutions_and_an_mlp_on_raw_features(name):
    topologies, model = example(), build(name)
    found, graph = model.of_topologies(topologies)
    hidden = torch.from_numpy(dirichlet_features(topologies).reshape(-1, 7))
    neighbors = [[int(u) for u in row if u >= 0] for row in graph.neighbors]
    for layer in model.convolutions:
        hidden = NAIVE[type(layer)](layer, hidden, neighbors)
    expected = F.elu(model.second(F.elu(model.first(hidden))))
    assert len(model.convolutions) == (0 if name == "mlp" else 2)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_binary_trees_are_trees_of_any_degrees_too(name):
    topologies, model = example(), build(name)
    found, graph = model.of_topologies(topologies)
    other, other_graph = model.of_trees(trees_of(topologies))
    torch.testing.assert_close(found, other)
    np.testing.assert_array_equal(graph.branches, other_graph.branches)
    np.testing.assert_array_equal(graph.tree_starts, other_graph.tree_starts)


@pytest.mark.parametrize("name", NAMES)
def test_features_are_the_same_whether_raw_ones_are_formed_or_not(name):
    topologies, model = example(20), build(name, 20)
    states, graph = model.raw_states(topologies)
    outputs = []
    for given in (states, DenseStates(states.dense())):
        model.zero_grad()
        found = model(given, graph)
        found.square().sum().backward()
        outputs.append([found.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
    for one, other in zip(*outputs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def test_branch_features_are_the_maxima_of_the_ends():
    topologies, model = example(), build("edge")
    features, graph = model.of_topologies(topologies)
    expected = torch.maximum(features[graph.branches[:, 0]], features[graph.branches[:, 1]])
    torch.testing.assert_close(run([BranchMax()], DenseStates(features), graph), expected)
    torch.manual_seed(1)
    readout = BranchReadout(11, 2).double()
    numbers = readout(features, graph)
    assert numbers.shape == (3 * 11, 2)
    torch.testing.assert_close(numbers, readout.second(F.elu(readout.first(expected))))


@pytest.mark.parametrize("name", NAMES)
def test_one_number_a_tree_from_the_sum_over_its_nodes(name):
    trees = [
        Tree(np.array([5, 5, 5, 5, 5, -1], np.int32), 5),
        Tree(np.array([7, 5, 5, 6, 6, 7, 7, -1], np.int32), 5),
    ]
    model = build(name, 5)
    torch.manual_seed(2)
    readout = TreeReadout(11).double()
    features, graph = model.of_trees(trees)
    found = readout(features, graph)
    expected = []
    for first, last in zip(graph.tree_starts[:-1], graph.tree_starts[1:], strict=True):
        expected.append(readout.second(F.elu(readout.first(features[first:last].sum(0)))))
    torch.testing.assert_close(found, torch.cat(expected))
    alone = [readout(*model.of_trees([tree])) for tree in trees]
    torch.testing.assert_close(found, torch.cat(alone))
    found.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


UNEQUAL = [  # 7, 6 and 8 nodes
    Tree(np.array([5, 5, 6, 6, 6, 6, -1], np.int32), 5),
    Tree(np.array([5, 5, 5, 5, 5, -1], np.int32), 5),
    Tree(np.array([7, 5, 5, 6, 6, 7, 7, -1], np.int32), 5),
]


@pytest.mark.parametrize("name", NAMES)
def test_features_and_the_read_out_of_trees_are_one_chain(name):
    model, topologies = build(name), example()
    torch.manual_seed(2)
    readout = TreeReadout(11).double()
    parameters = [*model.parameters(), *readout.parameters()]
    states, graph = model.raw_states(topologies)
    layers, start = model.pending_layers(states, graph)
    found = run([*layers, *readout.layers()], start, graph)
    assert found.shape == (3, 1)
    expected = readout(*model.of_topologies(topologies))
    torch.testing.assert_close(found[:, 0], expected)
    ours = torch.autograd.grad(found[:, 0].square().sum(), parameters)
    theirs = torch.autograd.grad(expected.square().sum(), parameters)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_depth_and_width_and_a_convolution_of_ones_own():
    assert len(build("gcn", depth=3).convolutions) == 3
    assert len(build("gcn", depth=0).convolutions) == 0
    own = NodeFeatures(6, GcnConvolution, width=4)
    assert isinstance(own.convolutions[0], GcnConvolution)
    assert own.of_topologies(example(6, 2))[0].shape == (20, 4)
    narrow = NodeFeatures(30, "ggnn", width=8)
    assert narrow.of_topologies(example(30, 1))[0].shape == (58, 8)


def test_ones_own_convolution_between_fused_ones_has_the_right_gradients():
    class Own(Convolution):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.linear = torch.nn.Linear(inputs, outputs)

        def forward(self, states, graph):
            around = graph.gather(states.linear(self.linear.weight)).masked_fill(graph.padding[:, :, None], 0)
            return self.linear(states.dense()) + around.sum(1)

    kinds = itertools.cycle([EdgeConvolution, Own, GcnConvolution, Own])
    topologies = example(6, 2)
    torch.manual_seed(1)
    model = NodeFeatures(6, lambda inputs, outputs: next(kinds)(inputs, outputs), depth=4, width=5).double()
    names = [name for name, _ in model.named_parameters()]
    states, graph = model.raw_states(topologies)

    def features(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (states, graph))

    values = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    assert torch.autograd.gradcheck(features, values, eps=1e-6, atol=1e-6)
    hidden = states
    for layer in model.convolutions:
        hidden = DenseStates(layer(hidden, graph))
    expected = F.elu(model.second(F.elu(model.first(hidden.dense()))))
    torch.testing.assert_close(model(states, graph), expected)


def test_the_defaults_are_the_papers():
    model = NodeFeatures(9)
    assert [type(layer) for layer in model.convolutions] == [EdgeConvolution, EdgeConvolution]
    assert model.width == 100


def test_trees_of_different_sizes_are_summed_apart():
    model, readout = build("gcn", 5), TreeReadout(11).double()
    alone = [readout(*model.of_trees([tree])) for tree in UNEQUAL]
    torch.testing.assert_close(readout(*model.of_trees(UNEQUAL)), torch.cat(alone))
    assert readout(*model.of_topologies(example(5, 1)[0:0])).shape == (0,)


def test_bad_requests_are_refused():
    with pytest.raises(BadArgument, match=r"transformer.*gcn, gin, sage, ggnn, edge.*mlp"):
        NodeFeatures(5, "transformer")
    with pytest.raises(BadArgument, match="depth -1"):
        NodeFeatures(5, depth=-1)
    with pytest.raises(BadArgument, match="at least 1"):
        NodeFeatures(5, width=0)
    with pytest.raises(BadArgument, match=r"trees on 6 taxa .* 5 taxa"):
        NodeFeatures(5).of_topologies(example(6))
    with pytest.raises(BadArgument, match=r"trees on 5 taxa .* 6 taxa"):
        NodeFeatures(6).of_trees([Tree(np.array([5, 5, 5, 5, 5, -1], np.int32), 5)])
    with pytest.raises(BadArgument, match="no trees given"):
        NodeFeatures(6).of_trees([])
    with pytest.raises(BadArgument, match="for 0 taxa"):
        NodeFeatures(0)
    with pytest.raises(BadArgument, match="name or class"):
        NodeFeatures(6, GcnConvolution(6, 100))
    with pytest.raises(BadArgument, match=r"Linear is not a phloem\.features\.Convolution"):
        NodeFeatures(6, torch.nn.Linear)
