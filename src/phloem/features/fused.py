"""Message passing in a few fused steps with gradients written by hand: no gather to edges, no scatter, no mask.

Each is a matrix product on nodes, then one kernel over the neighbour table that also adds the bias and applies ELU.
Everything is differentiable once.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from phloem.features.graph import TreeGraph
from phloem.features.states import NodeStates
from phloem.kernels import activations, message_passing
from phloem.kernels.arrays import RealArray

Scaling = Literal["sum", "mean", "symmetric"]


def sum_convolution(
    states: NodeStates,
    weight: Tensor,
    bias: Tensor,
    graph: TreeGraph,
    scaling: Scaling = "sum",
    own_scale: Tensor | None = None,
) -> Tensor:
    """ELU(own_scale · W₁·h_v + Σ_u W₂·h_u + bias), (nodes, outputs); own_scale is a number, 1 by default.

    weight is W₁ above W₂, (2·outputs, inputs), or (outputs, inputs) if they are the same. mean: the sum is divided by
    the number of neighbours d_v. symmetric: own and other terms are divided by √((1 + d_u)·(1 + d_v)).
    """
    result: Tensor = _SumConvolution.apply(states.source, weight, bias, own_scale, states, graph, scaling)
    return result


def max_convolution(states: NodeStates, weight: Tensor, bias: Tensor, graph: TreeGraph) -> Tensor:
    """ELU(max_u ELU(A·h_v + B·(h_u - h_v) + bias)), (nodes, outputs), with weight A above B, (2·outputs, inputs)."""
    result: Tensor = _MaxConvolution.apply(states.source, weight, bias, states, graph)
    return result


def dense_elu(states: NodeStates, weight: Tensor, bias: Tensor) -> Tensor:
    """ELU(W·h + bias): a linear layer with its activation, (nodes, outputs)."""
    result: Tensor = _DenseElu.apply(states.source, weight, bias, states)
    return result


def neighbor_sum(states: Tensor, graph: TreeGraph) -> Tensor:
    """Σ_u states_u over each node's neighbours, (nodes, channels)."""
    result: Tensor = _NeighborSum.apply(states, graph)
    return result


def branch_max(states: Tensor, graph: TreeGraph) -> Tensor:
    """Elementwise maximum of the two ends of every branch, (branches, channels)."""
    result: Tensor = _BranchMax.apply(states, graph)
    return result


def gated_update(inputs: Tensor, recurrent: Tensor, states: Tensor, bias: Tensor) -> Tensor:
    """A gated recurrent unit's new states, (nodes, channels): see `kernels.activations.gru`."""
    result: Tensor = _GatedUpdate.apply(inputs, recurrent, states, bias)
    return result


class _SumConvolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        _source: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        own_scale: Tensor | None,
        states: NodeStates,
        graph: TreeGraph,
        scaling: Scaling,
    ) -> Tensor:
        values = states.product(weight)
        scales = _scales(graph, scaling, 1.0 if own_scale is None else own_scale.item(), values.numpy().dtype)
        outputs = values.new_empty((len(values), len(bias)))
        message_passing.sum_messages(
            values.numpy(), graph.neighbors, scales.own, scales.target, scales.source, _array(bias), outputs.numpy()
        )
        ctx.save_for_backward(weight, outputs, *([] if own_scale is None else [own_scale, values]))
        ctx.arguments = states, graph, scales
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, outputs, *scaled = ctx.saved_tensors
        states, graph, scales = ctx.arguments
        inner, bias_gradient = _elu_backward(gradient, outputs)
        values_gradient = inner.new_empty((len(inner), len(weight)))
        message_passing.sum_messages_backward(
            inner.numpy(), graph.neighbors, scales.own, scales.target, scales.source, values_gradient.numpy()
        )
        scale_gradient = None
        if scaled:
            own_scale, values = scaled
            scale_gradient = (inner * values[:, : inner.shape[1]]).sum().reshape(own_scale.shape)
        states_gradient = states.states_gradient(values_gradient, weight)
        return states_gradient, states.weight_gradient(values_gradient), bias_gradient, scale_gradient, None, None, None


class _Scales(NamedTuple):
    """What own values, sums over neighbours and sent values are multiplied by, (nodes,) each."""

    own: RealArray
    target: RealArray
    source: RealArray


