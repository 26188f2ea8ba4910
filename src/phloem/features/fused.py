"""The steps that graph networks are made of, with gradients written by hand, and how a chain of them runs.

Each step is a matrix product on nodes, then one kernel over the neighbour table that also adds the bias and applies
ELU: no gather to edges, no scatter, no mask. A chain of steps is one node of torch's graph, whose bookkeeping would
otherwise take as long as the kernels. Everything is differentiable once.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from phloem.errors import BadArgument
from phloem.features.derivatives import refuse_second_derivatives
from phloem.features.graph import TreeGraph
from phloem.features.states import DenseStates, NodeStates
from phloem.kernels import activations, message_passing
from phloem.kernels.arrays import RealArray

Scaling = Literal["sum", "mean", "symmetric"]
Saved = tuple[Any, ...]


class Step(ABC):
    """A differentiable map of states, (nodes, inputs) → (nodes, outputs), with parameters.

    The last ones of a chain may go on to other rows than nodes: branches or trees.
    """

    parameters: tuple[Tensor, ...]

    @abstractmethod
    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The new states, and what the way back needs."""

    @abstractmethod
    def backward(
        self, gradient: Tensor, saved: Saved, states: NodeStates, graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """From the gradient for the new states to that for the old ones, if it is wanted, and to the parameters'."""


def run(steps: Sequence[Step], states: NodeStates, graph: TreeGraph) -> Tensor:
    """The states after all steps."""
    parameters = [parameter for step in steps for parameter in step.parameters]
    if states.node_count != graph.node_count:
        raise BadArgument(f"states of {states.node_count} nodes on a graph of {graph.node_count}.")
    if any(parameter.dtype != states.dtype for parameter in parameters):
        raise BadArgument(f"states in {states.dtype}: the network's parameters must be of the same type.")
    result: Tensor = _Chain.apply(states.source, tuple(steps), states, graph, *parameters)
    return result


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        source: Tensor | None,
        steps: tuple[Step, ...],
        states: NodeStates,
        graph: TreeGraph,
        *parameters: Tensor,
    ) -> Tensor:
        tape = []
        for step in steps:
            outputs, saved = step.forward(states, graph)
            tape.append((step, saved, states))
            states = DenseStates(outputs)
        ctx.tape, ctx.graph = tape, graph
        ctx.save_for_backward(source, outputs, *parameters)
        return outputs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        _ = ctx.saved_tensors  # raises if any of them was changed in place since
        collected: tuple[Tensor, ...] = ()
        flowing: Tensor | None = gradient
        tape = ctx.tape
        for place in range(len(tape) - 1, -1, -1):
            if flowing is None:  # nothing before this has parameters
                break
            step, saved, states = tape[place]
            wanted = ctx.needs_input_grad[0] or any(earlier.parameters for earlier, _, _ in tape[:place])
            flowing, gradients = step.backward(flowing.contiguous(), saved, states, ctx.graph, wanted)
            collected = gradients + collected
        return flowing if ctx.needs_input_grad[0] else None, None, None, None, *collected


