"""Roots for display: on the branch to an outgroup, or halfway along the longest path."""

from collections.abc import Collection, Sequence

import numpy as np

from phloem.arrays import BoolArray, FloatArray, IntArray
from phloem.errors import BadArgument, TaxonMismatch, listed
from phloem.kernels.trees.canonical import canonical_trees
from phloem.trees.consensus import SummaryTree
from phloem.trees.tree import Tree


def root_at_outgroup(summary: SummaryTree, names: str | Collection[str]) -> SummaryTree:
    """The tree with a root in the middle of the branch between these taxa, which must be a clade, and all others."""
    outgroup = _find_taxa(summary.taxa, [names] if isinstance(names, str) else list(names))
    unrooted = _unrooted(summary)
    parent, taxa, size = unrooted.tree.parent, len(outgroup), int(outgroup.sum())
    inside = _sum_below(parent, outgroup)[:-1]
    below = _sum_below(parent, np.ones(taxa, np.bool_))[:-1]
    # How many taxa are on that side of each branch which has the whole outgroup; too many where neither has.
    beside = np.where(inside == size, below, np.where(inside == 0, taxa - below, taxa + 1))
    branch = int(np.argmin(beside))
    if beside[branch] == size:
        return _with_root_on(unrooted, branch, 0.5)
    side = _leaves_below(parent, branch, taxa) == (inside[branch] > 0)
    chosen, among = ([summary.taxa[taxon] for taxon in np.flatnonzero(of)] for of in (outgroup, side & ~outgroup))
    raise BadArgument(
        f"outgroup {listed(chosen)}: no branch of this tree divides these taxa from all others: {listed(among)} would "
        "be among them. Name a whole clade, or a single taxon."
    )


def root_at_midpoint(summary: SummaryTree) -> SummaryTree:
    """The tree with a root halfway along the longest path between two leaves, by mean lengths.

    All paths that are as long have the same middle. Where it is at a node, the root is at the end of a branch that
    leads there, and one half of that has length zero.
    """
    unrooted = _unrooted(summary)
    parent, length, taxa = unrooted.tree.parent, unrooted.length, len(summary.taxa)
    if not (length[:-1] >= 0).all():
        raise BadArgument("midpoint: every branch needs a length that is not negative. Name an outgroup instead.")
    one = int(np.argmax(_distances(parent, length, 0)[:taxa]))
    distance = _distances(parent, length, one)
    other = int(np.argmax(distance[:taxa]))
    half = distance[other] / 2
    ends = np.zeros(taxa, np.bool_)
    ends[[one, other]] = True
    path = np.flatnonzero(_sum_below(parent, ends)[:-1] == 1)  # its branches have one of the two ends below
    low, high = distance[path], distance[parent[path]]
    branch = path[np.flatnonzero((np.minimum(low, high) <= half) & (half <= np.maximum(low, high)))[0]]
    share = abs(half - distance[branch]) / length[branch] if length[branch] > 0 else 0.5
    return _with_root_on(unrooted, int(branch), min(float(share), 1.0))


def _with_root_on(summary: SummaryTree, branch: int, share: float) -> SummaryTree:
    """A root of degree two on a branch, with `share` of its length below. What is known of a branch stays with it."""
    root = len(summary.tree.parent)
    parent = np.append(summary.tree.parent, np.int32(-1))
    known = np.column_stack([_known(summary), np.full(4, np.nan)])
    node, carried = int(parent[branch]), known[:, branch].copy()
    parent[branch] = root
    above, parent[node] = int(parent[node]), root
    known[1:, branch] *= share
    carried[1:] *= 1 - share
    while True:  # turn each pointer on the way to the old root
        known[:, node], carried = carried, known[:, node].copy()
        if above < 0:
            return _renumbered(summary.taxa, parent, known, is_rooted=True)
        below, node = node, above
        above, parent[node] = int(parent[node]), below


def _unrooted(summary: SummaryTree) -> SummaryTree:
    """The tree without a root of degree two: its branches become one again. Other roots stay where they are."""
    root = len(summary.tree.parent) - 1
    children = np.flatnonzero(summary.tree.parent == root)
    if len(children) > 2:
        return summary
    other, top = children  # children are numbered below their parents, so the last one is no leaf
    parent, known = summary.tree.parent.copy(), _known(summary)
    parent[other], parent[top], parent[root] = top, -1, top  # nothing hangs on the old root any more
    known[0, other] = np.fmin(known[0, other], known[0, top])
    known[1:, other] += known[1:, top]
    return _renumbered(summary.taxa, parent, known, is_rooted=False)


def _known(summary: SummaryTree) -> FloatArray:
    """Support, length and interval of every branch, (4, nodes)."""
    return np.stack([summary.support, summary.length, summary.lower, summary.upper])


def _renumbered(taxa: tuple[str, ...], parent: IntArray, known: FloatArray, *, is_rooted: bool) -> SummaryTree:
    """A summary tree from nodes in any order: children by least leaf, numbers in postorder."""
    places = np.arange(len(parent), dtype=np.float64)  # carried along as if they were lengths
    parents, origin, counts = canonical_trees(parent[None], places[None], len(taxa), True)
    count = int(counts[0])
    ordered = np.full((4, count), np.nan)
    ordered[:, :-1] = known[:, origin[0, : count - 1].astype(np.int64)]
    support, length, lower, upper = ordered
    return SummaryTree(taxa, Tree(parents[0, :count].copy(), len(taxa)), support, length, lower, upper, is_rooted)


def _find_taxa(taxa: Sequence[str], names: Sequence[str]) -> BoolArray:
    """Which of the taxa are named, (taxa,): some, not all."""
    if unknown := [name for name in names if name not in taxa]:
        raise TaxonMismatch(f"outgroup: {listed(unknown)} not in the tree. Give names as the alignment has them.")
    chosen = np.isin(np.arange(len(taxa)), [taxa.index(name) for name in names])
    if not chosen.any() or chosen.all():
        raise BadArgument("outgroup: give one or more of the taxa, but not all.")
    return chosen


def _sum_below(parent: IntArray, leaves: BoolArray) -> IntArray:
    """How many of the marked leaves are at or below each node, (nodes,)."""
    counts = [*leaves.astype(int).tolist(), *[0] * (len(parent) - len(leaves))]
    for node, above in enumerate(parent[:-1].tolist()):
        counts[above] += counts[node]
    return np.array(counts, np.int32)


def _leaves_below(parent: IntArray, node: int, leaf_count: int) -> BoolArray:
    """The leaves at or below a node, (leaves,)."""
    below = np.zeros(len(parent), np.bool_)
    below[node] = True
    for lower in range(node - 1, -1, -1):
        below[lower] = below[parent[lower]]
    return below[:leaf_count]


def _distances(parent: IntArray, length: FloatArray, leaf: int) -> FloatArray:
    """The sum of lengths from a leaf to every node, (nodes,)."""
    distance = np.full(len(parent), np.nan)
    distance[leaf] = 0
    node = leaf
    while (above := int(parent[node])) >= 0:
        distance[above] = distance[node] + length[node]
        node = above
    for lower in range(len(parent) - 2, -1, -1):
        if np.isnan(distance[lower]):
            distance[lower] = distance[parent[lower]] + length[lower]
    return distance
