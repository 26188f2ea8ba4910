"""Learnable topological features (Zhang 2023): graph convolutions, networks of them, and read-outs.

A new convolution is a class here and a line in `CONVOLUTIONS`; its name goes into `NETWORKS` (config/infer.py) too,
which settings are checked against without loading torch.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal, cast, final, get_args

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from phloem.errors import BadArgument
from phloem.features.layers import (
    BranchMax,
    Dense,
    DenseElu,
    DenseStates,
    GatedMessages,
    Layer,
    MaxMessages,
    NodeStates,
    RawStates,
    SumMessages,
    TreeGraph,
    TreeSum,
    run,
    tree_states,
)
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree

Aggregation = Literal["sum", "mean", "max"]


class Convolution(nn.Module, ABC):
    """One round of message passing, activation included: a node's new state from its own and its neighbours' states.

    It must not depend on how nodes are numbered, and must ignore the padding of the neighbours.
    """

    @abstractmethod
    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """New states, (nodes, outputs)."""

    def layers(self) -> list[Layer] | None:
        """Its fused layers, which a network runs in one chain with others; None if `forward` does the work."""
        return None


class FusedConvolution(Convolution, ABC):
    """A convolution made of fused layers."""

    @abstractmethod
    def layers(self) -> list[Layer]:
        """Its fused layers."""

    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """New states, (nodes, outputs)."""
        return run(self.layers(), states, graph)


def check_aggregation(aggregation: str, where: str) -> None:
    """Raise for an unknown aggregation."""
    if aggregation not in get_args(Aggregation):
        raise BadArgument(f"{where}: unknown aggregation {aggregation}. Choose sum, mean or max.")


def new_weight(rows: int, inputs: int, fan_in: int | None = None) -> nn.Parameter:
    """A matrix (rows, inputs), uniform within ±1/√fan_in: torch's initialisation of linear layers."""
    bound = 1 / math.sqrt(fan_in or inputs)
    return nn.Parameter(torch.empty(rows, inputs).uniform_(-bound, bound))


def new_bias(outputs: int, fan_in: int) -> nn.Parameter:
    """A vector, uniform within ±1/√fan_in: torch's initialisation of linear layers."""
    return nn.Parameter(new_weight(1, outputs, fan_in).detach()[0])


@final
class GcnConvolution(FusedConvolution):
    """h'_v = ELU(W · Σ_{u ∈ N(v) ∪ v} h_u / √((1 + d_u)·(1 + d_v)) + b), with d the degree (Kipf & Welling 2017).

    (nodes, inputs) → (nodes, outputs). W commutes with the sum and is applied first.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def layers(self) -> list[Layer]:
        """Its fused layers."""
        return [SumMessages(self.linear.weight, self.linear.bias, "symmetric")]


@final
class GinConvolution(FusedConvolution):
    """h'_v = ELU(MLP((1 + ε)·h_v + Σ_{u ∈ N(v)} h_u)), with ε learned from 0 on, or fixed at 0 (Xu et al. 2019).

    (nodes, inputs) → (nodes, outputs). The MLP is one linear map, as in the code behind the paper's tables; with
    `layers=2` it is linear, ELU, linear, as in the paper's text. The first map commutes with the sum and comes first.
    """

    def __init__(self, inputs: int, outputs: int, *, layers: int = 1, learn_epsilon: bool = True) -> None:
        super().__init__()
        if layers not in (1, 2):
            raise BadArgument(f"GIN: an MLP with {layers} layers. Give 1 or 2.")
        self.linear = nn.Linear(inputs, outputs)
        self.second = nn.Linear(outputs, outputs) if layers == 2 else None
        self.epsilon = nn.Parameter(torch.zeros(1)) if learn_epsilon else None

    def layers(self) -> list[Layer]:
        """Its fused layers."""
        first = SumMessages(self.linear.weight, self.linear.bias, "sum", self.epsilon)
        return [first] if self.second is None else [first, DenseElu(self.second.weight, self.second.bias)]


@final
class SageConvolution(Convolution):
    """h'_v = ELU(W₁·h_v + W₂ · mean_{u ∈ N(v)} h_u + b), or sum or max for the mean (Hamilton et al. 2017).

    (nodes, inputs) → (nodes, outputs). Sum and mean commute with W₂, so one product gives W₁·h and W₂·h.
    """

    def __init__(self, inputs: int, outputs: int, *, aggregation: Aggregation = "mean") -> None:
        super().__init__()
        check_aggregation(aggregation, "SAGE")
        self.aggregation = aggregation
        self.weight = new_weight(2 * outputs, inputs)  # W₁ above W₂
        self.bias = new_bias(outputs, inputs)

    def layers(self) -> list[Layer] | None:
        """One fused layer for sum and mean, none for the maximum."""
        return None if self.aggregation == "max" else [SumMessages(self.weight, self.bias, self.aggregation)]

    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """New states, (nodes, outputs)."""
        if layers := self.layers():
            return run(layers, states, graph)
        own, other = self.weight.chunk(2)
        largest = graph.gather(states.dense()).masked_fill(graph.padding[:, :, None], -torch.inf).amax(dim=1)
        return F.elu(states.linear(own) + largest @ other.T + self.bias)


@final
class GgnnConvolution(FusedConvolution):
    """h'_v = GRU(input Σ_{u ∈ N(v)} W·h_u, state h_v) (Li et al. 2016); no ELU, as the GRU has its own activations.

    (nodes, inputs) → (nodes, outputs). The state keeps its width: inputs narrower than the outputs are padded with
    zeros, wider ones are first projected by a linear map.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.projection = nn.Linear(inputs, outputs) if inputs > outputs else None
        self.message = nn.Linear(outputs, outputs, bias=False)
        self.gru = nn.GRUCell(outputs, outputs)

    def layers(self) -> list[Layer]:
        """Its fused layers."""
        update = GatedMessages(self.message.weight, self.gru)
        if self.projection is not None:
            return [Dense(self.projection.weight, self.projection.bias), update]
        return [update]


