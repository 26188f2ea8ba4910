"""Branch lengths by split: over all trees that have a branch, whatever the rest of them is like."""

from dataclasses import dataclass

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels.arrays import BoolArray, FloatArray
from phloem.trees.grouped import GroupedTrees
from phloem.trees.intervals import Statistics, describe_groups
from phloem.trees.splits import distinct_splits, unpack_bits


@dataclass(frozen=True, slots=True, eq=False)
class SplitLengths:
    """Every split of a sample, the n trivial ones first in taxon order, the others most frequent first.

    Statistics are over the trees that have the split, by weight; `lower` to `upper` is the shortest interval that holds
    95 % of their weight. All but `members` are (splits,).
    """

    taxa: tuple[str, ...]
    members: BoolArray  # (splits, n)  the side without taxon 0; taxon 0's own branch has taxon 0 alone
    frequency: FloatArray  # between 0 and 1; 1 for trivial splits
    mean: FloatArray
    deviation: FloatArray  # standard
    median: FloatArray
    lower: FloatArray
    upper: FloatArray


def split_lengths(trees: GroupedTrees, share: float = 0.95) -> SplitLengths:
    """How long the branches of all splits are; splits that are as frequent come as they first appear.

    Splits that only trees without weight have are left out.
    """
    _check_lengths(trees)
    taxon_count = trees.topologies.taxon_count
    shares = trees.topology_weights()
    seen = shares > 0
    sets, number = distinct_splits(trees.topologies[np.flatnonzero(seen)])
    frequency = np.bincount(number.ravel(), np.repeat(shares[seen], number.shape[1]), minlength=len(sets))
    order = np.argsort(-frequency, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    groups = np.zeros((len(seen), trees.topologies.branch_count), np.int32)
    groups[:, :taxon_count] = np.arange(taxon_count)
    groups[seen, taxon_count:] = taxon_count + rank[number]
    statistics = describe_groups(
        trees.branch_lengths, trees.weights, trees.group, groups, taxon_count + len(sets), share
    )
    return SplitLengths(
        trees.taxa,
        np.concatenate([np.eye(taxon_count, dtype=np.bool_), unpack_bits(sets[order], taxon_count)]),
        np.concatenate([np.ones(taxon_count), np.minimum(frequency[order], 1)]),
        *statistics,
    )


def topology_lengths(trees: GroupedTrees, topology_number: int, share: float = 0.95) -> Statistics:
    """How long the branches of one of the topologies are, each (2n-3,), over the trees that have this topology."""
    if not 0 <= topology_number < len(trees.topologies):
        raise BadArgument(f"topology {topology_number}: the sample has topologies 0 to {len(trees.topologies) - 1}.")
    _check_lengths(trees)
    rows = np.flatnonzero((trees.group == topology_number) & (trees.weights > 0))
    if not len(rows):
        raise BadArgument(f"topology {topology_number}: none of its trees has any weight, so nothing is known of it.")
    branches = trees.topologies.branch_count
    one = np.zeros(len(rows), np.int32)
    branch = np.arange(branches, dtype=np.int32)[None]
    return describe_groups(trees.branch_lengths[rows], trees.weights[rows], one, branch, branches, share)


def tree_lengths(trees: GroupedTrees) -> FloatArray:
    """The sum of each tree's branch lengths, (trees,)."""
    return np.asarray(trees.branch_lengths.sum(axis=1))


def _check_lengths(trees: GroupedTrees) -> None:
    if not np.isfinite(trees.branch_lengths).all():
        raise BadArgument("branch lengths: every branch of every tree needs a finite length.")
