"""Topologies by stepwise addition and by nearest-neighbour interchange, as parent arrays.

Taxon k goes onto one of the 2k-3 branches that are there. Every sequence of choices gives another topology, and every
topology comes from exactly one sequence, so uniform choices give uniform topologies, and counting through the choices
enumerates them.
"""

import numpy as np

from phloem.arrays import IntArray, LongArray
from phloem.kernels.jit import kernel


@kernel
def insert_taxa(choices: IntArray) -> IntArray:
    """Parents (batch, 2n-2) of the trees that choices (batch, n-3) describe, not yet canonical.

    A growing tree is rooted on taxon 0. Of k taxa, branch j is that of leaf j+1 for j < k-1, then of interior nodes.
    """
    batch = choices.shape[0]
    leaf_count = choices.shape[1] + 3
    parents = np.empty((batch, 2 * leaf_count - 2), np.int32)
    for tree in range(batch):
        parent = parents[tree]
        parent[leaf_count] = 0
        parent[1] = leaf_count
        parent[2] = leaf_count
        for taxon in range(3, leaf_count):
            branch = choices[tree, taxon - 3]
            below = branch + 1 if branch < taxon - 1 else leaf_count + branch - (taxon - 1)
            added = leaf_count + taxon - 2
            parent[added] = parent[below]
            parent[below] = added
            parent[taxon] = added
        for node in range(leaf_count, 2 * leaf_count - 2):
            if parent[node] == 0:
                parent[node] = -1
                parent[0] = node
    return parents


@kernel
def interchange(parents: IntArray, neighbors: IntArray) -> IntArray:
    """Both interchanges across every interior branch, (batch · 2(n-3), 2n-2), not yet canonical."""
    batch, nodes = parents.shape
    moves = nodes - 4
    changed = np.empty((batch * moves, nodes), np.int32)
    for tree in range(batch):
        for move in range(moves):
            _interchange(parents[tree], neighbors[tree], move, changed[tree * moves + move])
    return changed


@kernel
def interchange_one(parents: IntArray, neighbors: IntArray, moves: LongArray) -> IntArray:
    """One interchange of each tree, by number, (batch, 2n-2), not yet canonical."""
    changed = np.empty_like(parents)
    for tree in range(len(parents)):
        _interchange(parents[tree], neighbors[tree], moves[tree], changed[tree])
    return changed


@kernel
def _interchange(parent, neighbors, move, changed):
    """Branch v below p: one of v's two children changes places with v's sibling.

    Column 0 of the neighbour table leads to taxon 0, also at the root, so the sibling is always in column 1 or 2.
    """
    node = len(parent) // 2 + 1 + move // 2
    above = parent[node]
    sibling = neighbors[above, 1]
    if sibling == node:
        sibling = neighbors[above, 2]
    child = neighbors[node, 1 + move % 2]
    changed[:] = parent
    changed[child] = above
    changed[sibling] = node
