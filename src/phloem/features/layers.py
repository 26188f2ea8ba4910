"""The layers of graph networks on trees, with gradients written by hand.

`TreeGraph` joins the trees of a batch, `NodeStates` are what a layer reads, a `Layer` is one fused map of them, and
`run` applies a chain of layers as a single differentiable function.

`SumMessages` and `MaxMessages` are a matrix product on nodes, then one kernel over the neighbour lists that also adds
the bias and applies ELU: no gather to edges, no scatter, no mask. A chain of layers is one node of torch's graph, whose
bookkeeping would otherwise take as long as the kernels. Everything is differentiable once.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from phloem.arrays import FloatArray, IntArray, RealArray
from phloem.autograd import Operation
from phloem.errors import BadArgument
from phloem.features.raw import tree_features
from phloem.kernels.features import layers as kernels
from phloem.kernels.features.dirichlet import project_tips, project_tips_backward
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree

Scaling = Literal["sum", "mean", "symmetric"]
Saved = tuple[Any, ...]  # what a layer keeps from its forward pass for its backward pass


@dataclass(frozen=True, eq=False)
class TreeGraph:
    """All nodes of a batch of trees, tree by tree, with their neighbours and the branches between them.

    Neighbours are padded with -1 after the last. Branches are in tree order, then in the order of their lower nodes.
    """

    neighbors: IntArray  # (nodes, width)
    branches: IntArray  # (branches, 2)  lower and upper end
    tree_starts: IntArray  # (trees + 1,)  where each tree's nodes begin

    def __post_init__(self) -> None:
        for array in (self.neighbors, self.branches, self.tree_starts):
            if array.dtype != np.int32 or not array.flags.c_contiguous:
                raise BadArgument("graph: the arrays must be contiguous and of 32-bit integers.")
        nodes, slots = np.nonzero(self.neighbors >= 0)
        pairs = np.stack([nodes, self.neighbors[nodes, slots]], axis=1)
        mutual = np.array_equal(np.unique(pairs, axis=0), np.unique(pairs[:, ::-1], axis=0))
        gaps = (np.diff((self.neighbors < 0).astype(np.int8), axis=1) < 0).any()
        if not mutual or gaps or (self.degrees < 1).any() or pairs.max(initial=0) >= len(self.neighbors):
            raise BadArgument(
                "graph: neighbours must be mutual, every node needs at least one, and padding comes after the last."
            )
        if self.branches.size and not 0 <= self.branches.min() <= self.branches.max() < len(self.neighbors):
            raise BadArgument("graph: branches must end at nodes of the graph.")

    @classmethod
    def of_topologies(cls, topologies: TopologyBatch) -> "TreeGraph":
        """Binary trees: (batch · (2n-2)) nodes of degree 1 or 3."""
        batch, nodes = topologies.parent.shape
        graph = object.__new__(cls)  # valid by construction, and built in every training step
        neighbors, branches = kernels.join_trees(topologies.neighbors)
        object.__setattr__(graph, "neighbors", neighbors)
        object.__setattr__(graph, "branches", branches)
        object.__setattr__(graph, "tree_starts", np.arange(0, (batch + 1) * nodes, nodes, dtype=np.int32))
        return graph

    @classmethod
    def of_trees(cls, trees: Sequence[Tree]) -> "TreeGraph":
        """Trees of any degrees."""
        if not trees:
            raise BadArgument("graph: no trees given.")
        starts = np.concatenate([[0], np.cumsum([len(tree.parent) for tree in trees])]).astype(np.int32)
        lower = np.concatenate(
            [np.arange(len(tree.parent) - 1) + start for tree, start in zip(trees, starts[:-1], strict=True)]
        )
        upper = np.concatenate([tree.parent[:-1] + start for tree, start in zip(trees, starts[:-1], strict=True)])
        branches = np.stack([lower, upper], axis=1).astype(np.int32)
        ends = np.concatenate([branches, branches[:, ::-1]])
        ends = ends[np.argsort(ends[:, 0], kind="stable")]
        degrees = np.bincount(ends[:, 0], minlength=starts[-1])
        firsts = np.concatenate([[0], np.cumsum(degrees)[:-1]])
        neighbors = np.full((starts[-1], degrees.max()), -1, np.int32)
        neighbors[ends[:, 0], np.arange(len(ends)) - firsts[ends[:, 0]]] = ends[:, 1]
        return cls(neighbors, branches, starts)

    @property
    def node_count(self) -> int:
        return len(self.neighbors)

    @cached_property
    def degrees(self) -> IntArray:
        """Number of neighbours of each node, (nodes,)."""
        counts: IntArray = (self.neighbors >= 0).sum(axis=1, dtype=np.int32)
        return counts

    @cached_property
    def mean_scale(self) -> FloatArray:
        """1 / d for every node's number of neighbours d, (nodes,)."""
        return 1 / self.degrees

    @cached_property
    def symmetric_scale(self) -> FloatArray:
        """1 / √(1 + d) for every node's number of neighbours d, (nodes,)."""
        return 1 / np.sqrt(1.0 + self.degrees)

    @cached_property
    def neighbor_index(self) -> Tensor:
        """Neighbours as torch indices, (nodes, width), with node 0 in place of padding."""
        return torch.from_numpy(np.maximum(self.neighbors, 0).astype(np.int64))

    @cached_property
    def padding(self) -> Tensor:
        """True where there is no neighbour, (nodes, width)."""
        return torch.from_numpy(self.neighbors < 0)

    @cached_property
    def edge_index(self) -> Tensor:
        """Both directions of every branch, (2, 2 · branches), sender above receiver, as PyTorch Geometric takes them.

        Edges come in the order of their receivers.
        """
        receivers, slots = np.nonzero(self.neighbors >= 0)
        return torch.from_numpy(np.stack([self.neighbors[receivers, slots], receivers]).astype(np.int64))

    @cached_property
    def batch(self) -> Tensor:
        """The number of each node's tree, (nodes,), as PyTorch Geometric pools by."""
        sizes = np.diff(self.tree_starts)
        return torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))

    def gather(self, states: Tensor) -> Tensor:
        """The states of each node's neighbours, (nodes, width, channels); values at padding are meaningless."""
        if len(states) != self.node_count:
            raise BadArgument(f"states of {len(states)} nodes for a graph of {self.node_count} nodes.")
        return states[self.neighbor_index]


