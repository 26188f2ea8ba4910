"""One tree for many: majority rule, greedy extension, and the sampled tree with the best splits."""

import numpy as np

from phloem.errors import BadArgument, TaxonMismatch
from phloem.kernels import bit_sets
from phloem.kernels.arrays import BoolArray
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitFrequencies, distinct_splits, pack_members
from phloem.trees.tree import Tree, canonical_tree

# Frequencies are sums of many weights: one that is this near a line has not crossed it.
ROUNDING = 1e-9


def majority_rule(splits: SplitFrequencies, threshold: float = 0.5) -> Tree:
    """The tree of all splits that are more frequent than `threshold`, from 0.5 up to 1; at 1, of those in every tree.

    Any two of them are in some tree together, so they fit. Where no split is as frequent the tree has a polytomy.
    """
    if not 0.5 <= threshold <= 1:
        raise BadArgument(
            f"majority rule: threshold {threshold:g}: give a number from 0.5 to 1. Rarer splits may contradict each "
            "other: the extended majority rule takes those that fit."
        )
    line = min(threshold + ROUNDING, 1 - ROUNDING)
    frequent = splits.members[splits.frequencies > line]
    return _tree_of(frequent)


def extended_majority_rule(splits: SplitFrequencies) -> Tree:
    """The tree of splits taken greedily: the most frequent first, each if it fits those before it.

    Equally frequent ones are tried in the given order. Splits of frequency zero are left out, so the tree has a
    polytomy where nothing that was seen resolves it.
    """
    order = np.argsort(-splits.frequencies, kind="stable")
    members = splits.members[order[splits.frequencies[order] > 0]]
    most = max(0, len(splits.taxa) - 3)
    return _tree_of(members[bit_sets.choose_compatible(pack_members(members), most)])


def maximum_clade_credibility(topologies: TreeSample, splits: SplitFrequencies) -> Tree:
    """The sampled topology with the largest product of split frequencies.

    Of equally good ones it is the most probable, and of those the first.
    """
    if topologies.taxa != splits.taxa:
        raise TaxonMismatch("maximum clade credibility: trees and splits must have the same taxa in the same order.")
    distinct = topologies.distinct()
    sets, number = distinct_splits(distinct.topologies)
    known = pack_members(splits.members)
    _, group = bit_sets.group_sets(np.concatenate([known, sets]))
    frequencies = np.zeros(len(known) + len(sets))
    frequencies[group[: len(known)]] = splits.frequencies
    with np.errstate(divide="ignore"):
        log_frequencies = np.log(frequencies[group[len(known) :]])
    scores = np.sort(log_frequencies[number], axis=1).sum(axis=1)  # sorted: equal terms have equal sums
    best = float(scores.max(initial=-np.inf))
    if best == -np.inf:
        raise BadArgument("maximum clade credibility: every tree has a split of frequency zero. Give its own splits.")
    candidates = np.flatnonzero(scores >= best - ROUNDING)
    winner = candidates[np.argmax(distinct.weights[candidates])]
    return Tree(distinct.topologies.parent[winner], len(topologies.taxa))


def _tree_of(clades: BoolArray) -> Tree:
    """The tree whose nontrivial splits have these sides without taxon 0, which must fit together."""
    count, taxon_count = clades.shape
    root = taxon_count + count
    parent = np.empty(root + 1, np.int32)
    parent[root] = -1
    above = np.full(taxon_count, root, np.int32)  # the smallest clade so far that each taxon is in
    for place, row in enumerate(np.argsort(-clades.sum(axis=1), kind="stable")):
        inside = np.flatnonzero(clades[row])
        node = root - 1 - place
        parent[node] = above[inside[0]]
        if (above[inside] != parent[node]).any():
            raise BadArgument("consensus: these splits contradict each other, so they are not frequencies of a sample.")
        above[inside] = node
    parent[:taxon_count] = above
    return canonical_tree(parent, taxon_count)
