"""GraphSAGE (Hamilton et al. 2017)."""

from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from phloem.features.convolutions.base import Aggregation, Convolution, check_aggregation, new_bias, new_weight
from phloem.features.fused import Step, SumMessages, run
from phloem.features.graph import TreeGraph
from phloem.features.states import NodeStates


@final
class SageConvolution(Convolution):
    """h'_v = ELU(W₁·h_v + W₂ · mean_{u ∈ N(v)} h_u + b); sum or max may take the place of the mean.

    (nodes, inputs) → (nodes, outputs). Sum and mean commute with W₂, so that one product gives W₁·h and W₂·h.
    """

    def __init__(self, inputs: int, outputs: int, *, aggregation: Aggregation = "mean") -> None:
        super().__init__()
        check_aggregation(aggregation, "SAGE")
        self.aggregation = aggregation
        self.weight = new_weight(2 * outputs, inputs)  # W₁ above W₂
        self.bias = new_bias(outputs, inputs)

    def steps(self) -> list[Step] | None:
        """The fused step that it is, with sum and mean."""
        return None if self.aggregation == "max" else [SumMessages(self.weight, self.bias, self.aggregation)]

    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """New states, (nodes, outputs)."""
        if steps := self.steps():
            return run(steps, states, graph)
        own, other = self.weight.chunk(2)
        largest = graph.gather(states.dense()).masked_fill(graph.padding[:, :, None], -torch.inf).amax(dim=1)
        return F.elu(states.linear(own) + largest @ other.T + self.bias)
