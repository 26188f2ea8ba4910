"""Gated graph neural networks (Li et al. 2016)."""

from typing import final

from torch import nn

from phloem.features.convolutions.base import FusedConvolution
from phloem.features.fused import Dense, Step
from phloem.features.gated import GatedMessages


@final
class GgnnConvolution(FusedConvolution):
    """h'_v = GRU(input Σ_{u ∈ N(v)} W·h_u, state h_v), without an ELU, as the GRU has activations of its own.

    (nodes, inputs) → (nodes, outputs). The state keeps its width: fewer inputs than outputs are filled up with zeros,
    more are first projected by a linear map.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.projection = nn.Linear(inputs, outputs) if inputs > outputs else None
        self.message = nn.Linear(outputs, outputs, bias=False)
        self.gru = nn.GRUCell(outputs, outputs)

    def steps(self) -> list[Step]:
        """The fused steps that it is made of."""
        update = GatedMessages(self.message.weight, self.gru)
        if self.projection is not None:
            return [Dense(self.projection.weight, self.projection.bias), update]
        return [update]
