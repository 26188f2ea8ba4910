"""Parsimony trees made better: every subtree in turn is cut off and goes back where it costs least.

The tree hangs on taxon 0. A subtree with the set b at its root costs one change on a branch where edge ∩ b is empty, as
a taxon does in parsimony.py, whose rows of sets these are. O(n² · patterns) a round over all subtrees.
"""

import numpy as np

from phloem.kernels.arrays import ByteArray, IntArray, LongArray
from phloem.kernels.jit import kernel
from phloem.kernels.parsimony import cost, join, padded
from phloem.kernels.pointers import at


@kernel
def regraft_subtrees(states: ByteArray, weights: LongArray, parent: IntArray, most_rounds: int) -> IntArray:
    """Parents (2n-2,) of a tree that no move of a subtree improves, from one with taxon 0's neighbour as the root.

    Subtrees are those without taxon 0. Of branches that are equally good the first from the top is taken. It ends after
    `most_rounds` at the latest.
    """
    nodes = len(parent)
    below, short_weights = padded(states, weights, nodes)
    above, edge = np.empty_like(below), np.empty_like(below)
    order = np.empty(nodes, np.int32)
    own = parent.copy()
    children = _hang_on_taxon_0(own)
    for _ in range(most_rounds):
        improved = False
        for node in range(1, nodes):
            if own[node] == 0:
                continue
            _fill_below(children, order, below)
            sibling = _cut(node, own, children)
            _fill_rest(own[sibling], own, children, order, below, above, edge)
            place = _best_place(node, sibling, children, order, below, edge, short_weights)
            _graft(node, place, own, children)
            improved = improved or place != sibling
        if not improved:
            break
    top = children[0, 0]
    own[0], own[top] = top, -1
    return own


@kernel
def _hang_on_taxon_0(parent):
    """Turn taxon 0 from a child of the root into its parent; the children of all nodes."""
    children = np.full((len(parent), 2), -1, np.int32)
    parent[parent[0]] = 0
    parent[0] = -1
    for node in range(1, len(parent)):
        above = parent[node]
        children[above, 0 if children[above, 0] < 0 else 1] = node
    return children


@kernel
def _list_from_top(children, order):
    """All nodes but taxon 0, parents before children, and how many there are."""
    order[0] = children[0, 0]
    count = 1
    place = 0
    while place < count:
        for column in range(2):
            child = children[order[place], column]
            if child >= 0:
                order[count] = child
                count += 1
        place += 1
    return count


@kernel
def _fill_below(children, order, below):
    """The set at every interior node, from its subtree."""
    width = below.shape[1]
    for place in range(_list_from_top(children, order) - 1, -1, -1):
        node = order[place]
        if children[node, 0] >= 0:
            _fill_one(node, children, below, width)


@kernel
def _fill_one(node, children, below, width):
    left, right = at(below, children[node, 0] * width), at(below, children[node, 1] * width)
    join(at(below, node * width), left, right, width)


@kernel
def _cut(node, parent, children):
    """Take a subtree and the node that it hangs on out; that node's other child takes its place, and is returned."""
    joint = parent[node]
    sibling = children[joint, 0] if children[joint, 1] == node else children[joint, 1]
    top = parent[joint]
    parent[sibling] = top
    children[top, 0 if children[top, 0] == joint else 1] = sibling
    return sibling


@kernel
def _graft(node, place, parent, children):
    """Put a subtree that was cut off, with the node that it hangs on, into the branch above `place`."""
    joint, top = parent[node], parent[place]
    parent[joint], parent[place] = top, joint
    children[top, 0 if children[top, 0] == place else 1] = joint
    children[joint, 0], children[joint, 1] = place, node


@kernel
def _fill_rest(changed, parent, children, order, below, above, edge):
    """All rows of the tree without the subtree; `below` has changed from one node upwards."""
    width = below.shape[1]
    while changed > 0:
        _fill_one(changed, children, below, width)
        changed = parent[changed]
    count = _list_from_top(children, order)
    for place in range(count):
        node = order[place]
        top = parent[node]
        if top == 0:
            above[node] = below[0]
        else:
            sibling = children[top, 0] if children[top, 1] == node else children[top, 1]
            join(at(above, node * width), at(above, top * width), at(below, sibling * width), width)
        join(at(edge, node * width), at(below, node * width), at(above, node * width), width)
    return count


@kernel
def _best_place(node, sibling, children, order, below, edge, weights):
    """Where the subtree costs least; where it was if no branch is better."""
    width = below.shape[1]
    own, counts = at(below, node * width), at(weights, 0)
    best = sibling
    least = cost(at(edge, sibling * width), own, counts, width)
    for place in range(_list_from_top(children, order)):
        other = cost(at(edge, order[place] * width), own, counts, width)
        if other < least:
            least = other
            best = order[place]
    return best