class NodeStates(ABC):
    """The states h of all nodes of a graph, (nodes, channels), known as a matrix or only through its products W·h.

    `source` is the tensor that receives their gradient, or None for states that depend on no parameter.
    """

    source: Tensor | None
    node_count: int
    dtype: torch.dtype

    @abstractmethod
    def product(self, weight: Tensor) -> Tensor:
        """W·h for every node, (nodes, outputs), from weight (outputs, channels); not recorded by autograd."""

    @abstractmethod
    def weight_gradient(self, gradient: Tensor) -> Tensor:
        """The weight's gradient, (outputs, channels), from the product's, (nodes, outputs)."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The states as a matrix, (nodes, channels); do not write to it."""

    def linear(self, weight: Tensor) -> Tensor:
        """W·h for every node, (nodes, outputs), from weight (outputs, channels), with gradients."""
        if weight.dtype != self.dtype:
            raise BadArgument(f"states in {self.dtype}: the weight must have the same dtype, not {weight.dtype}.")
        result: Tensor = _Linear(self)(self.source, weight)
        return result

    def with_source(self, source: Tensor | None) -> "NodeStates":
        """The same states, with a source of the same values that no transform has wrapped."""
        assert source is None
        return self


@final
class DenseStates(NodeStates):
    """States held as a matrix."""

    def __init__(self, states: Tensor) -> None:
        if states.ndim != 2:
            raise BadArgument(f"states of shape {tuple(states.shape)}: give them as (nodes, channels).")
        self.source = states
        self.node_count = states.shape[0]
        self.dtype = states.dtype

    def product(self, weight: Tensor) -> Tensor:
        """W·h for every node."""
        states = self.dense()
        _check_channels(weight, states.shape[1])
        return states @ weight.T

    def weight_gradient(self, gradient: Tensor) -> Tensor:
        """The weight's gradient."""
        return gradient.T @ self.dense()

    def dense(self) -> Tensor:
        """The states as a matrix."""
        assert self.source is not None
        return self.source

    def with_source(self, source: Tensor | None) -> NodeStates:
        """The same states, with a source of the same values that no transform has wrapped."""
        assert source is not None
        return self if source is self.source else DenseStates(source)


