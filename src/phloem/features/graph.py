"""Trees as one graph: the nodes of a batch in a row, each with its neighbours, and their states."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import FloatArray, IntArray
from phloem.autograd import refuse_second_derivatives
from phloem.errors import BadArgument
from phloem.features.raw import tree_features
from phloem.kernels.features.dirichlet import project_tips, project_tips_backward
from phloem.kernels.features.layers import join_trees
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree

# From here on two passes over a tree are cheaper than products with its one-hot features (benchmarks/features.py).
FEWEST_TAXA_TO_PROJECT = 64


@dataclass(frozen=True, eq=False)
class TreeGraph:
    """All nodes of some trees, tree after tree, with the neighbours of each and the branches between them.

    Neighbours are padded with -1 after the last. Branches come tree by tree, in the order of their lower nodes.
    """

    neighbors: IntArray  # (nodes, width)
    branches: IntArray  # (branches, 2)  lower and upper end
    tree_starts: IntArray  # (trees + 1,)  where each tree's nodes begin

    def __post_init__(self) -> None:
        for array in (self.neighbors, self.branches, self.tree_starts):
            if array.dtype != np.int32 or not array.flags.c_contiguous:
                raise BadArgument("graph: contiguous arrays of 32-bit integers are needed.")
        nodes, slots = np.nonzero(self.neighbors >= 0)
        pairs = np.stack([nodes, self.neighbors[nodes, slots]], axis=1)
        mutual = np.array_equal(np.unique(pairs, axis=0), np.unique(pairs[:, ::-1], axis=0))
        gaps = (np.diff((self.neighbors < 0).astype(np.int8), axis=1) < 0).any()
        if not mutual or gaps or (self.degrees < 1).any() or pairs.max(initial=0) >= len(self.neighbors):
            raise BadArgument("graph: neighbours must be each other's, at least one each, and padded after the last.")
        if self.branches.size and not 0 <= self.branches.min() <= self.branches.max() < len(self.neighbors):
            raise BadArgument("graph: branches must end in its nodes.")

    @classmethod
    def of_topologies(cls, topologies: TopologyBatch) -> "TreeGraph":
        """Binary trees: (batch · (2n-2)) nodes of degree 1 or 3."""
        batch, nodes = topologies.parent.shape
        graph = object.__new__(cls)  # known to be right, and made in every training step
        neighbors, branches = join_trees(topologies.neighbors)
        object.__setattr__(graph, "neighbors", neighbors)
        object.__setattr__(graph, "branches", branches)
        object.__setattr__(graph, "tree_starts", np.arange(0, (batch + 1) * nodes, nodes, dtype=np.int32))
        return graph

    @classmethod
    def of_trees(cls, trees: Sequence[Tree]) -> "TreeGraph":
        """Trees of any degrees."""
        if not trees:
            raise BadArgument("graph: no trees given.")
        starts = np.concatenate([[0], np.cumsum([len(tree.parent) for tree in trees])]).astype(np.int32)
        lower = np.concatenate(
            [np.arange(len(tree.parent) - 1) + start for tree, start in zip(trees, starts[:-1], strict=True)]
        )
        upper = np.concatenate([tree.parent[:-1] + start for tree, start in zip(trees, starts[:-1], strict=True)])
        branches = np.stack([lower, upper], axis=1).astype(np.int32)
        ends = np.concatenate([branches, branches[:, ::-1]])
        ends = ends[np.argsort(ends[:, 0], kind="stable")]
        degrees = np.bincount(ends[:, 0], minlength=starts[-1])
        firsts = np.concatenate([[0], np.cumsum(degrees)[:-1]])
        table = np.full((starts[-1], degrees.max()), -1, np.int32)
        table[ends[:, 0], np.arange(len(ends)) - firsts[ends[:, 0]]] = ends[:, 1]
        return cls(table, branches, starts)

    @property
    def node_count(self) -> int:
        return len(self.neighbors)

    @cached_property
    def degrees(self) -> IntArray:
        """Number of neighbours of each node, (nodes,)."""
        counts: IntArray = (self.neighbors >= 0).sum(axis=1, dtype=np.int32)
        return counts

    @cached_property
    def mean_scale(self) -> FloatArray:
        """1 / d for every node's number of neighbours d, (nodes,)."""
        return 1 / self.degrees

    @cached_property
    def symmetric_scale(self) -> FloatArray:
        """1 / √(1 + d) for every node's number of neighbours d, (nodes,)."""
        return 1 / np.sqrt(1.0 + self.degrees)

    @cached_property
    def neighbor_index(self) -> Tensor:
        """The neighbour table for torch's indexing, (nodes, width): node 0 stands where there is padding."""
        return torch.from_numpy(np.maximum(self.neighbors, 0).astype(np.int64))

    @cached_property
    def padding(self) -> Tensor:
        """True where the neighbour table has no neighbour, (nodes, width)."""
        return torch.from_numpy(self.neighbors < 0)

    def gather(self, states: Tensor) -> Tensor:
        """The states of each node's neighbours, (nodes, width, channels); what stands in padding means nothing."""
        return states[self.neighbor_index]


