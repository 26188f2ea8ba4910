"""Branch lengths by split and by topology: weighted means, medians and shortest intervals."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from phloem.arguments import checked
from phloem.arrays import BoolArray, FloatArray, IntArray, read_only
from phloem.errors import BadArgument
from phloem.kernels import statistics
from phloem.trees.sample import GroupedTrees, share_errors
from phloem.trees.splits import distinct_splits, unpack_bits


class Statistics(NamedTuple):
    """Of groups of weighted values; `lower` to `upper` is the shortest interval. nan for groups without weight."""

    mean: FloatArray  # (groups,)
    deviation: FloatArray  # (groups,)  standard deviation of the values, not of the mean
    median: FloatArray  # (groups,)
    lower: FloatArray  # (groups,)
    upper: FloatArray  # (groups,)


@dataclass(frozen=True, slots=True, eq=False)
class SplitLengths:
    """Every split of a sample, the n trivial ones first in taxon order, the others most frequent first.

    Statistics are weighted and over the trees that have the split; `lower` to `upper` is the shortest interval that
    holds 95 % of their weight. All but `members` are (splits,).
    """

    taxa: tuple[str, ...]
    members: BoolArray  # (splits, n)  the side without taxon 0; taxon 0's own branch has taxon 0 alone
    frequency: FloatArray  # between 0 and 1; 1 for trivial splits
    error: FloatArray  # standard, of the frequency, if the trees are independent; 0 for trivial splits
    mean: FloatArray
    deviation: FloatArray  # standard
    median: FloatArray
    lower: FloatArray
    upper: FloatArray


@checked
def split_lengths(trees: GroupedTrees, share: float = 0.95) -> SplitLengths:
    """Branch lengths of all splits; ties in frequency are in order of first appearance.

    Splits found only in trees without weight are left out.
    """
    _check_lengths(trees)
    taxon_count = trees.topologies.taxon_count
    shares, variances = trees.topology_weights(), trees.topology_variances()
    seen = shares > 0
    sets, number = distinct_splits(trees.topologies[np.flatnonzero(seen)])
    frequency, variance = (
        np.bincount(number.ravel(), np.repeat(of_topology[seen], number.shape[1]), len(sets)).astype(np.float64)
        for of_topology in (shares, variances)
    )
    frequency = np.minimum(frequency, 1.0)
    error = share_errors(frequency, variance, float(variances.sum()))
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
        np.concatenate([np.ones(taxon_count), frequency[order]]),
        np.concatenate([np.zeros(taxon_count), error[order]]),
        *statistics,
    )


def topology_lengths(trees: GroupedTrees, topology_number: int, share: float = 0.95) -> Statistics:
    """Branch lengths of one topology, each (2n-3,), over the trees that have it."""
    if not 0 <= topology_number < len(trees.topologies):
        raise BadArgument(f"topology {topology_number}: the sample has topologies 0 to {len(trees.topologies) - 1}.")
    _check_lengths(trees)
    rows = np.flatnonzero((trees.group == topology_number) & (trees.weights > 0))
    if not len(rows):
        raise BadArgument(f"topology {topology_number}: none of its trees has any weight, so its lengths are unknown.")
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


def shortest_interval(values: ArrayLike, weights: ArrayLike | None = None, share: float = 0.95) -> tuple[float, float]:
    """The shortest interval between two of the values that holds more than `share` of the weight.

    This is the highest-density interval of a sample. Without weights it holds floor(share * n) + 1 neighbouring values,
    as in ArviZ. Of equally short intervals it is the lowest; with a share of 1 it is the whole range. Values without
    weight are ignored.
    """
    _, _, _, lower, upper = _describe(values, weights, share)
    return lower, upper


def weighted_median(values: ArrayLike, weights: ArrayLike | None = None) -> float:
    """The value with half of the weight on either side; if two values qualify, their middle."""
    return _describe(values, weights, 1.0)[2]


def _describe(values: ArrayLike, weights: ArrayLike | None, share: float) -> tuple[float, ...]:
    held = np.asarray(values, np.float64)
    shares = np.ones(held.shape) if weights is None else np.asarray(weights, np.float64)
    if held.ndim != 1 or shares.shape != held.shape:
        raise BadArgument(
            f"interval: values of shape {held.shape} and weights of shape {shares.shape}. Give one weight per value."
        )
    if not (np.isfinite(held).all() and np.isfinite(shares).all() and (shares >= 0).all() and shares.any()):
        raise BadArgument("interval: give finite values, and weights that are not negative and not all zero.")
    one = np.zeros(len(held), np.int32)
    return tuple(
        float(part[0]) for part in describe_groups(held[:, None], shares, one, np.zeros((1, 1), np.int32), 1, share)
    )


def describe_groups(
    values: FloatArray, weights: FloatArray, kind: IntArray, groups: IntArray, group_count: int, share: float
) -> Statistics:
    """Statistics of many groups at once, O(m log m) for m values.

    values: (rows, columns); weights and kind: (rows,); groups: (kinds, columns). All values of a row have its weight,
    and the value in a column belongs to group groups[kind, column].
    """
    check_share(share)
    held = read_only(np.ascontiguousarray(values, np.float64))
    described = statistics.describe_groups(
        held,
        np.argsort(held, axis=None, kind="stable"),
        read_only(np.ascontiguousarray(weights, np.float64)),
        read_only(np.ascontiguousarray(kind, np.int32)),
        read_only(np.ascontiguousarray(groups, np.int32)),
        group_count,
        float(share),
    )
    return Statistics(*np.ascontiguousarray(described.T))


def check_share(share: float) -> None:
    """Raise unless an interval can hold this share of the weight."""
    if not 0 < share <= 1:
        raise BadArgument(f"interval with {share:g} of the weight: give a number above 0 and up to 1.")