@final
class RawStates(NodeStates):
    """The raw features of topologies, one channel per taxon: every interior node is the mean of its neighbours.

    W·h solves the same equations with W's columns at the tips: two passes over each tree, which take less time than
    the product with its features, (2n-2)·n values, and these are not formed unless a layer asks for them.
    """

    source = None

    def __init__(self, topologies: TopologyBatch, dtype: torch.dtype) -> None:
        if dtype not in (torch.float32, torch.float64):
            raise BadArgument(f"raw features: {dtype}. Use single or double precision.")
        self._topologies = topologies
        self.node_count = topologies.parent.size
        self.dtype = dtype

    def product(self, weight: Tensor) -> Tensor:
        """W·h for every node."""
        _check_channels(weight, self._topologies.taxon_count)
        rows = project_tips(self._topologies.neighbors, weight.T.contiguous().numpy())
        return torch.from_numpy(rows.reshape(-1, len(weight)))

    def weight_gradient(self, gradient: Tensor) -> Tensor:
        """The weight's gradient."""
        rows = gradient.contiguous().numpy().reshape(*self._topologies.parent.shape, -1)
        return torch.from_numpy(project_tips_backward(self._topologies.neighbors, rows)).T

    def dense(self) -> Tensor:
        """The features as a matrix, (nodes, taxa)."""
        taxa = self._topologies.taxon_count
        one_hot = np.eye(taxa, dtype=np.float32 if self.dtype == torch.float32 else np.float64)
        return torch.from_numpy(project_tips(self._topologies.neighbors, one_hot).reshape(-1, taxa))


def _check_channels(weight: Tensor, channels: int) -> None:
    if weight.shape[1] != channels:
        raise BadArgument(f"states of {channels} channels for a layer of {weight.shape[1]}. Give as many.")


def tree_states(trees: Sequence[Tree], dtype: torch.dtype) -> DenseStates:
    """The raw features of trees of any degrees on the same taxa."""
    return DenseStates(torch.from_numpy(np.concatenate([tree_features(tree) for tree in trees])).to(dtype))


