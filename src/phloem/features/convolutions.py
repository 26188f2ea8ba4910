"""Graph convolutions: GCN, GIN, SAGE, GGNN, EDGE. A new one is a class here and a line in the table at the end."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Literal, final, get_args

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from phloem.errors import BadArgument
from phloem.features.graph import NodeStates, TreeGraph
from phloem.features.layers import Dense, DenseElu, GatedMessages, MaxMessages, Step, SumMessages, run

Aggregation = Literal["sum", "mean", "max"]


class Convolution(nn.Module, ABC):
    """One round of message passing, activation included: new states for all nodes from their own and their neighbours'.

    It must not depend on how nodes are numbered, and must ignore the padding of the neighbour table.
    """

    @abstractmethod
    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """New states, (nodes, outputs)."""

    def steps(self) -> list[Step] | None:
        """The fused steps that it is made of, which a network runs in one chain with others; None if there are none."""
        return None


class FusedConvolution(Convolution, ABC):
    """A convolution that is made of fused steps."""

    @abstractmethod
    def steps(self) -> list[Step]:
        """The fused steps that it is made of."""

    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """New states, (nodes, outputs)."""
        return run(self.steps(), states, graph)


def check_aggregation(aggregation: str, where: str) -> None:
    """Raise unless it is one that there is."""
    if aggregation not in get_args(Aggregation):
        raise BadArgument(f"{where}: aggregation {aggregation}. Choose sum, mean or max.")


def new_weight(rows: int, inputs: int, fan_in: int | None = None) -> nn.Parameter:
    """A matrix (rows, inputs) of uniform numbers within ±1/√fan_in, as torch's linear layers begin."""
    bound = 1 / math.sqrt(fan_in or inputs)
    return nn.Parameter(torch.empty(rows, inputs).uniform_(-bound, bound))


def new_bias(outputs: int, fan_in: int) -> nn.Parameter:
    """A vector of uniform numbers within ±1/√fan_in, as torch's linear layers begin."""
    return nn.Parameter(new_weight(1, outputs, fan_in).detach()[0])


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


# Each makes a convolution from its numbers of inputs and outputs. The names alone are the forms of the code that made
# the paper's tables; where the paper's text says otherwise, its form has a name of its own.
CONVOLUTIONS: dict[str, Callable[[int, int], Convolution]] = {
    "gcn": GcnConvolution,
    "gin": GinConvolution,
    "sage": SageConvolution,
    "ggnn": GgnnConvolution,
    "edge": EdgeConvolution,
    "gin-text": partial(GinConvolution, layers=2),
    "edge-text": partial(EdgeConvolution, layers=2, aggregation="sum"),
}


def build_convolution(name: str, inputs: int, outputs: int) -> Convolution:
    """The convolution of that name."""
    if name not in CONVOLUTIONS:
        raise BadArgument(f"convolution {name}: choose one of {', '.join(CONVOLUTIONS)}.")
    return CONVOLUTIONS[name](inputs, outputs)
