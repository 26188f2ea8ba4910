"""Graph convolutional networks (Kipf & Welling 2017)."""

from typing import final

from torch import Tensor, nn

from phloem.features.convolutions.base import Convolution
from phloem.features.fused import sum_convolution
from phloem.features.graph import TreeGraph
from phloem.features.states import NodeStates


@final
class GcnConvolution(Convolution):
    """h'_v = ELU(W · Σ_{u ∈ N(v) ∪ v} h_u / √((1 + d_u)·(1 + d_v)) + b), with d the number of neighbours.

    (nodes, inputs) → (nodes, outputs). W commutes with the sum and is applied first.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """New states, (nodes, outputs)."""
        return sum_convolution(states, self.linear.weight, self.linear.bias, graph, "symmetric")
