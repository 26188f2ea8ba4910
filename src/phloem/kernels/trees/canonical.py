"""Canonical numbering: equal unrooted topologies become equal arrays.

Leaves keep their taxon numbers 0..n-1. The root is taxon 0's neighbour, children come in order of
their least leaf, and interior nodes are numbered from n in postorder, so the root has the last number.
"""

import numpy as np

from phloem.arrays import FloatArray, IntArray
from phloem.kernels.jit import kernel


@kernel
def reroot_at_taxon_0(parent: IntArray, length: FloatArray, root: int) -> int:
    """Turn the parent pointers towards taxon 0's neighbour, in place, and return the new root.

    A root of degree two is a point on a branch, not a node: it is taken out (no node points to it any more) and its
    two branches become one.
    """
    degree_two = True
    children = 0
    for node in range(len(parent)):
        if parent[node] == root:
            children += 1
            if children > 2:
                degree_two = False
                break
    below, node = 0, parent[0]
    new_root = node
    above = parent[node]
    carried = length[node]
    parent[node] = -1
    while above >= 0:  # reverse each pointer on the path from taxon 0's neighbour to the old root
        below, node = node, above
        above = parent[node]
        parent[node] = below
        carried, length[node] = length[node], carried
    if not degree_two:
        return new_root
    other = 0  # the old root's only child now
    for child in range(len(parent)):
        if parent[child] == root and child != 0:
            other = child
    if new_root == root:  # taxon 0 was a child of the old root: its branch continues to the other child
        parent[0] = other
        length[0] += length[other]
        parent[other] = -1
        return other
    parent[other] = parent[root]
    length[other] += length[root]
    return new_root


@kernel
def _number_nodes(parent: IntArray, root: int, leaf_count: int, scratch: IntArray) -> int:
    """Fill scratch[0] with each node's canonical number (-1 where not in the tree); return the node count.

    Linear in the number of nodes, whatever the degrees: climbing from leaf 0, 1, 2, … until a visited
    node appends every node to its parent's list exactly in order of least leaves.
    """
    number, first_child, last_child, next_sibling = scratch[0], scratch[1], scratch[2], scratch[3]
    for node in range(len(parent)):
        first_child[node] = -1
        next_sibling[node] = -1
        number[node] = -1
    for leaf in range(leaf_count):
        node = leaf
        while node != root:
            above = parent[node]
            if first_child[above] < 0:
                first_child[above] = node
                last_child[above] = node
                node = above
            else:
                next_sibling[last_child[above]] = node
                last_child[above] = node
                break
    following = leaf_count
    node = root
    while True:
        while first_child[node] >= 0:
            node = first_child[node]
        number[node] = node
        while next_sibling[node] < 0 and node != root:
            node = parent[node]
            number[node] = following
            following += 1
        if node == root:
            return following
        node = next_sibling[node]


@kernel
def write_canonical(
    parent: IntArray,
    length: FloatArray,
    root: int,
    leaf_count: int,
    keep_root: bool,
    scratch: IntArray,
    canonical_parent: IntArray,
    canonical_length: FloatArray,
) -> int:
    """Write one tree in canonical form and return its node count; `parent` and `length` are overwritten.

    `scratch` is (4, nodes or more). Lengths are not written if `canonical_length` is empty. With `keep_root` the
    tree keeps its root, whatever its degree.
    """
    if not keep_root:
        root = reroot_at_taxon_0(parent, length, root)
    count = _number_nodes(parent, root, leaf_count, scratch)
    number = scratch[0]
    canonical_parent[count - 1] = -1
    for node in range(len(parent)):
        if number[node] >= 0 and node != root:
            canonical_parent[number[node]] = number[parent[node]]
            if len(canonical_length) > 0:
                canonical_length[number[node]] = length[node]
    return count


@kernel
def canonical_trees(
    raw: IntArray, raw_lengths: FloatArray, leaf_count: int, keep_root: bool
) -> tuple[IntArray, FloatArray, IntArray]:
    """Canonical parents, lengths and node counts of trees with any interior numbering and any interior root.

    The outputs have the shapes of the inputs; raw_lengths is (batch, nodes), or (batch, 0) for none. A tree whose root
    of degree two was taken out has one node less than before.
    """
    batch, nodes = raw.shape
    parents = np.full((batch, nodes), -1, np.int32)
    lengths = np.full(raw_lengths.shape, np.nan)
    counts = np.empty(batch, np.int32)
    parent = np.empty(nodes, np.int32)
    length = np.zeros(nodes)
    scratch = np.empty((4, nodes), np.int32)
    for tree in range(batch):
        root = 0
        for node in range(nodes):
            parent[node] = raw[tree, node]
            if parent[node] < 0:
                root = node
        if raw_lengths.shape[1] > 0:
            length[:] = raw_lengths[tree]
        counts[tree] = write_canonical(
            parent, length, root, leaf_count, keep_root, scratch, parents[tree], lengths[tree]
        )
    return parents, lengths, counts


@kernel
def neighbors_of(parents: IntArray) -> IntArray:
    """Neighbour table of canonical binary trees: column 0 leads to taxon 0, columns 1 and 2 away from it.

    At the root, column 0 is taxon 0 itself. Children come in order of their least leaf.
    """
    batch, nodes = parents.shape
    leaf_count = nodes // 2 + 1
    neighbors = np.full((batch, nodes, 3), -1, np.int32)
    filled = np.empty(nodes, np.int32)
    for tree in range(batch):
        parent = parents[tree]
        table = neighbors[tree]
        for node in range(nodes - 1):
            table[node, 0] = parent[node]
            filled[node] = 0
        filled[nodes - 1] = -1
        for leaf in range(leaf_count):
            node = leaf
            while node != nodes - 1:
                above = parent[node]
                filled[above] += 1
                table[above, filled[above]] = node
                if filled[above] != (0 if above == nodes - 1 else 1):
                    break
                node = above
    return neighbors