@final
class DenseElu(Step):
    """ELU(W·h + b): a linear layer with its activation."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.parameters = weight, bias

    def forward(self, states: NodeStates, _graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The new states, and what the way back needs."""
        weight, bias = self.parameters
        outputs = states.product(weight)
        array = outputs.numpy()
        activations.bias_elu(array, _array(bias))
        return outputs, (array,)

    def backward(
        self, gradient: Tensor, saved: Saved, states: NodeStates, _graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients for the old states and for the parameters."""
        inner, bias_gradient = _elu_backward(gradient, *saved)
        passed = torch.from_numpy(inner)
        before = passed @ self.parameters[0] if wanted else None
        return before, (states.weight_gradient(passed), bias_gradient)


@final
class Dense(Step):
    """W·h + b."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.parameters = weight, bias

    def forward(self, states: NodeStates, _graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The new states, and what the way back needs."""
        weight, bias = self.parameters
        return states.product(weight).add_(bias), ()

    def backward(
        self, gradient: Tensor, _saved: Saved, states: NodeStates, _graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients for the old states and for the parameters."""
        before = gradient @ self.parameters[0] if wanted else None
        return before, (states.weight_gradient(gradient), gradient.sum(0))


@final
class SumMessages(Step):
    """ELU((1 + ε)·W₁·h_v + Σ_u W₂·h_u + b) over v's neighbours u; ε is a single parameter, or none.

    weight is W₁ above W₂, (2·outputs, inputs), or (outputs, inputs) if they are the same. mean: the sum is divided by
    the number of neighbours d_v. symmetric: own and other terms are divided by √((1 + d_u)·(1 + d_v)).
    """

    def __init__(self, weight: Tensor, bias: Tensor, scaling: Scaling, epsilon: Tensor | None = None) -> None:
        self.parameters = (weight, bias) if epsilon is None else (weight, bias, epsilon)
        self.scaling = scaling

    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The new states, and what the way back needs."""
        weight, bias, *epsilon = self.parameters
        values, added = states.product(weight).numpy(), _array(bias)
        scales = _scales(graph, self.scaling, 1 + epsilon[0].item() if epsilon else 1, values.dtype)
        outputs = np.empty((len(values), len(added)), values.dtype)
        message_passing.sum_messages(values, graph.neighbors, scales.own, scales.target, scales.source, added, outputs)
        return torch.from_numpy(outputs), (outputs, scales, values if epsilon else None)

    def backward(
        self, gradient: Tensor, saved: Saved, states: NodeStates, graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients for the old states and for the parameters."""
        outputs, scales, values = saved
        weight, _, *epsilon = self.parameters
        inner, bias_gradient = _elu_backward(gradient, outputs)
        by_value = np.empty((len(inner), len(weight)), inner.dtype)
        message_passing.sum_messages_backward(
            inner, graph.neighbors, scales.own, scales.target, scales.source, by_value
        )
        values_gradient = torch.from_numpy(by_value)
        before = values_gradient @ weight if wanted else None
        gradients = states.weight_gradient(values_gradient), bias_gradient
        if epsilon:
            by_epsilon = np.vdot(inner, values[:, : inner.shape[1]])
            return before, (*gradients, torch.full_like(epsilon[0], float(by_epsilon)))
        return before, gradients


class _Scales(NamedTuple):
    """What own values, sums over neighbours and sent values are multiplied by, (nodes,) each."""

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
class MaxMessages(Step):
    """ELU(max_u ELU(A·h_v + B·(h_u - h_v) + b)) over v's neighbours u, with weight A above B, (2·outputs, inputs)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.parameters = weight, bias

    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The new states, and what the way back needs."""
        weight, bias = map(_array, self.parameters)
        by_node = weight.copy()  # A·h_v + B·(h_u - h_v) = (A - B)·h_v + B·h_u
        by_node[: len(bias)] -= weight[len(bias) :]
        node_weight = torch.from_numpy(by_node)
        values = states.product(node_weight).numpy()
        outputs = np.empty((len(values), len(bias)), values.dtype)
        slots = np.empty(outputs.shape, np.uint8 if graph.neighbors.shape[1] < 256 else np.int32)
        message_passing.max_messages(values, graph.neighbors, bias, outputs, slots)
        return torch.from_numpy(outputs), (node_weight, values, slots)

    def backward(
        self, gradient: Tensor, saved: Saved, states: NodeStates, graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients for the old states and for the parameters."""
        node_weight, values, slots = saved
        count = slots.shape[1]
        by_value, by_bias = np.empty_like(values), np.empty(count, values.dtype)
        message_passing.max_messages_backward(gradient.numpy(), graph.neighbors, values, slots, by_value, by_bias)
        values_gradient = torch.from_numpy(by_value)
        weight_gradient = states.weight_gradient(values_gradient)
        by_weight = weight_gradient.numpy()
        by_weight[count:] -= by_weight[:count]
        before = values_gradient @ node_weight if wanted else None
        return before, (weight_gradient, torch.from_numpy(by_bias))


@final
class BranchMax(Step):
    """Elementwise maximum of the two ends of every branch, (nodes, channels) → (branches, channels)."""

    parameters = ()

    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The maxima, and what the way back needs."""
        values = _array(states.dense().contiguous())
        maxima = np.empty((len(graph.branches), values.shape[1]), values.dtype)
        chosen_first = np.empty(maxima.shape, np.uint8)
        message_passing.end_maxima(values, graph.branches, maxima, chosen_first)
        return torch.from_numpy(maxima), (chosen_first,)

    def backward(
        self, gradient: Tensor, saved: Saved, _states: NodeStates, graph: TreeGraph, _wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """The gradient for the states."""
        source = gradient.numpy()
        before = np.empty((graph.node_count, source.shape[1]), source.dtype)
        message_passing.end_maxima_backward(source, graph.branches, saved[0], before)
        return torch.from_numpy(before), ()


@final
class TreeSum(Step):
    """The sum of each tree's nodes, (nodes, channels) → (trees, channels)."""

    parameters = ()

    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The sums; the way back needs nothing."""
        values = _array(states.dense().contiguous())
        sums = np.empty((len(graph.tree_starts) - 1, values.shape[1]), values.dtype)
        message_passing.tree_sums(values, graph.tree_starts, sums)
        return torch.from_numpy(sums), ()

    def backward(
        self, gradient: Tensor, _saved: Saved, _states: NodeStates, graph: TreeGraph, _wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """The gradient for the states: every node has its tree's."""
        source = gradient.numpy()
        before = np.empty((graph.node_count, source.shape[1]), source.dtype)
        message_passing.tree_sums_backward(source, graph.tree_starts, before)
        return torch.from_numpy(before), ()


def _elu_backward(gradient: Tensor, outputs: RealArray) -> tuple[RealArray, Tensor]:
    """The gradient for what stands inside the ELU, (nodes, channels), and its sum over nodes."""
    inner, sums = np.empty_like(outputs), np.empty(outputs.shape[1], outputs.dtype)
    activations.elu_backward(gradient.numpy(), outputs, inner, sums)
    return inner, torch.from_numpy(sums)


def _array(tensor: Tensor) -> RealArray:
    return tensor.detach().numpy()
