"""What holds for every graph convolution: one suite over the registry, so that a new one is covered by itself."""

import warnings
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from phloem.errors import BadArgument
from phloem.features.convolutions import (
    CONVOLUTIONS,
    EdgeConvolution,
    GcnConvolution,
    GgnnConvolution,
    GinConvolution,
    SageConvolution,
    build_convolution,
)
from phloem.features.layers import DenseStates, RawStates, TreeGraph, TreeSum, run
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.tree import Tree
from reference.node_loops import NAIVE

with warnings.catch_warnings():  # PyTorch Geometric's own imports meet what torch has deprecated
    warnings.simplefilter("ignore")
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import EdgeConv, GatedGraphConv, GCNConv, GINConv, SAGEConv, global_add_pool

VARIANTS = {
    **CONVOLUTIONS,
    **{f"sage {how}": partial(SageConvolution, aggregation=how) for how in ("sum", "max")},
    **{f"edge {how}": partial(EdgeConvolution, aggregation=how) for how in ("sum", "mean")},
    **{f"edge {how}, 2 layers": partial(EdgeConvolution, aggregation=how, layers=2) for how in ("mean", "max")},
    "gin, ε fixed": partial(GinConvolution, learn_epsilon=False),
}
INPUTS, OUTPUTS = 5, 7

POLYTOMIES = [
    Tree(np.array([5, 5, 5, 5, 5, -1], np.int32), 5),  # a star
    Tree(np.array([7, 5, 5, 6, 6, 7, 7, -1], np.int32), 5),
    Tree(np.array([5, 5, 6, 6, 6, 6, -1], np.int32), 5),
]


def binary_graph(taxa: int = 6, trees: int = 3) -> TreeGraph:
    return TreeGraph.of_topologies(random_topologies(taxa, trees, stream=RandomStream(taxa, "graph")))


GRAPHS = {"binary": binary_graph(), "polytomies": TreeGraph.of_trees(POLYTOMIES)}


def make(name: str, inputs: int = INPUTS, outputs: int = OUTPUTS, dtype: torch.dtype = torch.float64):
    torch.manual_seed(1)
    layer = VARIANTS[name](inputs, outputs).to(dtype)
    if getattr(layer, "epsilon", None) is not None:
        with torch.no_grad():
            layer.epsilon.fill_(0.3)
    return layer


