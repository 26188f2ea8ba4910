"""Gated graph neural networks (Li et al. 2016)."""

from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from phloem.features.convolutions.base import Convolution
from phloem.features.fused import gated_update, neighbor_sum
from phloem.features.graph import TreeGraph
from phloem.features.states import NodeStates


@final
class GgnnConvolution(Convolution):
    """h'_v = GRU(input Σ_{u ∈ N(v)} W·h_u, state h_v), without an ELU, as the GRU has activations of its own.

    (nodes, inputs) → (nodes, outputs). The state keeps its width: fewer inputs than outputs are filled up with zeros,
    more are first projected by a linear map.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.projection = nn.Linear(inputs, outputs, bias=False) if inputs > outputs else None
        self.message = nn.Linear(outputs, outputs, bias=False)
        self.gru = nn.GRUCell(outputs, outputs)

    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """New states, (nodes, outputs)."""
        if self.projection is not None:
            state = states.linear(self.projection.weight)
        else:
            state = states.dense()
            state = F.pad(state, (0, self.outputs - state.shape[1]))
        messages = neighbor_sum(state @ self.message.weight.T, graph)
        inputs, recurrent = messages @ self.gru.weight_ih.T, state @ self.gru.weight_hh.T
        first, second = self.gru.bias_ih, self.gru.bias_hh
        gates = 2 * self.outputs
        bias = torch.cat([first[:gates] + second[:gates], first[gates:], second[gates:]])
        return gated_update(inputs, recurrent, state, bias)
