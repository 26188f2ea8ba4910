"""Topologies from stepwise addition: taxon k goes onto one of the 2k-3 branches that are there.

Every sequence of choices gives another topology, and every topology comes from exactly one sequence,
so uniform choices give uniform topologies and counting through the choices enumerates them.
"""

import numpy as np

from phloem.kernels.arrays import IntArray
from phloem.kernels.jit import kernel


@kernel
def insert_taxa(choices: IntArray) -> IntArray:
    """Parents (batch, 2n-2) of the trees that choices (batch, n-3) describe, not yet canonical.

    While it grows, a tree hangs on taxon 0: branch j is leaf j+1's for j < k-1 and after that the interior nodes'.
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
