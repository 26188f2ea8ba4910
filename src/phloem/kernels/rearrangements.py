"""Nearest-neighbour interchange on canonical parent arrays."""

import numpy as np

from phloem.kernels.arrays import IntArray, LongArray
from phloem.kernels.jit import kernel


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
    """Of each tree the interchange of that number, (batch, 2n-2), not yet canonical."""
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
