"""Splits by the names of their taxa, and which of them a tree has."""

import numpy as np

from phloem.kernels.arrays import BoolArray, IntArray
from phloem.trees.summary_tree import SummaryTree
from phloem.trees.tree import Tree


def members_below(tree: Tree) -> BoolArray:
    """The taxa below every node, (nodes, n)."""
    members = np.zeros((len(tree.parent), tree.leaf_count), np.bool_)
    members[np.arange(tree.leaf_count), np.arange(tree.leaf_count)] = True
    for node, above in enumerate(tree.parent[:-1].tolist()):  # children are numbered below parents
        members[above] |= members[node]
    return members


def without_first(members: BoolArray) -> BoolArray:
    """Of each split the side without taxon 0, (splits, n), whichever side is given."""
    return np.asarray(members ^ members[:, :1])


def split_keys(members: BoolArray) -> list[bytes]:
    """What tells splits apart, whichever of their sides are given."""
    return [row.tobytes() for row in np.packbits(without_first(members), axis=1)]


def consensus_keys(consensus: SummaryTree) -> set[bytes]:
    """The splits of a tree's branches."""
    return set(split_keys(members_below(consensus.tree)[:-1]))


def smaller_side(members: BoolArray) -> IntArray:
    """The taxa of a split's smaller side; of two equal ones that without taxon 0."""
    taxa = len(members)
    inside = members if not members[0] else ~members
    if 2 * int(inside.sum()) > taxa:
        inside = ~inside
    return np.flatnonzero(inside).astype(np.int32)