@final
class _Linear(Operation):
    """W·h for every node, of the states' source and W."""

    shares_memory = True

    def __init__(self, states: NodeStates) -> None:
        self.states = states

    def values(self, _wanted: tuple[bool, ...], source: Tensor | None, weight: Tensor) -> Tensor:
        """The products, (nodes, outputs)."""
        self.states, self.weight = self.states.with_source(source), weight
        return self.states.product(weight)

    def gradients(self, wanted: tuple[bool, ...], gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the source and of the weight."""
        return gradient @ self.weight if wanted[0] else None, self.states.weight_gradient(gradient)


class Layer(ABC):
    """A differentiable map of states with its parameters, (nodes, inputs) → (nodes, outputs).

    The last layers of a chain may return rows for branches or trees instead of nodes.
    """

    parameters: tuple[Tensor, ...]

    def with_parameters(self, parameters: tuple[Tensor, ...]) -> "Layer":
        """The same layer with other parameters."""
        layer = copy(self)
        layer.parameters = parameters
        return layer

    @abstractmethod
    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The new states, and what the backward pass needs."""

    @abstractmethod
    def backward(
        self, gradient: Tensor, saved: Saved, states: NodeStates, graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """From the new states' gradient to the old states', if `wanted`, and to the parameters'."""


def run(layers: Sequence[Layer], states: NodeStates, graph: TreeGraph) -> Tensor:
    """The states after all layers, with gradients."""
    operation, inputs = chain(layers, states, graph)
    result: Tensor = operation(*inputs)
    return result


def chain(layers: Sequence[Layer], states: NodeStates, graph: TreeGraph) -> tuple[Operation, tuple[Tensor | None, ...]]:
    """The operation that runs all layers, and its inputs: what receives the first states' gradient, and parameters."""
    parameters = [parameter for layer in layers for parameter in layer.parameters]
    if states.node_count != graph.node_count:
        raise BadArgument(f"states of {states.node_count} nodes for a graph of {graph.node_count} nodes.")
    if any(parameter.dtype != states.dtype for parameter in parameters):
        raise BadArgument(f"states in {states.dtype}: the network's parameters must have the same dtype.")
    return _Chain(layers, states, graph), (states.source, *parameters)


@final
class _Chain(Operation):
    """The states after all layers, of the first states' source and all parameters."""

    shares_memory = True

    def __init__(self, layers: Sequence[Layer], states: NodeStates, graph: TreeGraph) -> None:
        self.layers = layers
        self.states = states
        self.graph = graph

    def values(self, _wanted: tuple[bool, ...], source: Tensor | None, *parameters: Tensor) -> Tensor:
        """The last states, with a tape of what every layer read and kept."""
        states = self.states.with_source(source)
        self.tape = []
        for layer in _with_parameters(self.layers, parameters):
            outputs, saved = layer.forward(states, self.graph)
            self.tape.append((layer, saved, states))
            states = DenseStates(outputs)
        return outputs

    def gradients(self, wanted: tuple[bool, ...], gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the source and of all parameters."""
        collected: tuple[Tensor, ...] = ()
        flowing: Tensor | None = gradient
        tape = self.tape
        first = next((place for place, (layer, _, _) in enumerate(tape) if layer.parameters), len(tape))
        for place in range(len(tape) - 1, -1, -1):
            if flowing is None:  # no earlier layer has parameters
                break
            layer, saved, states = tape[place]
            is_needed = wanted[0] or place > first
            flowing, gradients = layer.backward(flowing.contiguous(), saved, states, self.graph, is_needed)
            collected = gradients + collected
        return flowing if wanted[0] else None, *collected


def _with_parameters(layers: Sequence[Layer], parameters: Sequence[Tensor]) -> Sequence[Layer]:
    """The layers with plain parameters, where a transform has wrapped their own."""
    own = [parameter for layer in layers for parameter in layer.parameters]
    if all(one is other for one, other in zip(own, parameters, strict=True)):
        return layers
    given = iter(parameters)
    return [layer.with_parameters(tuple(next(given) for _ in layer.parameters)) for layer in layers]


def _elu_backward(gradient: Tensor, outputs: RealArray) -> tuple[RealArray, Tensor]:
    """The gradient of the ELU's argument, (nodes, channels), and its sum over nodes."""
    inner, sums = np.empty_like(outputs), np.empty(outputs.shape[1], outputs.dtype)
    kernels.elu_backward(gradient.numpy(), outputs, inner, sums)
    return inner, torch.from_numpy(sums)


def _array(tensor: Tensor) -> RealArray:
    return tensor.detach().contiguous().numpy()


@final
class DenseElu(Layer):
    """ELU(W·h + b)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.parameters = weight, bias

    def forward(self, states: NodeStates, _graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The new states, and what the backward pass needs."""
        weight, bias = self.parameters
        outputs = states.product(weight)
        array = outputs.numpy()
        kernels.bias_elu(array, _array(bias))
        return outputs, (array,)

    def backward(
        self, gradient: Tensor, saved: Saved, states: NodeStates, _graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients of the old states and of the parameters."""
        inner, bias_gradient = _elu_backward(gradient, *saved)
        passed = torch.from_numpy(inner)
        before = passed @ self.parameters[0] if wanted else None
        return before, (states.weight_gradient(passed), bias_gradient)


@final
class Dense(Layer):
    """W·h + b."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.parameters = weight, bias

    def forward(self, states: NodeStates, _graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The new states, and what the backward pass needs."""
        weight, bias = self.parameters
        return states.product(weight).add_(bias), ()

    def backward(
        self, gradient: Tensor, _saved: Saved, states: NodeStates, _graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients of the old states and of the parameters."""
        before = gradient @ self.parameters[0] if wanted else None
        return before, (states.weight_gradient(gradient), gradient.sum(0))


@final
class SumMessages(Layer):
    """ELU((1 + ε)·W₁·h_v + Σ_u W₂·h_u + b) over v's neighbours u; ε is one parameter, or absent.

    weight is W₁ above W₂, (2·outputs, inputs), or (outputs, inputs) if they are equal. "mean" divides the sum by the
    number of neighbours d_v; "symmetric" divides own and other terms by √((1 + d_u)·(1 + d_v)).
    """

    def __init__(self, weight: Tensor, bias: Tensor, scaling: Scaling, epsilon: Tensor | None = None) -> None:
        self.parameters = (weight, bias) if epsilon is None else (weight, bias, epsilon)
        self.scaling = scaling

    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The new states, and what the backward pass needs."""
        weight, bias, *epsilon = self.parameters
        values, added = states.product(weight).numpy(), _array(bias)
        scales = _scales(graph, self.scaling, 1 + epsilon[0].item() if epsilon else 1, values.dtype)
        outputs = np.empty((len(values), len(added)), values.dtype)
        kernels.sum_messages(values, graph.neighbors, scales.own, scales.target, scales.source, added, outputs)
        return torch.from_numpy(outputs), (outputs, scales, values if epsilon else None)

    def backward(
        self, gradient: Tensor, saved: Saved, states: NodeStates, graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients of the old states and of the parameters."""
        outputs, scales, values = saved
        weight, _, *epsilon = self.parameters
        inner, bias_gradient = _elu_backward(gradient, outputs)
        by_value = np.empty((len(inner), len(weight)), inner.dtype)
        kernels.sum_messages_backward(inner, graph.neighbors, scales.own, scales.target, scales.source, by_value)
        values_gradient = torch.from_numpy(by_value)
        before = values_gradient @ weight if wanted else None
        gradients = states.weight_gradient(values_gradient), bias_gradient
        if epsilon:
            by_epsilon = np.vdot(inner, values[:, : inner.shape[1]])
            return before, (*gradients, torch.full_like(epsilon[0], float(by_epsilon)))
        return before, gradients


class _Scales(NamedTuple):
    """Factors of a node's own values, of its sum over neighbours, and of what it sends, (nodes,) each."""

    own: RealArray
    target: RealArray
    source: RealArray


def _scales(graph: TreeGraph, scaling: Scaling, own: float, kind: Any) -> _Scales:
    if scaling == "symmetric":
        root = graph.symmetric_scale.astype(kind)
        return _Scales(root * root, root, root)
    ones = np.ones(graph.node_count, kind)
    target = graph.mean_scale.astype(kind) if scaling == "mean" else ones
    return _Scales(ones if own == 1 else kind.type(own) * ones, target, ones)


@final
class MaxMessages(Layer):
    """ELU(max_u ELU(A·h_v + B·(h_u - h_v) + b)) over v's neighbours u, with weight A above B, (2·outputs, inputs)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.parameters = weight, bias

    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The new states, and what the backward pass needs."""
        weight, bias = map(_array, self.parameters)
        by_node = weight.copy()  # A·h_v + B·(h_u - h_v) = (A - B)·h_v + B·h_u
        by_node[: len(bias)] -= weight[len(bias) :]
        node_weight = torch.from_numpy(by_node)
        values = states.product(node_weight).numpy()
        outputs = np.empty((len(values), len(bias)), values.dtype)
        slots = np.empty(outputs.shape, np.uint8 if graph.neighbors.shape[1] < 256 else np.int32)
        kernels.max_messages(values, graph.neighbors, bias, outputs, slots)
        return torch.from_numpy(outputs), (node_weight, values, slots)

    def backward(
        self, gradient: Tensor, saved: Saved, states: NodeStates, graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients of the old states and of the parameters."""
        node_weight, values, slots = saved
        count = slots.shape[1]
        by_value, by_bias = np.empty_like(values), np.empty(count, values.dtype)
        kernels.max_messages_backward(gradient.numpy(), graph.neighbors, values, slots, by_value, by_bias)
        values_gradient = torch.from_numpy(by_value)
        weight_gradient = states.weight_gradient(values_gradient)
        by_weight = weight_gradient.numpy()
        by_weight[count:] -= by_weight[:count]
        before = values_gradient @ node_weight if wanted else None
        return before, (weight_gradient, torch.from_numpy(by_bias))


@final
class GatedMessages(Layer):
    """GRU(input Σ_u W·h_u, state h_v) over v's neighbours u; the formulas are in `kernels.features.layers.gru`.

    The parameters are W and those of torch's GRUCell. States narrower than the result are padded with zeros; weight
    columns that would meet only zeros are left out of all products.
    """

    def __init__(self, message: Tensor, cell: torch.nn.GRUCell) -> None:
        self.parameters = message, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh

    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The new states, and what the backward pass needs."""
        message, input_weight, recurrent_weight, input_bias, recurrent_bias = self.parameters
        narrow = states.dense().contiguous()
        channels, inputs = len(message), narrow.shape[1]
        if inputs > channels:
            raise BadArgument(f"states of {inputs} channels for a layer of {channels}. Give as many, or fewer.")
        both = 2 * channels  # reset and update, where input and state are added up
        old, sums = _widened(narrow, channels), _neighbor_sums(narrow, graph)
        by_sums = input_weight @ message[:, :inputs]  # W_ih·Σ W·h_u = (W_ih·W)·Σ h_u
        by_own = recurrent_weight[:, :inputs]
        gates = narrow.new_empty(len(narrow), 4 * channels)
        torch.mm(sums, by_sums.T, out=gates[:, : 3 * channels])
        gates[:, :both].addmm_(narrow, by_own[:both].T)
        torch.mm(narrow, by_own[both:].T, out=gates[:, 3 * channels :])
        bias = torch.cat([input_bias, recurrent_bias[both:]])
        bias[:both] += recurrent_bias[:both]
        outputs = torch.empty_like(old)
        kernels.gru(gates.numpy(), old.numpy(), bias.numpy(), outputs.numpy())
        return outputs, (narrow, old, sums, by_sums, gates)

    def backward(
        self, gradient: Tensor, saved: Saved, _states: NodeStates, graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients of the old states and of the parameters."""
        message, input_weight, recurrent_weight, *_ = self.parameters
        narrow, old, sums, by_sums, gates = saved
        channels, inputs = len(message), narrow.shape[1]
        opened, passed, bias = torch.empty_like(gates), torch.empty_like(old), gates.new_empty(4 * channels)
        kernels.gru_backward(gradient.numpy(), old.numpy(), gates.numpy(), opened.numpy(), passed.numpy(), bias.numpy())
        both = 2 * channels
        from_sums, from_both, from_new = opened[:, : 3 * channels], opened[:, :both], opened[:, 3 * channels :]
        before = None
        if wanted:
            by_own = recurrent_weight[:, :inputs]
            before = _neighbor_sums(from_sums @ by_sums, graph).add_(passed[:, :inputs])
            before.addmm_(from_both, by_own[:both]).addmm_(from_new, by_own[both:])
        joint = from_sums.T @ sums  # the gradient of W_ih·W
        return before, (
            _widened(input_weight.T @ joint, channels),
            joint @ message[:, :inputs].T,
            _widened(torch.cat([from_both.T @ narrow, from_new.T @ narrow]), channels),
            bias[: 3 * channels].clone(),
            torch.cat([bias[:both], bias[3 * channels :]]),
        )


def _widened(states: Tensor, channels: int) -> Tensor:
    """The states with zero columns appended, (nodes, channels)."""
    missing = channels - states.shape[1]
    return F.pad(states, (0, missing)) if missing else states


def _neighbor_sums(states: Tensor, graph: TreeGraph) -> Tensor:
    """Σ_u states_u over each node's neighbours; its own adjoint."""
    sums = torch.empty_like(states)
    kernels.neighbor_sums(states.numpy(), graph.neighbors, sums.numpy())
    return sums


@final
class BranchMax(Layer):
    """Elementwise maximum of the two ends of every branch, (nodes, channels) → (branches, channels)."""

    parameters = ()

    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The maxima, and what the backward pass needs."""
        values = _array(states.dense().contiguous())
        maxima = np.empty((len(graph.branches), values.shape[1]), values.dtype)
        chosen_first = np.empty(maxima.shape, np.uint8)
        kernels.end_maxima(values, graph.branches, maxima, chosen_first)
        return torch.from_numpy(maxima), (chosen_first,)

    def backward(
        self, gradient: Tensor, saved: Saved, _states: NodeStates, graph: TreeGraph, _wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """The states' gradient."""
        source = gradient.numpy()
        before = np.empty((graph.node_count, source.shape[1]), source.dtype)
        kernels.end_maxima_backward(source, graph.branches, saved[0], before)
        return torch.from_numpy(before), ()


@final
class TreeSum(Layer):
    """The sum of each tree's nodes, (nodes, channels) → (trees, channels)."""

    parameters = ()

    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The sums; the backward pass needs nothing."""
        values = _array(states.dense().contiguous())
        sums = np.empty((len(graph.tree_starts) - 1, values.shape[1]), values.dtype)
        kernels.tree_sums(values, graph.tree_starts, sums)
        return torch.from_numpy(sums), ()

    def backward(
        self, gradient: Tensor, _saved: Saved, _states: NodeStates, graph: TreeGraph, _wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """The states' gradient: every node has its tree's."""
        source = gradient.numpy()
        before = np.empty((graph.node_count, source.shape[1]), source.dtype)
        kernels.tree_sums_backward(source, graph.tree_starts, before)
        return torch.from_numpy(before), ()
