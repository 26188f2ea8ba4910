"""Summary trees: majority rule, its greedy extension, maximum clade credibility, with supports and lengths."""

from dataclasses import dataclass

import numpy as np

from phloem.arguments import check_fields, checked
from phloem.arrays import BoolArray, FloatArray
from phloem.errors import BadArgument, TaxonMismatch
from phloem.kernels.trees import clades
from phloem.trees.branch_lengths import SplitLengths
from phloem.trees.sample import ROUNDING, TreeSample
from phloem.trees.splits import SplitFrequencies, distinct_splits, pack_members
from phloem.trees.tree import Tree, canonical_tree


@checked
def majority_rule(splits: SplitFrequencies, threshold: float = 0.5) -> Tree:
    """The tree of all splits more frequent than `threshold`, from 0.5 to 1; at 1, of the splits in every tree.

    Any two of them are in some tree together, so they are compatible. Where no split is frequent enough, the tree has a
    polytomy.
    """
    if not 0.5 <= threshold <= 1:
        raise BadArgument(
            f"majority rule: threshold {threshold:g}: give a number from 0.5 to 1. Rarer splits may be incompatible: "
            "the extended majority rule takes those that are not."
        )
    least = min(threshold + ROUNDING, 1 - ROUNDING)
    return _tree_of(splits.members[splits.frequencies > least])


@checked
def extended_majority_rule(splits: SplitFrequencies) -> Tree:
    """The tree of splits taken greedily: the most frequent first, each if it is compatible with those before.

    Ties are tried in the given order. Splits of frequency zero are left out, so the tree has a polytomy where no split
    of the sample resolves it.
    """
    order = np.argsort(-splits.frequencies, kind="stable")
    members = splits.members[order[splits.frequencies[order] > 0]]
    most = max(0, len(splits.taxa) - 3)
    return _tree_of(members[clades.choose_compatible(pack_members(members), most)])


@checked
def maximum_clade_credibility(topologies: TreeSample, splits: SplitFrequencies) -> Tree:
    """The sampled topology with the largest product of split frequencies.

    Of several, the most probable one, and of those the first.
    """
    if topologies.taxa != splits.taxa:
        raise TaxonMismatch("maximum clade credibility: trees and splits must have the same taxa in the same order.")
    distinct = topologies.distinct()
    sets, number = distinct_splits(distinct.topologies)
    known = pack_members(splits.members)
    _, group = clades.group_sets(np.concatenate([known, sets]))
    frequencies = np.zeros(len(known) + len(sets))
    frequencies[group[: len(known)]] = splits.frequencies
    with np.errstate(divide="ignore"):
        log_frequencies = np.log(frequencies[group[len(known) :]])
    scores = np.sort(log_frequencies[number], axis=1).sum(axis=1)  # sorted: equal terms have equal sums
    best = float(scores.max(initial=-np.inf))
    if best == -np.inf:
        raise BadArgument(
            "maximum clade credibility: every tree has a split of frequency zero. Give the splits of the same sample."
        )
    candidates = np.flatnonzero(scores >= best - ROUNDING)
    winner = candidates[np.argmax(distinct.weights[candidates])]
    return Tree(distinct.topologies.parent[winner], len(topologies.taxa))


def _tree_of(clades: BoolArray) -> Tree:
    """The tree with these nontrivial splits, as sides without taxon 0, which must be compatible."""
    count, taxon_count = clades.shape
    root = taxon_count + count
    parent = np.empty(root + 1, np.int32)
    parent[root] = -1
    above = np.full(taxon_count, root, np.int32)  # the smallest clade so far that holds each taxon
    for place, row in enumerate(np.argsort(-clades.sum(axis=1), kind="stable")):
        inside = np.flatnonzero(clades[row])
        node = root - 1 - place
        parent[node] = above[inside[0]]
        if (above[inside] != parent[node]).any():
            raise BadArgument(
                "consensus: these splits are incompatible, so their frequencies are not those of a sample."
            )
        above[inside] = node
    parent[:taxon_count] = above
    return canonical_tree(parent, taxon_count)


@dataclass(frozen=True, slots=True, eq=False)
class SummaryTree:
    """A tree with the support and length of every branch; a branch has the number of its lower node.

    A pendant branch has support 1. The length is the mean over the trees that have the branch's split, and `lower` to
    `upper` is the shortest interval with 95 % of their weight. Unknown values, and those of the root, are nan.
    Unless `is_rooted`, the root has no meaning: it is only where a drawing starts.
    """

    taxa: tuple[str, ...]
    tree: Tree
    support: FloatArray  # (nodes,)
    length: FloatArray  # (nodes,)
    lower: FloatArray  # (nodes,)
    upper: FloatArray  # (nodes,)
    is_rooted: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        nodes = len(self.tree.parent)
        if len(self.taxa) != self.tree.leaf_count:
            raise BadArgument(f"summary tree: {len(self.taxa)} names for {self.tree.leaf_count} taxa.")
        if any(part.shape != (nodes,) for part in (self.support, self.length, self.lower, self.upper)):
            raise BadArgument(f"summary tree: supports and lengths must be of shape ({nodes},).")


@checked
def summary_tree(tree: Tree, lengths: SplitLengths) -> SummaryTree:
    """A tree, unrooted, with the supports and lengths of its branches in a sample.

    A branch that no tree of the sample has gets support 0.
    """
    taxon_count = len(lengths.taxa)
    if tree.leaf_count != taxon_count:
        raise BadArgument(f"summary tree: a tree of {tree.leaf_count} taxa and branch lengths for {taxon_count}.")
    unrooted = canonical_tree(tree.parent, tree.leaf_count)
    sets = clades.clade_bits(unrooted.parent[None], taxon_count)[0, taxon_count:-1]
    place = {row.tobytes(): number for number, row in enumerate(pack_members(lengths.members))}
    found = np.array([place.get(row.tobytes(), -1) for row in sets], np.int64)
    branches = np.concatenate([np.arange(taxon_count), found, [-1]])

    def of_branches(statistic: FloatArray, otherwise: float) -> FloatArray:
        values = np.where(branches >= 0, statistic[branches], otherwise)
        values[-1] = np.nan
        return values

    return SummaryTree(
        lengths.taxa,
        unrooted,
        of_branches(lengths.frequency, 0),
        of_branches(lengths.mean, np.nan),
        of_branches(lengths.lower, np.nan),
        of_branches(lengths.upper, np.nan),
    )