def _scales(graph: TreeGraph, scaling: Scaling, own: float, kind: Any) -> _Scales:
    ones = np.ones(graph.node_count, kind)
    if scaling == "symmetric":
        root = (1 / np.sqrt(1 + graph.degrees)).astype(kind)
        return _Scales(root * root, root, root)
    target = (1 / graph.degrees).astype(kind) if scaling == "mean" else ones
    return _Scales(kind.type(own) * ones, target, ones)


class _MaxConvolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, _source: Tensor | None, weight: Tensor, bias: Tensor, states: NodeStates, graph: TreeGraph
    ) -> Tensor:
        outputs_count = len(bias)
        by_node = weight.detach().clone()  # A·h_v + B·(h_u - h_v) = (A - B)·h_v + B·h_u
        by_node[:outputs_count] -= by_node[outputs_count:]
        values = states.product(by_node)
        outputs = values.new_empty((len(values), outputs_count))
        slots = np.empty(outputs.shape, np.uint8)
        message_passing.max_messages(values.numpy(), graph.neighbors, _array(bias), outputs.numpy(), slots)
        ctx.arguments = states, graph, by_node, values, slots
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, graph, by_node, values, slots = ctx.arguments
        outputs_count = slots.shape[1]
        values_gradient, bias_gradient = torch.empty_like(values), gradient.new_empty(outputs_count)
        message_passing.max_messages_backward(
            _array(gradient), graph.neighbors, values.numpy(), slots, values_gradient.numpy(), bias_gradient.numpy()
        )
        weight_gradient = states.weight_gradient(values_gradient)
        weight_gradient[outputs_count:] -= weight_gradient[:outputs_count]
        return states.states_gradient(values_gradient, by_node), weight_gradient, bias_gradient, None, None


class _DenseElu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _source: Tensor | None, weight: Tensor, bias: Tensor, states: NodeStates) -> Tensor:
        outputs = states.product(weight)
        activations.bias_elu(outputs.numpy(), _array(bias))
        ctx.save_for_backward(weight, outputs)
        ctx.states = states
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, outputs = ctx.saved_tensors
        inner, bias_gradient = _elu_backward(gradient, outputs)
        return ctx.states.states_gradient(inner, weight), ctx.states.weight_gradient(inner), bias_gradient, None


class _NeighborSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, graph: TreeGraph) -> Tensor:
        ctx.graph = graph
        return _neighbor_sums(states, graph)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _neighbor_sums(gradient, ctx.graph), None


def _neighbor_sums(states: Tensor, graph: TreeGraph) -> Tensor:
    sums = torch.empty(states.shape, dtype=states.dtype)
    message_passing.neighbor_sums(_array(states), graph.neighbors, sums.numpy())
    return sums


class _BranchMax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, graph: TreeGraph) -> Tensor:
        maxima = states.new_empty((len(graph.branches), states.shape[1]))
        chosen_first = np.empty(maxima.shape, np.uint8)
        message_passing.end_maxima(_array(states), graph.branches, maxima.numpy(), chosen_first)
        ctx.arguments = graph, chosen_first
        return maxima

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        graph, chosen_first = ctx.arguments
        states_gradient = gradient.new_empty((graph.node_count, gradient.shape[1]))
        message_passing.end_maxima_backward(_array(gradient), graph.branches, chosen_first, states_gradient.numpy())
        return states_gradient, None


class _GatedUpdate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, recurrent: Tensor, states: Tensor, bias: Tensor) -> Tensor:
        states = states.detach().contiguous()
        outputs = torch.empty_like(states)
        gates = states.new_empty((len(states), 4 * states.shape[1]))
        activations.gru(_array(inputs), states.numpy(), _array(recurrent), _array(bias), gates.numpy(), outputs.numpy())
        ctx.save_for_backward(states, gates)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        states, gates = ctx.saved_tensors
        nodes, channels = states.shape
        inputs, recurrent = (states.new_empty((nodes, 3 * channels)) for _ in range(2))
        passed, bias = torch.empty_like(states), states.new_empty(4 * channels)
        activations.gru_backward(
            _array(gradient), states.numpy(), gates.numpy(), *(t.numpy() for t in (inputs, recurrent, passed, bias))
        )
        return inputs, recurrent, passed, bias


def _elu_backward(gradient: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    inner, bias_gradient = torch.empty_like(outputs), outputs.new_empty(outputs.shape[1])
    activations.elu_backward(_array(gradient), outputs.numpy(), inner.numpy(), bias_gradient.numpy())
    return inner, bias_gradient


def _array(tensor: Tensor) -> RealArray:
    return tensor.detach().contiguous().numpy()