class NodeStates(ABC):
    """The states h of all nodes of a graph, (nodes, channels).

    `source` is the tensor that gradients flow back to, None for states that depend on no parameter.
    """

    source: Tensor | None
    node_count: int
    dtype: torch.dtype

    @abstractmethod
    def product(self, weight: Tensor) -> Tensor:
        """W·h for every node, (nodes, outputs), from weight (outputs, channels); for steps that know its gradient."""

    @abstractmethod
    def weight_gradient(self, gradient: Tensor) -> Tensor:
        """The gradient for the weight, (outputs, channels), from that of the product, (nodes, outputs)."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The states themselves, (nodes, channels), for reading only."""

    def linear(self, weight: Tensor) -> Tensor:
        """W·h for every node, (nodes, outputs), from weight (outputs, channels)."""
        result: Tensor = _Linear.apply(self.source, weight, self)
        return result

    def states_gradient(self, gradient: Tensor, weight: Tensor) -> Tensor | None:
        """The gradient for the source, (nodes, channels), from that of the product, where it is needed."""
        return None if self.source is None or not self.source.requires_grad else gradient @ weight


@final
class DenseStates(NodeStates):
    """States as a matrix."""

    def __init__(self, states: Tensor) -> None:
        self.source = states
        self.node_count = len(states)
        self.dtype = states.dtype

    def product(self, weight: Tensor) -> Tensor:
        """W·h for every node."""
        return self.dense() @ weight.T

    def weight_gradient(self, gradient: Tensor) -> Tensor:
        """The gradient for the weight."""
        return gradient.T @ self.dense()

    def dense(self) -> Tensor:
        """The states themselves."""
        assert self.source is not None
        return self.source


@final
class RawStates(NodeStates):
    """The raw features of topologies, one channel a taxon: every interior node is the mean of its neighbours.

    W·h is the solution for tips that are W's columns, so that big trees' features, (2n-2)·n numbers a tree, need not be
    formed.
    """

    source = None

    def __init__(self, topologies: TopologyBatch, dtype: torch.dtype) -> None:
        if dtype not in (torch.float32, torch.float64):
            raise BadArgument(f"raw features: {dtype}. Use single or double precision.")
        self._topologies = topologies
        self.node_count = topologies.parent.size
        self.dtype = dtype
        self._features: Tensor | None = None
        if topologies.taxon_count < FEWEST_TAXA_TO_PROJECT:
            self._features = self.dense()

    def product(self, weight: Tensor) -> Tensor:
        """W·h for every node."""
        if self._features is not None:
            return self._features @ weight.T
        rows = project_tips(self._topologies.neighbors, weight.T.contiguous().numpy())
        return torch.from_numpy(rows.reshape(-1, len(weight)))

    def weight_gradient(self, gradient: Tensor) -> Tensor:
        """The gradient for the weight."""
        if self._features is not None:
            return gradient.T @ self._features
        rows = gradient.contiguous().numpy().reshape(*self._topologies.parent.shape, -1)
        return torch.from_numpy(project_tips_backward(self._topologies.neighbors, rows)).T

    def dense(self) -> Tensor:
        """The features themselves, (nodes, taxa)."""
        if self._features is not None:
            return self._features
        taxa = self._topologies.taxon_count
        one_hot = np.eye(taxa, dtype=np.float32 if self.dtype == torch.float32 else np.float64)
        return torch.from_numpy(project_tips(self._topologies.neighbors, one_hot).reshape(-1, taxa))


def tree_states(trees: Sequence[Tree], dtype: torch.dtype) -> DenseStates:
    """The raw features of trees of any degrees on the same taxa."""
    return DenseStates(torch.from_numpy(np.concatenate([tree_features(tree) for tree in trees])).to(dtype))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _source: Tensor | None, weight: Tensor, states: NodeStates) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.states = states
        return states.product(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        (weight,) = ctx.saved_tensors
        return ctx.states.states_gradient(gradient, weight), ctx.states.weight_gradient(gradient), None
