"""Edge convolutions (Wang et al. 2019)."""

from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from phloem.errors import BadArgument
from phloem.features.convolutions.base import Aggregation, Convolution, check_aggregation, new_bias, new_weight
from phloem.features.fused import MaxMessages, Step, run
from phloem.features.graph import TreeGraph
from phloem.features.states import NodeStates


@final
class EdgeConvolution(Convolution):
    """h'_v = ELU(max_{u ∈ N(v)} MLP(h_v ‖ h_u - h_v)); sum or mean may take the place of the maximum.

    The MLP is linear and ELU, as in the code that made the paper's tables; with `layers=2` it is linear, ELU, linear,
    as in the paper's text, which takes the sum. (nodes, inputs) → (nodes, outputs). With W = [A ‖ B],
    W·(h_v ‖ h_u - h_v) = (A - B)·h_v + B·h_u: one product for nodes instead of one for edges; as ELU is monotone, the
    maximum goes inside.
    """

    def __init__(self, inputs: int, outputs: int, *, aggregation: Aggregation = "max", layers: int = 1) -> None:
        super().__init__()
        check_aggregation(aggregation, "EDGE")
        if layers not in (1, 2):
            raise BadArgument(f"EDGE: an MLP of {layers} layers. Give 1 or 2.")
        self.aggregation = aggregation
        self.weight = new_weight(2 * outputs, inputs, fan_in=2 * inputs)  # A above B
        self.bias = new_bias(outputs, fan_in=2 * inputs)
        self.second = nn.Linear(outputs, outputs) if layers == 2 else None

    def steps(self) -> list[Step] | None:
        """The fused step that it is, with the maximum and one layer."""
        is_fused = self.aggregation == "max" and self.second is None
        return [MaxMessages(self.weight, self.bias)] if is_fused else None

    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """New states, (nodes, outputs)."""
        if steps := self.steps():
            return run(steps, states, graph)
        own, difference = self.weight.chunk(2)
        on_edges = states.linear(own - difference)[:, None] + graph.gather(states.linear(difference)) + self.bias
        return F.elu(self._aggregate(F.elu(on_edges), graph))

    def _aggregate(self, messages: Tensor, graph: TreeGraph) -> Tensor:
        """Second layer, if there is one, and sum, mean or maximum over neighbours. Sum and mean commute with it."""
        padding = graph.padding[:, :, None]
        if self.aggregation == "max":
            messages = messages if self.second is None else self.second(messages)
            return messages.masked_fill(padding, -torch.inf).amax(dim=1)
        counts = (~padding).sum(dim=1).to(messages.dtype)  # (nodes, 1)
        total = messages.masked_fill(padding, 0).sum(dim=1)
        if self.second is not None:
            total = total @ self.second.weight.T + counts * self.second.bias
        return total if self.aggregation == "sum" else total / counts
