"""Rooting of unrooted trees, for display: at an outgroup, at the midpoint, or like another tree."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from phloem.arguments import checked
from phloem.arrays import BoolArray, FloatArray, IntArray
from phloem.errors import BadArgument, TaxonMismatch, listed
from phloem.kernels.trees.canonical import canonical_trees
from phloem.trees.consensus import SummaryTree
from phloem.trees.splits import split_bits, unpack_bits, without_first
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree, members_below


class RootedTree(NamedTuple):
    """An unrooted tree with a root. Nodes keep their numbers, so parents need not be numbered above children.

    The root is the last node: the tree's own, or a new one on a branch, which then appears twice in `branch`.
    """

    parent: IntArray  # (nodes,)  -1 at the root
    branch: IntArray  # (nodes,)  the unrooted tree's branch above each node; -1 at the root
    share: FloatArray  # (nodes,)  of that branch's length


def root_on_branch(parent: IntArray, branch: int, share: float = 0.5) -> RootedTree:
    """A new root on a branch, with `share` of its length below; branches from there to the old root are reversed."""
    root = len(parent)
    rooted = RootedTree(
        np.append(parent, np.int32(-1)),
        np.append(np.arange(root, dtype=np.int32), np.int32(-1)),
        np.ones(root + 1),
    )
    node = int(parent[branch])
    rooted.share[[branch, node]] = share, 1 - share
    rooted.parent[branch] = root
    above, taken = root, branch  # the new parent of the node, and the branch between the two
    while node >= 0:
        rooted.parent[node], rooted.branch[node] = above, taken
        above, taken, node = node, node, int(parent[node])
    return rooted


def root_split(summary: SummaryTree) -> BoolArray | None:
    """The split of the branch that the root is on, as the side without taxon 0, (n,); None for an unrooted tree."""
    if not summary.is_rooted:
        return None
    below_root = np.flatnonzero(summary.tree.parent == len(summary.tree.parent) - 1)
    split: BoolArray = without_first(members_below(summary.tree)[below_root[-1:]])[0]
    return split


def root_at_split(topology: TopologyBatch, split: BoolArray | None) -> RootedTree:
    """One topology, rooted in the middle of the branch whose split is nearest to this one.

    split: the side without taxon 0, (n,). Without a split the root stays where it is, at taxon 0's neighbour.
    """
    parent = topology.parent[0]
    if split is None:
        branch = np.arange(len(parent), dtype=np.int32)
        branch[-1] = -1
        return RootedTree(parent, branch, np.ones(len(parent)))
    sides = without_first(unpack_bits(split_bits(topology)[0], topology.taxon_count))
    return root_on_branch(parent, int((sides ^ split).sum(axis=1).argmin()))


@checked
def root_at_outgroup(summary: SummaryTree, names: str | Collection[str]) -> SummaryTree:
    """The tree rooted in the middle of the branch between the outgroup, which must be a clade, and all other taxa."""
    outgroup = _find_taxa(summary.taxa, [names] if isinstance(names, str) else list(names))
    unrooted = _unrooted(summary)
    parent, taxa, size = unrooted.tree.parent, len(outgroup), int(outgroup.sum())
    inside = _count_below(parent, outgroup)[:-1]
    below = _count_below(parent, np.ones(taxa, np.bool_))[:-1]
    # The number of taxa on the side of each branch that holds the whole outgroup; too many where neither side does.
    beside = np.where(inside == size, below, np.where(inside == 0, taxa - below, taxa + 1))
    branch = int(np.argmin(beside))
    if beside[branch] == size:
        return _rooted(unrooted, branch, 0.5)
    side = members_below(unrooted.tree)[branch] == (inside[branch] > 0)
    chosen, among = ([summary.taxa[taxon] for taxon in np.flatnonzero(of)] for of in (outgroup, side & ~outgroup))
    raise BadArgument(
        f"outgroup {listed(chosen)}: not a clade of this tree: the smallest clade that holds it also has "
        f"{listed(among)}. Name a whole clade, or a single taxon."
    )


@checked
def root_at_midpoint(summary: SummaryTree) -> SummaryTree:
    """The tree rooted halfway along the longest path between two leaves, by mean lengths.

    All longest paths have the same middle. If it is at a node, the root is at the end of a branch that leads there,
    and one half of that branch has length zero.
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
    path = np.flatnonzero(_count_below(parent, ends)[:-1] == 1)  # its branches have one of the two ends below
    low, high = distance[path], distance[parent[path]]
    branch = path[np.flatnonzero((np.minimum(low, high) <= half) & (half <= np.maximum(low, high)))[0]]
    share = abs(half - distance[branch]) / length[branch] if length[branch] > 0 else 0.5
    return _rooted(unrooted, int(branch), min(float(share), 1.0))


