"""Graph isomorphism networks (Xu et al. 2019)."""

from typing import final

import torch
from torch import nn

from phloem.errors import BadArgument
from phloem.features.convolutions.base import FusedConvolution
from phloem.features.fused import DenseElu, Step, SumMessages


@final
class GinConvolution(FusedConvolution):
    """h'_v = ELU(MLP((1 + ε)·h_v + Σ_{u ∈ N(v)} h_u)), with ε a parameter that begins at 0, or fixed.

    The MLP is one linear map, as in the code that made the paper's tables; with `layers=2` it is linear, ELU, linear,
    as in the paper's text. (nodes, inputs) → (nodes, outputs). The first map commutes with the sum and comes first.
    """

    def __init__(self, inputs: int, outputs: int, *, layers: int = 1, learn_epsilon: bool = True) -> None:
        super().__init__()
        if layers not in (1, 2):
            raise BadArgument(f"GIN: an MLP of {layers} layers. Give 1 or 2.")
        self.linear = nn.Linear(inputs, outputs)
        self.second = nn.Linear(outputs, outputs) if layers == 2 else None
        self.epsilon = nn.Parameter(torch.zeros(1)) if learn_epsilon else None

    def steps(self) -> list[Step]:
        """The fused steps that it is made of."""
        first = SumMessages(self.linear.weight, self.linear.bias, "sum", self.epsilon)
        return [first] if self.second is None else [first, DenseElu(self.second.weight, self.second.bias)]