def states_for(graph: TreeGraph, channels: int = INPUTS) -> torch.Tensor:
    return torch.randn(graph.node_count, channels, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def lists(graph: TreeGraph) -> list[list[int]]:
    return [[int(u) for u in row if u >= 0] for row in graph.neighbors]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", VARIANTS)
def test_the_result_is_that_of_a_loop_over_nodes(name, graph):
    layer, graph = make(name), GRAPHS[graph]
    states = states_for(graph).requires_grad_()
    found = layer(DenseStates(states), graph)
    assert found.shape == (graph.node_count, OUTPUTS)
    expected = NAIVE[type(layer)](layer, states, lists(graph))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    weights = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    variables = [states, *layer.parameters()]
    ours = torch.autograd.grad((found * weights).sum(), variables)
    theirs = torch.autograd.grad((expected * weights).sum(), variables)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", VARIANTS)
def test_gradients_by_finite_differences(name, graph):
    layer, graph = make(name, 3, 4), GRAPHS[graph]
    names = [parameter for parameter, _ in layer.named_parameters()]

    def run(states, *values):
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (DenseStates(states), graph))

    inputs = [states_for(graph, 3).requires_grad_(), *(p.detach().clone().requires_grad_() for p in layer.parameters())]
    assert torch.autograd.gradcheck(run, inputs, eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", VARIANTS)
def test_renumbering_the_nodes_renumbers_the_result(name):
    layer, graph = make(name), GRAPHS["polytomies"]
    states = states_for(graph)
    order = np.random.default_rng(4).permutation(graph.node_count)  # node i becomes order[i]
    table = np.full_like(graph.neighbors, -1)
    table[order] = np.where(graph.neighbors < 0, -1, order[graph.neighbors])
    renumbered = TreeGraph(table, order[graph.branches].astype(np.int32), graph.tree_starts)
    moved = torch.empty_like(states)
    moved[order] = states
    expected = layer(DenseStates(states), graph)
    torch.testing.assert_close(layer(DenseStates(moved), renumbered)[order], expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", VARIANTS)
def test_wider_padding_and_the_order_of_neighbours_change_nothing(name):
    layer, graph = make(name), GRAPHS["binary"]
    states = states_for(graph)
    wide = np.full((graph.node_count, 6), -1, np.int32)
    for node, around in enumerate(lists(graph)):
        wide[node, : len(around)] = around[::-1]
    expected = layer(DenseStates(states), graph)
    found = layer(DenseStates(states), TreeGraph(wide, graph.branches, graph.tree_starts))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


# GGNN's raw features are the state itself and keep their columns: there are none of the first layer's to permute.
@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "ggnn"])
def test_permuted_taxa_and_permuted_columns_give_permuted_features(name):
    taxa = 6
    topologies = random_topologies(taxa, 1, stream=RandomStream(8, "trees"))
    order = np.random.default_rng(1).permutation(taxa).astype(np.int32)
    renamed, _ = topologies.with_leaves(order)
    layer = make(name, taxa)
    permuted = make(name, taxa)
    with torch.no_grad():
        for (_, parameter), (_, other) in zip(layer.named_parameters(), permuted.named_parameters(), strict=True):
            if parameter.ndim == 2 and parameter.shape[1] == taxa:
                other[:, order] = parameter
    one = layer(RawStates(topologies, torch.float64), TreeGraph.of_topologies(topologies))
    other = permuted(RawStates(renamed, torch.float64), TreeGraph.of_topologies(renamed))
    torch.testing.assert_close(other[order], one[:taxa], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(other[taxa:].sort(0).values, one[taxa:].sort(0).values, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_batch_gives_what_its_trees_give_one_by_one(name):
    layer = make(name, 9)
    topologies = random_topologies(9, 4, stream=RandomStream(8, "trees"))
    whole = layer(RawStates(topologies, torch.float64), TreeGraph.of_topologies(topologies))
    single = [layer(RawStates(tree, torch.float64), TreeGraph.of_topologies(tree)) for tree in topologies]
    torch.testing.assert_close(whole, torch.cat(single), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", VARIANTS)
def test_single_precision_agrees_with_double(name):
    graph = GRAPHS["binary"]
    states = states_for(graph)
    double, single = make(name), make(name, dtype=torch.float32)
    found = single(DenseStates(states.float()), graph)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), double(DenseStates(states), graph), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("graph", GRAPHS)
def test_edges_and_batches_are_those_of_pytorch_geometric(graph):
    graph = GRAPHS[graph]
    ends = torch.from_numpy(graph.branches.astype(np.int64)).T
    both = torch.cat([ends, ends.flip(0)], dim=1)
    assert graph.edge_index.dtype == graph.batch.dtype == torch.int64
    assert sorted(map(tuple, graph.edge_index.T.tolist())) == sorted(map(tuple, both.T.tolist()))
    starts = graph.tree_starts.tolist()
    single = [
        Data(edge_index=both[:, (both[0] >= first) & (both[0] < last)] - first, num_nodes=last - first)
        for first, last in pairwise(starts)
    ]
    joined = Batch.from_data_list(single)
    assert torch.equal(joined.batch, graph.batch)
    assert sorted(map(tuple, joined.edge_index.T.tolist())) == sorted(map(tuple, both.T.tolist()))
    states = states_for(graph)
    torch.testing.assert_close(global_add_pool(states, graph.batch), run([TreeSum()], DenseStates(states), graph))


@pytest.mark.parametrize("graph", GRAPHS)
def test_pytorch_geometric_agrees(graph):
    graph = GRAPHS[graph]
    states, edges = states_for(graph), graph.edge_index

    gcn, other = make("gcn"), GCNConv(INPUTS, OUTPUTS).double()
    other.load_state_dict({"bias": gcn.linear.bias, "lin.weight": gcn.linear.weight})
    torch.testing.assert_close(gcn(DenseStates(states), graph), F.elu(other(states, edges)))

    gin = make("gin")
    other = GINConv(gin.linear, eps=0.3, train_eps=True).double()
    torch.testing.assert_close(gin(DenseStates(states), graph), F.elu(other(states, edges)))

    for aggregation in ("mean", "sum", "max"):
        sage = make("sage" if aggregation == "mean" else f"sage {aggregation}")
        own, neighbor = sage.weight.chunk(2)
        other = SAGEConv(INPUTS, OUTPUTS, aggr=aggregation).double()
        other.load_state_dict({"lin_l.weight": neighbor, "lin_l.bias": sage.bias, "lin_r.weight": own})
        torch.testing.assert_close(sage(DenseStates(states), graph), F.elu(other(states, edges)))

    ggnn, other = make("ggnn"), GatedGraphConv(OUTPUTS, num_layers=1).double()
    with torch.no_grad():
        other.weight[0] = ggnn.message.weight.T
    other.rnn.load_state_dict(ggnn.gru.state_dict())
    torch.testing.assert_close(ggnn(DenseStates(states), graph), other(states, edges))

    for aggregation in ("max", "sum", "mean"):
        edge = make("edge" if aggregation == "max" else f"edge {aggregation}")
        inner = torch.nn.Linear(2 * INPUTS, OUTPUTS).double()
        other = EdgeConv(torch.nn.Sequential(inner, torch.nn.ELU()), aggr=aggregation)
        inner.load_state_dict({"weight": torch.cat(edge.weight.chunk(2), dim=1), "bias": edge.bias})
        torch.testing.assert_close(edge(DenseStates(states), graph), F.elu(other(states, edges)))


def test_a_node_may_have_more_neighbours_than_a_byte_counts():
    star = TreeGraph.of_trees([Tree(np.array([300] * 300 + [-1], np.int32), 300)])
    states = states_for(star, 3)
    states[256:] *= 5  # so that maxima are there
    states.requires_grad_()
    layer = make("edge", 3, 4)
    found = layer(DenseStates(states), star)
    expected = NAIVE[EdgeConvolution](layer, states, lists(star))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    (one,) = torch.autograd.grad(found[-1].sum(), states)
    (other,) = torch.autograd.grad(expected[-1].sum(), states)
    assert other[256:300].abs().max() > 0
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_gradients_come_twice_the_same_and_frozen_parameters_have_none():
    topologies = random_topologies(8, 3, stream=RandomStream(8, "trees"))
    layer = make("edge", 8)
    layer.bias.requires_grad_(False)
    result = layer(RawStates(topologies, torch.float64), TreeGraph.of_topologies(topologies)).square().sum()
    (first,) = torch.autograd.grad(result, [layer.weight], retain_graph=True)
    (second,) = torch.autograd.grad(result, [layer.weight], retain_graph=True)
    assert torch.equal(first, second)
    result.backward()
    assert layer.bias.grad is None


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_not_a_number_is_seen_in_the_result(name):
    graph = GRAPHS["binary"]
    for place in (0, 7):  # a leaf, an interior node
        states = states_for(graph)
        states[place] = torch.nan
        assert torch.isnan(make(name)(DenseStates(states), graph)).any(dim=1).sum() >= 2


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_states_that_do_not_fit_are_refused(name):
    graph, layer = GRAPHS["binary"], make(name)
    if layer.layers() is not None:
        with pytest.raises(BadArgument, match=r"states of 3 nodes .* graph of 30"):
            layer(DenseStates(states_for(graph)[:3]), graph)
        with pytest.raises(BadArgument, match="same dtype"):
            layer(DenseStates(states_for(graph).float()), graph)


def test_changes_in_place_before_the_way_back_are_noticed():
    graph, layer = GRAPHS["binary"], make("edge")
    result = layer(DenseStates(states_for(graph)), graph)
    result.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
    result = layer(DenseStates(states_for(graph)), graph).sum()
    with torch.no_grad():
        layer.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


def test_gins_epsilon_begins_at_zero():
    assert GinConvolution(3, 3).epsilon.item() == 0


def test_ggnn_projects_states_that_are_wider_than_it():
    graph = GRAPHS["binary"]
    narrow = GgnnConvolution(INPUTS, 3).double()
    assert narrow(DenseStates(states_for(graph)), graph).shape == (graph.node_count, 3)
    assert narrow.projection is not None
    assert GgnnConvolution(3, 3).projection is None


def test_options_change_the_result():
    graph = GRAPHS["binary"]
    states = DenseStates(states_for(graph))
    results = {name: make(name)(states, graph) for name in VARIANTS}
    names = list(results)
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            assert not torch.allclose(results[one], results[other]), (one, other)


def test_unknown_names_and_options_list_the_choices():
    with pytest.raises(BadArgument, match="gcn, gin, sage, ggnn, edge"):
        build_convolution("transformer", 3, 3)
    with pytest.raises(BadArgument, match="sum, mean or max"):
        EdgeConvolution(3, 3, aggregation="median")
    with pytest.raises(BadArgument, match="sum, mean or max"):
        SageConvolution(3, 3, aggregation="median")
    with pytest.raises(BadArgument, match="3 layers"):
        GinConvolution(3, 3, layers=3)
    with pytest.raises(BadArgument, match="0 layers"):
        EdgeConvolution(3, 3, layers=0)


def test_weights_begin_within_the_bounds_of_linear_layers():
    torch.manual_seed(0)
    for layer, fan_in in ((EdgeConvolution(50, 40), 100), (SageConvolution(50, 40), 50), (GcnConvolution(50, 40), 50)):
        for parameter in layer.parameters():
            assert parameter.abs().max() <= fan_in**-0.5
            assert parameter.abs().max() > 0.9 * fan_in**-0.5