@final
class EdgeConvolution(Convolution):
    """h'_v = ELU(max_{u ∈ N(v)} MLP(h_v ‖ h_u - h_v)), or sum or mean for the maximum (Wang et al. 2019).

    (nodes, inputs) → (nodes, outputs). The MLP is linear and ELU, as in the code behind the paper's tables; with
    `layers=2` it is linear, ELU, linear, as in the paper's text, which takes the sum. With W = [A ‖ B],
    W·(h_v ‖ h_u - h_v) = (A - B)·h_v + B·h_u: one product on nodes instead of one on edges; as ELU is monotone, the
    maximum goes inside.
    """

    def __init__(self, inputs: int, outputs: int, *, aggregation: Aggregation = "max", layers: int = 1) -> None:
        super().__init__()
        check_aggregation(aggregation, "EDGE")
        if layers not in (1, 2):
            raise BadArgument(f"EDGE: an MLP with {layers} layers. Give 1 or 2.")
        self.aggregation = aggregation
        self.weight = new_weight(2 * outputs, inputs, fan_in=2 * inputs)  # A above B
        self.bias = new_bias(outputs, fan_in=2 * inputs)
        self.second = nn.Linear(outputs, outputs) if layers == 2 else None

    def layers(self) -> list[Layer] | None:
        """One fused layer for the maximum and one-layer MLP, none otherwise."""
        is_fused = self.aggregation == "max" and self.second is None
        return [MaxMessages(self.weight, self.bias)] if is_fused else None

    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """New states, (nodes, outputs)."""
        if layers := self.layers():
            return run(layers, states, graph)
        own, difference = self.weight.chunk(2)
        on_edges = states.linear(own - difference)[:, None] + graph.gather(states.linear(difference)) + self.bias
        return F.elu(self._aggregate(F.elu(on_edges), graph))

    def _aggregate(self, messages: Tensor, graph: TreeGraph) -> Tensor:
        """The MLP's second layer, if any, and sum, mean or maximum over neighbours. Sum and mean commute with it."""
        padding = graph.padding[:, :, None]
        if self.aggregation == "max":
            messages = messages if self.second is None else self.second(messages)
            return messages.masked_fill(padding, -torch.inf).amax(dim=1)
        counts = (~padding).sum(dim=1).to(messages.dtype)  # (nodes, 1)
        total = messages.masked_fill(padding, 0).sum(dim=1)
        if self.second is not None:
            total = total @ self.second.weight.T + counts * self.second.bias
        return total if self.aggregation == "sum" else total / counts


# Each is called with the numbers of inputs and outputs. A plain name is the form in the code behind the paper's tables;
# where the paper's text differs, its form is `NAME-text`. `phloem.config` lists the names too, as it never loads torch.
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
        raise BadArgument(f"unknown convolution {name}: choose one of {', '.join(CONVOLUTIONS)}.")
    return CONVOLUTIONS[name](inputs, outputs)


# A name in CONVOLUTIONS, "mlp" for none, or a class or function called with the numbers of inputs and outputs.
ConvolutionChoice = str | Callable[[int, int], Convolution]


