"""A number for the topology of a tree that hangs on taxon 0, and for those one interchange away.

A clade's key is the XOR of its taxa's keys; a topology's is the sum of its interior clades' keys, each mixed first. An
interchange replaces one clade, and so its key costs three operations.
"""

import numpy as np

from phloem.kernels.arrays import IntArray, WordArray
from phloem.kernels.jit import kernel
from phloem.kernels.partials import TreeTables, list_from_top, sibling_of


@kernel
def _mix(key):
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014)."""
    mixed = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@kernel
def topology_keys(tree: TreeTables, taxon_keys: WordArray, moves: IntArray) -> WordArray:
    """The key of the tree itself, and then those of the trees that the moves lead to."""
    clades = np.zeros(len(tree.parent), np.uint64)
    clades[: len(taxon_keys)] = taxon_keys
    keys = np.zeros(1 + len(moves), np.uint64)
    count = list_from_top(tree)
    for place in range(count - 1, -1, -1):
        node = tree.order[place]
        if tree.children[node, 0] >= 0:
            clades[node] = clades[tree.children[node, 0]] ^ clades[tree.children[node, 1]]
            keys[0] += _mix(clades[node])
    for place in range(len(moves)):
        node = moves[place] // 2
        kept = tree.children[node, 1 - moves[place] % 2]
        keys[1 + place] = keys[0] - _mix(clades[node]) + _mix(clades[kept] ^ clades[sibling_of(tree, node)])
    return keys
