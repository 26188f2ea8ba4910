"""Node states as convolutions take them: known as a matrix, or only through its products."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from phloem.errors import BadArgument
from phloem.features.derivatives import refuse_second_derivatives
from phloem.features.dirichlet import tree_features
from phloem.kernels.dirichlet import project_tips, project_tips_backward
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree

# From here on two passes over a tree are cheaper than products with its one-hot features (benchmarks/features.py).
FEWEST_TAXA_TO_PROJECT = 64


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
