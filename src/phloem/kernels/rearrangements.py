"""Nearest-neighbour interchange on canonical parent arrays."""

import numpy as np

from phloem.kernels.arrays import IntArray
from phloem.kernels.jit import kernel


@kernel
def interchange(parents: IntArray, neighbors: IntArray) -> IntArray:
    """Both interchanges across every interior branch, (batch · 2(n-3), 2n-2), not yet canonical.

    Branch v below p: one of v's two children changes places with v's sibling. Column 0 of the neighbour
    table leads to taxon 0, also at the root, so the sibling is always in column 1 or 2.
    """
    batch, nodes = parents.shape
    leaf_count = nodes // 2 + 1
    changed = np.empty((batch * 2 * (leaf_count - 3), nodes), np.int32)
    row = 0
    for tree in range(batch):
        for node in range(leaf_count, nodes - 1):
            above = parents[tree, node]
            sibling = neighbors[tree, above, 1]
            if sibling == node:
                sibling = neighbors[tree, above, 2]
            for column in range(1, 3):
                child = neighbors[tree, node, column]
                changed[row] = parents[tree]
                changed[row, child] = above
                changed[row, sibling] = node
                row += 1
    return changed
