"""Trees as the lengths of their splits, and moves on them: nothing is moved, all that is written down is what changes.

A split is its side without leaf 0; that of leaf 0's own branch has all other leaves.
"""

from collections import defaultdict

import numpy as np

from phloem.trees.topology import TopologyBatch
from reference.nested import Nested, leaves, nontrivial_splits, with_leaf

Splits = dict[frozenset[int], float]


def from_splits(splits: Splits) -> tuple[TopologyBatch, np.ndarray]:
    """The tree that has these splits, with its lengths (2n-3,)."""
    clades = sorted(splits, key=lambda clade: (len(clade), min(clade)))
    taxa = len(clades[-1]) + 1
    interior = [clade for clade in clades if len(clade) > 1]
    number = {clade: min(clade) for clade in clades if len(clade) == 1}
    number |= {clade: taxa + place for place, clade in enumerate(interior)}
    parent = np.full((1, 2 * taxa - 2), -1, np.int32)
    lengths = np.full((1, 2 * taxa - 2), np.nan)
    for place, clade in enumerate(clades):
        around = [other for other in clades[place + 1 :] if clade < other]
        parent[0, number[clade]] = number[around[0]] if around else -1
        lengths[0, number[clade]] = splits[clade]
    parent[0, 0] = number[interior[-1]]
    lengths[0, 0] = splits[interior[-1]]
    topology, ordered = TopologyBatch.with_lengths(parent, lengths)
    return topology, ordered[0]


def clade_of(parent: np.ndarray, node: int) -> frozenset[int]:
    """The leaves at or below a node of a tree with taxon 0's neighbour as its root, without leaf 0."""
    leaf_count = len(parent) // 2 + 1
    found = set()
    for leaf in range(1, leaf_count):
        above = leaf
        while above not in (node, -1):
            above = int(parent[above])
        if above == node:
            found.add(leaf)
    return frozenset(found)


def regrafted(splits: Splits, moved: frozenset[int], place: frozenset[int], length: float) -> Splits:
    """The subtree of a clade hung, with a branch of that length, on the middle of another branch of the rest."""
    everything = frozenset().union(*splits) | {0}
    rest: Splits = defaultdict(float)
    after: Splits = {}
    for clade, own in splits.items():
        if clade < moved:
            after[clade] = own
        elif clade != moved and clade - moved != everything - moved:
            rest[clade - moved] += own
    after[moved] = length
    for clade, own in rest.items():
        if clade == place:
            after[clade] = after[clade | moved] = own / 2
        else:
            after[clade | moved if place < clade else clade] = own
    return after


def subtree_moves(topology: TopologyBatch) -> dict[frozenset[int], set[frozenset[frozenset[int]]]]:
    """For each side of each branch, by its leaves, the other topologies that hang it elsewhere on the rest."""
    taxa, parent, neighbors = topology.taxon_count, topology.parent[0].tolist(), topology.neighbors[0].tolist()

    def seen_from(node: int, origin: int) -> Nested:
        if node < taxa:
            return node
        return tuple(seen_from(other, node) for other in neighbors[node] if other != origin)

    moves = {}
    for node, above in enumerate(parent[:-1]):
        for inside, outside in ((node, above), (above, node)):
            subtree, rest = seen_from(inside, outside), seen_from(outside, inside)
            own = nontrivial_splits((subtree, *rest) if isinstance(rest, tuple) else (*subtree, rest))
            grown = with_leaf(_unrooted(rest), subtree) if len(leaves(rest)) > 2 else ()
            moves[leaves(subtree)] = {nontrivial_splits(tree) for tree in grown} - {own}
    return moves


def _unrooted(tree: Nested) -> Nested:
    larger, other = tree if isinstance(tree[0], tuple) else tree[::-1]
    return (*larger, other)