def _rooted(summary: SummaryTree, branch: int, share: float) -> SummaryTree:
    """With a root of degree two on a branch; both of its parts keep the support, and lengths are divided."""
    rooted = root_on_branch(summary.tree.parent, branch, share)
    statistics = _statistics(summary)[:, rooted.branch]  # the root's are not used
    statistics[1:] *= rooted.share
    return _renumbered(summary.taxa, rooted.parent, statistics, is_rooted=True)


def _unrooted(summary: SummaryTree) -> SummaryTree:
    """Without a root of degree two: its two branches become one again. Any other root stays where it is."""
    root = len(summary.tree.parent) - 1
    children = np.flatnonzero(summary.tree.parent == root)
    if len(children) > 2:
        return summary
    other, top = children  # children are numbered below their parents, so the last one is not a leaf
    parent, statistics = summary.tree.parent.copy(), _statistics(summary)
    parent[other], parent[top], parent[root] = top, -1, top  # the old root is a leaf now, and is dropped
    statistics[0, other] = np.fmin(statistics[0, other], statistics[0, top])
    statistics[1:, other] += statistics[1:, top]
    return _renumbered(summary.taxa, parent, statistics, is_rooted=False)


def _statistics(summary: SummaryTree) -> FloatArray:
    """Support, length and interval of every branch, (4, nodes)."""
    return np.stack([summary.support, summary.length, summary.lower, summary.upper])


def _renumbered(taxa: tuple[str, ...], parent: IntArray, statistics: FloatArray, *, is_rooted: bool) -> SummaryTree:
    """A summary tree from nodes in any order: children by least leaf, numbers in postorder."""
    places = np.arange(len(parent), dtype=np.float64)  # carried along as if they were lengths
    parents, origin, counts = canonical_trees(parent[None], places[None], len(taxa), True)
    count = int(counts[0])
    ordered = np.full((4, count), np.nan)
    ordered[:, :-1] = statistics[:, origin[0, : count - 1].astype(np.int64)]
    support, length, lower, upper = ordered
    return SummaryTree(taxa, Tree(parents[0, :count].copy(), len(taxa)), support, length, lower, upper, is_rooted)


def check_outgroup(names: Sequence[str], taxa: Sequence[str]) -> None:
    """Raise unless some of the taxa are named, not all."""
    if unknown := [name for name in names if name not in taxa]:
        raise TaxonMismatch(f"outgroup: {listed(unknown)} not in the tree. Use the alignment's names.")
    if not 0 < len(set(names)) < len(taxa):
        raise BadArgument("outgroup: name at least one of the taxa, but not all.")


def _find_taxa(taxa: Sequence[str], names: Sequence[str]) -> BoolArray:
    """Which of the taxa are named, (taxa,): some, not all."""
    check_outgroup(names, taxa)
    chosen: BoolArray = np.isin(np.arange(len(taxa)), [taxa.index(name) for name in names])
    return chosen


def _count_below(parent: IntArray, leaves: BoolArray) -> IntArray:
    """How many of the marked leaves are at or below each node, (nodes,)."""
    counts = [*leaves.astype(int).tolist(), *[0] * (len(parent) - len(leaves))]
    for node, above in enumerate(parent[:-1].tolist()):
        counts[above] += counts[node]
    return np.array(counts, np.int32)


def _distances(parent: IntArray, length: FloatArray, leaf: int) -> FloatArray:
    """The path length from a leaf to every node, (nodes,)."""
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
