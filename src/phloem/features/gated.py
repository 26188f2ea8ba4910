"""The step of gated graph networks, with its gradient written by hand."""

from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from phloem.features.fused import Saved, Step
from phloem.features.graph import TreeGraph
from phloem.features.states import NodeStates
from phloem.kernels import activations, message_passing


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
        activations.gru(gates.numpy(), old.numpy(), bias.numpy(), outputs.numpy())
        return outputs, (narrow, old, sums, by_sums, gates)

    def backward(
        self, gradient: Tensor, saved: Saved, _states: NodeStates, graph: TreeGraph, wanted: bool
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """Gradients for the old states and for the parameters."""
        message, input_weight, recurrent_weight, *_ = self.parameters
        narrow, old, sums, by_sums, gates = saved
        channels, inputs = len(message), narrow.shape[1]
        opened, passed, bias = torch.empty_like(gates), torch.empty_like(old), gates.new_empty(4 * channels)
        activations.gru_backward(
            gradient.numpy(), old.numpy(), gates.numpy(), opened.numpy(), passed.numpy(), bias.numpy()
        )
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
    message_passing.neighbor_sums(states.numpy(), graph.neighbors, sums.numpy())
    return sums
