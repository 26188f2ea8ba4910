"""Learnable topological features (Zhang 2023): raw features, rounds of message passing, an MLP on every node."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from torch import Tensor, nn

from phloem.errors import BadArgument
from phloem.features.convolutions import CONVOLUTIONS, Convolution, build_convolution
from phloem.features.graph import DenseStates, NodeStates, RawStates, TreeGraph, tree_states
from phloem.features.layers import BranchMax, Dense, DenseElu, Step, TreeSum, run
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree

# A name of the registry, "mlp" for none, or what makes one from its numbers of inputs and outputs: a class will do.
ConvolutionChoice = str | Callable[[int, int], Convolution]


class NodeFeatures(nn.Module):
    """Features of the nodes of trees on n taxa: h⁰ raw, `depth` convolutions, then two layers with ELU on every node.

    (nodes, n) → (nodes, width). Without any convolution this is the MLP variant.
    """

    def __init__(
        self, taxon_count: int, convolution: ConvolutionChoice = "edge", *, depth: int = 2, width: int = 100
    ) -> None:
        super().__init__()
        if taxon_count < 1 or depth < 0 or width < 1:
            raise BadArgument(
                f"features: {depth} convolutions of width {width} on {taxon_count} taxa. Give 0 or more of at least 1."
            )
        if isinstance(convolution, str) and convolution not in (*CONVOLUTIONS, "mlp"):
            raise BadArgument(f"features: {convolution}? Choose one of {', '.join(CONVOLUTIONS)} or mlp.")
        sizes = [taxon_count] + (0 if convolution == "mlp" else depth) * [width]
        self.taxon_count = taxon_count
        self.width = width
        self.convolutions = nn.ModuleList(_make(convolution, inputs, width) for inputs in sizes[:-1])
        self.first = nn.Linear(sizes[-1], width)
        self.second = nn.Linear(width, width)

    def forward(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """Features of all nodes, (nodes, width), from their raw features."""
        return run(*self.pending(states, graph), graph)

    def pending(self, states: NodeStates, graph: TreeGraph) -> tuple[list[Step], NodeStates]:
        """The last steps, to be run in one chain with those of a read-out, and the states that they begin with.

        Convolutions that are not made of steps, and what comes before them, are done by then.
        """
        steps: list[Step] = []
        for convolution in cast(Iterable[Convolution], self.convolutions):
            fused = convolution.steps()
            if fused is not None:
                steps += fused
            else:
                states = DenseStates(run(steps, states, graph)) if steps else states
                states, steps = DenseStates(convolution(states, graph)), []
        steps += [DenseElu(self.first.weight, self.first.bias), DenseElu(self.second.weight, self.second.bias)]
        return steps, states

    def of_topologies(self, topologies: TopologyBatch) -> tuple[Tensor, TreeGraph]:
        """Features of the nodes of binary trees, tree after tree, and the graph that they are on."""
        states, graph = self.raw_states(topologies)
        return self(states, graph), graph

    def of_trees(self, trees: Sequence[Tree]) -> tuple[Tensor, TreeGraph]:
        """Features of the nodes of trees of any degrees, tree after tree, and the graph that they are on."""
        for tree in trees:
            self.check_taxon_count(tree.leaf_count)
        graph = TreeGraph.of_trees(trees)
        return self(tree_states(trees, self.first.weight.dtype), graph), graph

    def raw_states(self, topologies: TopologyBatch) -> tuple[NodeStates, TreeGraph]:
        """What the network begins with: raw features, and the graph that they are on."""
        self.check_taxon_count(topologies.taxon_count)
        return RawStates(topologies, self.first.weight.dtype), TreeGraph.of_topologies(topologies)

    def check_taxon_count(self, taxon_count: int) -> None:
        """Raise for trees on another number of taxa."""
        if taxon_count != self.taxon_count:
            raise BadArgument(f"trees on {taxon_count} taxa for features of trees on {self.taxon_count}.")


def _make(convolution: ConvolutionChoice, inputs: int, outputs: int) -> Convolution:
    if isinstance(convolution, str):
        return build_convolution(convolution, inputs, outputs)
    if isinstance(convolution, nn.Module) or not callable(convolution):
        raise BadArgument("features: give a convolution's name or class, or what makes one from (inputs, outputs).")
    made = convolution(inputs, outputs)
    if not isinstance(made, Convolution):
        raise BadArgument(f"features: {type(made).__name__} is not a phloem.Convolution.")
    return made


class BranchReadout(nn.Module):
    """Numbers for every branch: the maximum of its ends' features, linear, ELU, linear.

    (nodes, width) → (branches, outputs).
    """

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, outputs)

    def steps(self) -> list[Step]:
        """What it does, with its parameters."""
        first = DenseElu(self.first.weight, self.first.bias)
        return [BranchMax(), first, Dense(self.second.weight, self.second.bias)]

    def forward(self, features: Tensor, graph: TreeGraph) -> Tensor:
        """The numbers, (branches, outputs)."""
        return run(self.steps(), DenseStates(features), graph)


class TreeReadout(nn.Module):
    """One number for every tree: the sum of its nodes' features, linear, ELU, linear. (nodes, width) → (trees,)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, 1)

    def steps(self) -> list[Step]:
        """What it does, with its parameters; the result is (trees, 1)."""
        first = DenseElu(self.first.weight, self.first.bias)
        return [TreeSum(), first, Dense(self.second.weight, self.second.bias)]

    def forward(self, features: Tensor, graph: TreeGraph) -> Tensor:
        """The numbers, (trees,)."""
        return run(self.steps(), DenseStates(features), graph)[:, 0]
