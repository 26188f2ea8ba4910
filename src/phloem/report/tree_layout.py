"""Where the parts of the report's trees stand: a row a leaf, the root at the left."""

from collections.abc import Sequence
from typing import NamedTuple

from phloem.kernels.arrays import FloatArray
from phloem.trees import layout
from phloem.trees.tree import Tree


class TreeLayout(NamedTuple):
    """Places of all nodes; rows count from the top."""

    leaves: tuple[int, ...]  # from the top to the bottom
    row: FloatArray  # (nodes,)  of an interior node: midway between its first and its last child
    distance: FloatArray  # (nodes,)  from the root along the branches; a length that is not known counts as 0
    level: FloatArray  # (nodes,)  of a drawing without lengths: 0 at the root, 1 at every leaf


def lay_out(tree: Tree, lengths: FloatArray) -> TreeLayout:
    """Both drawings of a tree. Small clades stand above large ones, so that they fall to the right."""
    order = layout.ladder_order(tree.parent, tree.leaf_count)
    to_scale = layout.lay_out(tree.parent, tree.leaf_count, lengths, order)
    by_level = layout.lay_out(tree.parent, tree.leaf_count, None, order)
    return TreeLayout(tuple(order.tolist()), to_scale.y, to_scale.x, by_level.x)


def children_of(parent: Sequence[int]) -> list[list[int]]:
    """The children of every node, low numbers first."""
    children: list[list[int]] = [[] for _ in parent]
    for node, above in enumerate(parent):
        if above >= 0:
            children[above].append(node)
    return children
