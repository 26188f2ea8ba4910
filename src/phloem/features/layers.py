"""The layers that graph networks are made of, with gradients written by hand, and how a chain of them runs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from phloem.arrays import RealArray
from phloem.autograd import refuse_second_derivatives
from phloem.errors import BadArgument
from phloem.features.graph import DenseStates, NodeStates, TreeGraph
from phloem.kernels.features import layers

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
        layers.bias_elu(array, _array(bias))
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
        layers.sum_messages(values, graph.neighbors, scales.own, scales.target, scales.source, added, outputs)
        return torch.from_numpy(outputs), (outputs, scales, values if epsilon else None)

    def backward(
        self, gradient: Tensor, saved: Saved, states: NodeStates, graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients for the old states and for the parameters."""
        outputs, scales, values = saved
        weight, _, *epsilon = self.parameters
        inner, bias_gradient = _elu_backward(gradient, outputs)
        by_value = np.empty((len(inner), len(weight)), inner.dtype)
        layers.sum_messages_backward(inner, graph.neighbors, scales.own, scales.target, scales.source, by_value)
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
        layers.max_messages(values, graph.neighbors, bias, outputs, slots)
        return torch.from_numpy(outputs), (node_weight, values, slots)

    def backward(
        self, gradient: Tensor, saved: Saved, states: NodeStates, graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients for the old states and for the parameters."""
        node_weight, values, slots = saved
        count = slots.shape[1]
        by_value, by_bias = np.empty_like(values), np.empty(count, values.dtype)
        layers.max_messages_backward(gradient.numpy(), graph.neighbors, values, slots, by_value, by_bias)
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
        layers.end_maxima(values, graph.branches, maxima, chosen_first)
        return torch.from_numpy(maxima), (chosen_first,)

    def backward(
        self, gradient: Tensor, saved: Saved, _states: NodeStates, graph: TreeGraph, _wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """The gradient for the states."""
        source = gradient.numpy()
        before = np.empty((graph.node_count, source.shape[1]), source.dtype)
        layers.end_maxima_backward(source, graph.branches, saved[0], before)
        return torch.from_numpy(before), ()


@final
class TreeSum(Step):
    """The sum of each tree's nodes, (nodes, channels) → (trees, channels)."""

    parameters = ()

    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The sums; the way back needs nothing."""
        values = _array(states.dense().contiguous())
        sums = np.empty((len(graph.tree_starts) - 1, values.shape[1]), values.dtype)
        layers.tree_sums(values, graph.tree_starts, sums)
        return torch.from_numpy(sums), ()

    def backward(
        self, gradient: Tensor, _saved: Saved, _states: NodeStates, graph: TreeGraph, _wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """The gradient for the states: every node has its tree's."""
        source = gradient.numpy()
        before = np.empty((graph.node_count, source.shape[1]), source.dtype)
        layers.tree_sums_backward(source, graph.tree_starts, before)
        return torch.from_numpy(before), ()


def _elu_backward(gradient: Tensor, outputs: RealArray) -> tuple[RealArray, Tensor]:
    """The gradient for what stands inside the ELU, (nodes, channels), and its sum over nodes."""
    inner, sums = np.empty_like(outputs), np.empty(outputs.shape[1], outputs.dtype)
    layers.elu_backward(gradient.numpy(), outputs, inner, sums)
    return inner, torch.from_numpy(sums)


def _array(tensor: Tensor) -> RealArray:
    return tensor.detach().numpy()


@final
class GatedMessages(Step):
    """GRU(input Σ_u W·h_u, state h_v) over v's neighbours u: see `kernels.activations.gru`.

    Parameters are W and those of torch's GRUCell. States with fewer channels than the result are filled up with zeros:
    the weights' other columns meet nothing else and are left out of all products.
    """

    def __init__(self, message: Tensor, cell: torch.nn.GRUCell) -> None:
        self.parameters = message, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh

    def forward(self, states: NodeStates, graph: TreeGraph) -> tuple[Tensor, Saved]:
        """The new states, and what the way back needs."""
        message, input_weight, recurrent_weight, input_bias, recurrent_bias = self.parameters
        narrow = states.dense().contiguous()
        channels, inputs = len(message), narrow.shape[1]
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
        layers.gru(gates.numpy(), old.numpy(), bias.numpy(), outputs.numpy())
        return outputs, (narrow, old, sums, by_sums, gates)

    def backward(
        self, gradient: Tensor, saved: Saved, _states: NodeStates, graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients for the old states and for the parameters."""
        message, input_weight, recurrent_weight, *_ = self.parameters
        narrow, old, sums, by_sums, gates = saved
        channels, inputs = len(message), narrow.shape[1]
        opened, passed, bias = torch.empty_like(gates), torch.empty_like(old), gates.new_empty(4 * channels)
        layers.gru_backward(gradient.numpy(), old.numpy(), gates.numpy(), opened.numpy(), passed.numpy(), bias.numpy())
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
    """Zeros after the last column, up to as many as there are channels."""
    missing = channels - states.shape[1]
    return F.pad(states, (0, missing)) if missing else states


def _neighbor_sums(states: Tensor, graph: TreeGraph) -> Tensor:
    """Σ_u states_u over each node's neighbours; its own adjoint."""
    sums = torch.empty_like(states)
    layers.neighbor_sums(states.numpy(), graph.neighbors, sums.numpy())
    return sums