class NodeFeatures(nn.Module):
    """Features of the nodes of trees on n taxa: raw features, `depth` convolutions, two ELU layers on every node.

    (nodes, n) → (nodes, width). Without convolutions this is the MLP variant.
    """

    def __init__(
        self, taxon_count: int, convolution: ConvolutionChoice = "edge", *, depth: int = 2, width: int = 100
    ) -> None:
        super().__init__()
        if taxon_count < 1 or depth < 0 or width < 1:
            raise BadArgument(
                f"features: depth {depth} and width {width} for {taxon_count} taxa. "
                "Give a depth of at least 0, and a width and taxa of at least 1."
            )
        if isinstance(convolution, str) and convolution not in (*CONVOLUTIONS, "mlp"):
            raise BadArgument(
                f"features: unknown convolution {convolution}. Choose one of {', '.join(CONVOLUTIONS)}, mlp."
            )
        sizes = [taxon_count] + (0 if convolution == "mlp" else depth) * [width]
        self.taxon_count = taxon_count
        self.width = width
        self.convolutions = nn.ModuleList(_make(convolution, inputs, width) for inputs in sizes[:-1])
        self.first = nn.Linear(sizes[-1], width)
        self.second = nn.Linear(width, width)

    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """Features of all nodes, (nodes, width), from their raw features."""
        return run(*self.pending_layers(states, graph), graph)

    def pending_layers(self, states: NodeStates, graph: TreeGraph) -> tuple[list[Layer], NodeStates]:
        """The layers still to be run, in one chain with those of a read-out, and the states they start from.

        Convolutions without fused layers, and everything before them, have been run.
        """
        layers: list[Layer] = []
        for convolution in cast(Iterable[Convolution], self.convolutions):
            fused = convolution.layers()
            if fused is not None:
                layers += fused
            else:
                states = DenseStates(run(layers, states, graph)) if layers else states
                states, layers = DenseStates(convolution(states, graph)), []
        return layers + self._last_layers(), states

    def layers(self) -> list[Layer] | None:
        """All layers; None if some convolution has no fused ones."""
        layers: list[Layer] = []
        for convolution in cast(Iterable[Convolution], self.convolutions):
            fused = convolution.layers()
            if fused is None:
                return None
            layers += fused
        return layers + self._last_layers()

    def _last_layers(self) -> list[Layer]:
        first, second = self.first, self.second
        return [DenseElu(first.weight, first.bias), DenseElu(second.weight, second.bias)]

    def of_topologies(self, topologies: TopologyBatch) -> tuple[Tensor, TreeGraph]:
        """Features of the nodes of binary trees, (nodes, width), and the graph of these nodes."""
        states, graph = self.raw_states(topologies)
        return self(states, graph), graph

    def of_trees(self, trees: Sequence[Tree]) -> tuple[Tensor, TreeGraph]:
        """Features of the nodes of trees of any degrees, (nodes, width), and the graph of these nodes."""
        for tree in trees:
            self.check_taxon_count(tree.leaf_count)
        graph = TreeGraph.of_trees(trees)
        return self(tree_states(trees, self.first.weight.dtype), graph), graph

    def raw_states(self, topologies: TopologyBatch) -> tuple[NodeStates, TreeGraph]:
        """The network's input: raw features, and the graph of their nodes."""
        self.check_taxon_count(topologies.taxon_count)
        return RawStates(topologies, self.first.weight.dtype), TreeGraph.of_topologies(topologies)

    def check_taxon_count(self, taxon_count: int) -> None:
        """Raise for trees on another number of taxa."""
        if taxon_count != self.taxon_count:
            raise BadArgument(f"trees on {taxon_count} taxa for a network for {self.taxon_count} taxa.")


def _make(convolution: ConvolutionChoice, inputs: int, outputs: int) -> Convolution:
    if isinstance(convolution, str):
        return build_convolution(convolution, inputs, outputs)
    if isinstance(convolution, nn.Module) or not callable(convolution):
        raise BadArgument(
            "features: give a convolution's name or class, or a function of (inputs, outputs) that makes one."
        )
    made = convolution(inputs, outputs)
    if not isinstance(made, Convolution):
        raise BadArgument(f"features: {type(made).__name__} is not a phloem.features.Convolution.")
    return made


class BranchReadout(nn.Module):
    """Outputs for every branch: the maximum of its ends' features, linear, ELU, linear.

    (nodes, width) → (branches, outputs).
    """

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, outputs)

    def layers(self) -> list[Layer]:
        """Its layers."""
        first = DenseElu(self.first.weight, self.first.bias)
        return [BranchMax(), first, Dense(self.second.weight, self.second.bias)]

    def forward(self, features: Tensor, graph: TreeGraph) -> Tensor:
        """The outputs, (branches, outputs)."""
        return run(self.layers(), DenseStates(features), graph)


class TreeReadout(nn.Module):
    """One output per tree: the sum of its nodes' features, linear, ELU, linear. (nodes, width) → (trees,)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, 1)

    def layers(self) -> list[Layer]:
        """Its layers; their result is (trees, 1)."""
        first = DenseElu(self.first.weight, self.first.bias)
        return [TreeSum(), first, Dense(self.second.weight, self.second.bias)]

    def forward(self, features: Tensor, graph: TreeGraph) -> Tensor:
        """The outputs, (trees,)."""
        return run(self.layers(), DenseStates(features), graph)[:, 0]
