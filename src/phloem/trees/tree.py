"""Trees of any degrees: polytomies and rooted trees, which a TopologyBatch cannot hold."""

from dataclasses import dataclass

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree with leaves 0..n-1, parents numbered above children, the root last, no node with a single child."""

    parent: IntArray  # (nodes,)  -1 at the root
    leaf_count: int

    def __post_init__(self) -> None:
        nodes = len(self.parent)
        above = self.parent[:-1]
        if nodes <= self.leaf_count or self.parent[-1] != -1 or (above <= np.arange(nodes - 1)).any():
            raise BadArgument("tree: parents must be numbered above their children, and the root (-1) last.")
        children = np.bincount(above, minlength=nodes)
        if len(children) > nodes or children[: self.leaf_count].any() or (children[self.leaf_count :] < 2).any():
            raise BadArgument("tree: leaves must come first, then interior nodes with two or more children each.")
        self.parent.setflags(write=False)

    @property
    def is_binary(self) -> bool:
        """Whether it is an unrooted binary tree: three neighbours at every interior node."""
        return len(self.parent) == 2 * self.leaf_count - 2


@dataclass(frozen=True, slots=True, eq=False)
class WeightedTrees:
    """Trees of any degrees on the same taxa in file order, each with a weight."""

    taxa: tuple[str, ...]
    trees: tuple[Tree, ...]
    weights: FloatArray  # (trees,)

    def distinct(self) -> "WeightedTrees":
        """Equal trees merged, in order of first appearance: their weights add up."""
        first: dict[bytes, int] = {}
        group = [first.setdefault(tree.parent.tobytes(), len(first)) for tree in self.trees]
        kept = np.unique(group, return_index=True)[1]
        weights = np.zeros(len(first))
        np.add.at(weights, group, self.weights)
        return WeightedTrees(self.taxa, tuple(self.trees[index] for index in kept), weights)
