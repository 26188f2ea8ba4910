"""Trees of any degrees, polytomies and rooted trees included, which a TopologyBatch cannot hold."""

from dataclasses import dataclass

import numpy as np

from phloem.arguments import check_fields
from phloem.arrays import BoolArray, FloatArray, IntArray, read_only
from phloem.errors import BadArgument
from phloem.kernels.trees.canonical import canonical_trees


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree with leaves 0..n-1, parents numbered above children, the root last, no node with a single child."""

    parent: IntArray  # (nodes,)  -1 at the root
    leaf_count: int

    def __post_init__(self) -> None:
        check_fields(self)
        nodes = len(self.parent)
        above = self.parent[:-1]
        if nodes <= self.leaf_count or self.parent[-1] != -1 or (above <= np.arange(nodes - 1)).any():
            raise BadArgument("tree: parents must be numbered above their children, and the root (-1) last.")
        children = np.bincount(above, minlength=nodes)
        if len(children) > nodes or children[: self.leaf_count].any() or (children[self.leaf_count :] < 2).any():
            raise BadArgument("tree: leaves must come first, then interior nodes with two or more children each.")
        object.__setattr__(self, "parent", read_only(self.parent))

    @property
    def is_binary(self) -> bool:
        """Whether it is an unrooted binary tree, with three neighbours at every interior node."""
        children = np.bincount(self.parent[:-1], minlength=len(self.parent))[self.leaf_count :]
        return bool((children[:-1] == 2).all() and children[-1] == 3)


def canonical_tree(parent: IntArray, leaf_count: int) -> Tree:
    """An unrooted tree from parents in any interior numbering: equal trees are equal arrays.

    The root is leaf 0's neighbour, children come in order of their least leaf, interior nodes are numbered in
    postorder. A root of degree two is removed.
    """
    no_lengths = np.empty((1, 0))
    parents, _, counts = canonical_trees(np.array(parent, np.int32, ndmin=2), no_lengths, leaf_count, False)
    return Tree(parents[0, : counts[0]].copy(), leaf_count)


def members_below(tree: Tree) -> BoolArray:
    """The taxa at or below every node, (nodes, n)."""
    members = np.zeros((len(tree.parent), tree.leaf_count), np.bool_)
    np.fill_diagonal(members, True)
    for node, above in enumerate(tree.parent[:-1].tolist()):  # children are numbered below parents
        members[above] |= members[node]
    return members


def check_weights(weights: FloatArray, trees: int) -> None:
    """Raise unless every tree has one finite weight that is not negative."""
    if weights.shape != (trees,) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise BadArgument("trees: every tree needs one finite weight that is not negative.")


@dataclass(frozen=True, slots=True, eq=False)
class WeightedTrees:
    """Trees of any degrees on the same taxa in file order, each with a weight >= 0."""

    taxa: tuple[str, ...]
    trees: tuple[Tree, ...]
    weights: FloatArray  # (trees,)

    def __post_init__(self) -> None:
        check_fields(self)
        if len(set(self.taxa)) != len(self.taxa) or any(tree.leaf_count != len(self.taxa) for tree in self.trees):
            raise BadArgument(f"trees: {len(set(self.taxa))} distinct names do not fit the trees' leaves.")
        check_weights(self.weights, len(self.trees))
        object.__setattr__(self, "weights", read_only(self.weights))

    def distinct(self) -> "WeightedTrees":
        """Equal trees merged, in order of first appearance: weights are added."""
        first: dict[bytes, int] = {}
        group = [first.setdefault(tree.parent.tobytes(), len(first)) for tree in self.trees]
        kept = np.unique(group, return_index=True)[1]
        weights = np.zeros(len(first))
        np.add.at(weights, group, self.weights)
        return WeightedTrees(self.taxa, tuple(self.trees[index] for index in kept), weights)
