"""Trees that change in place: rooted on one taxon, with the parent and the two children of every node.

The taxon at the top has one child, in column 0; leaves have children -1. A subtree is moved together with its joint,
the node that it is attached to: `cut` takes both out of the tree, `graft` puts both into a branch.
"""

import numpy as np

from phloem.arrays import IntArray
from phloem.kernels.jit import kernel


@kernel
def root_on_taxon_0(parent: IntArray) -> IntArray:
    """Turn taxon 0, in place, from a child of the root into its parent; the children of all nodes, (nodes, 2)."""
    children = np.full((len(parent), 2), -1, np.int32)
    parent[parent[0]] = 0
    parent[0] = -1
    for node in range(1, len(parent)):
        above = parent[node]
        children[above, 0 if children[above, 0] < 0 else 1] = node
    return children


@kernel
def list_from_top(children: IntArray, order: IntArray) -> int:
    """Fill `order` with all nodes below taxon 0, parents before children, and return how many there are.

    Nodes of a subtree that is cut off are not among them.
    """
    order[0] = children[0, 0]
    count = 1
    place = 0
    while place < count:
        node = order[place]
        place += 1
        if children[node, 0] >= 0:
            order[count] = children[node, 0]
            order[count + 1] = children[node, 1]
            count += 2
    return count


@kernel
def sibling_of(parent: IntArray, children: IntArray, node: int) -> int:
    """The other child of a node's parent."""
    above = parent[node]
    return children[above, 0] + children[above, 1] - node


@kernel
def cut(parent: IntArray, children: IntArray, node: int) -> int:
    """Take a subtree and its joint out; the joint's other child, which is returned, takes their place."""
    joint, sibling = parent[node], sibling_of(parent, children, node)
    top = parent[joint]
    parent[sibling] = top
    children[top, 0 if children[top, 0] == joint else 1] = sibling
    return sibling


@kernel
def graft(parent: IntArray, children: IntArray, node: int, place: int) -> None:
    """Put a subtree, with its joint, into the branch above `place`."""
    joint, top = parent[node], parent[place]
    parent[joint], parent[place] = top, joint
    children[top, 0 if children[top, 0] == place else 1] = joint
    children[joint, 0], children[joint, 1] = place, node
