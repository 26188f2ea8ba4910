"""Graph convolutional networks (Kipf & Welling 2017)."""

from typing import final

from torch import nn

from phloem.features.convolutions.base import FusedConvolution
from phloem.features.fused import Step, SumMessages


@final
class GcnConvolution(FusedConvolution):
    """h'_v = ELU(W · Σ_{u ∈ N(v) ∪ v} h_u / √((1 + d_u)·(1 + d_v)) + b), with d the number of neighbours.

    (nodes, inputs) → (nodes, outputs). W commutes with the sum and is applied first.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def steps(self) -> list[Step]:
        """The fused steps that it is made of."""
        return [SumMessages(self.linear.weight, self.linear.bias, "symmetric")]
