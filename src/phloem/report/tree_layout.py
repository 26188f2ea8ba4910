"""Where the parts of a drawn tree stand: a row a leaf, the root at the left."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from phloem.kernels.arrays import FloatArray
from phloem.trees.tree import Tree


class TreeLayout(NamedTuple):
    """Places of all nodes; rows count from the top."""

    leaves: tuple[int, ...]  # from the top to the bottom
    row: FloatArray  # (nodes,)  of an interior node: midway between its first and its last child
    distance: FloatArray  # (nodes,)  from the root along the branches; a length that is not known counts as 0
    level: FloatArray  # (nodes,)  of a drawing without lengths: 0 at the root, 1 at every leaf


def lay_out(tree: Tree, lengths: FloatArray) -> TreeLayout:
    """Small clades stand above large ones, so that the drawing falls to the right. O(nodes log nodes)."""
    parent: list[int] = tree.parent.tolist()
    children = children_of(parent)
    nodes, root = len(parent), len(parent) - 1
    size = [1] * tree.leaf_count + [0] * (nodes - tree.leaf_count)
    least = list(range(tree.leaf_count)) + [tree.leaf_count] * (nodes - tree.leaf_count)
    height = [0] * nodes
    for node in range(root):  # children are numbered below parents
        above = parent[node]
        size[above] += size[node]
        least[above] = min(least[above], least[node])
        height[above] = max(height[above], height[node] + 1)
    leaves = _leaves_in_order(children, lambda node: (size[node], least[node]))
    row = np.zeros(nodes)
    row[list(leaves)] = np.arange(len(leaves))
    for node in range(tree.leaf_count, nodes):
        below = [row[child] for child in children[node]]
        row[node] = (min(below) + max(below)) / 2
    known = np.where(np.isfinite(lengths), lengths, 0.0)
    distance = np.zeros(nodes)
    for node in range(root - 1, -1, -1):
        distance[node] = distance[parent[node]] + known[node]
    return TreeLayout(leaves, row, distance, 1 - np.array(height) / max(1, height[root]))


def children_of(parent: Sequence[int]) -> list[list[int]]:
    """The children of every node, low numbers first."""
    children: list[list[int]] = [[] for _ in parent]
    for node, above in enumerate(parent):
        if above >= 0:
            children[above].append(node)
    return children


def _leaves_in_order(children: list[list[int]], key: Callable[[int], tuple[int, int]]) -> tuple[int, ...]:
    leaves = []
    pending = [len(children) - 1]
    while pending:
        node = pending.pop()
        if children[node]:
            pending += sorted(children[node], key=key, reverse=True)
        else:
            leaves.append(node)
    return tuple(leaves)
