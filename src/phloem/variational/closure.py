"""What a set of splits can build: every subsplit of which both halves and their union are sides of known splits.

From the subsplits of a sample come the trees that recombine them; from its splits alone come all trees whose splits
were all seen, each perhaps in another tree. Of a wide posterior no sample has the trees, but many have the splits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, IntArray, LongArray, WordArray
from phloem.kernels.trees.clades import hash_sets
from phloem.kernels.variational import closure as kernels
from phloem.kernels.variational.subsplits import make_index
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.sample import TreeSample
from phloem.trees.splits import distinct_splits, pack_members, unpack_bits, without_first
from phloem.trees.topology import taxon_keys

MOST_IDENTICAL = 8  # taxa of a group of which every part is taken: they have 247, with 3,025 divisions


class ClosedParts(NamedTuple):
    """The parts of a closed support; see `SubsplitSupport`.

    Clade i is the first side of split i, clade splits + i the second. Splits come from the frequent to the rare, after
    those of single taxa and of one tree, and subsplits with the rarest of their splits.
    """

    clades: WordArray
    splits: IntArray
    subsplits: IntArray
    splits_left_out: int


def close_splits(
    sample: TreeSample,
    identical: Sequence[LongArray],
    most_entries: int,
    constraints: TopologyConstraints | None = None,
) -> ClosedParts:
    """The closure of the splits of distinct topologies: it generates exactly the trees whose splits are all seen.

    identical: groups of taxa that the data cannot tell apart. Every part of one counts as seen, unless the group has
    more than `MOST_IDENTICAL` taxa. constraints: that the trees satisfy, with which such parts must fit.

    Where that takes more than `most_entries` table entries, the least frequent splits are left out, of equally
    frequent ones the last to appear, and with them whatever is part of no tree without them. The splits of the tree
    with the largest product of frequencies always stay.
    """
    taxon_count = len(sample.taxa)
    sets, number = distinct_splits(sample.topologies)
    order = _most_frequent_first(number, sample.weights, len(sets))
    parts = _parts_of_groups(identical, taxon_count, constraints)
    known = {row.tobytes() for row in sets}
    new = np.array([row.tobytes() not in known for row in parts], np.bool_)
    sets = np.concatenate([sets[order[: taxon_count - 3]], parts[new], sets[order[taxon_count - 3 :]]])
    members = _with_single_taxa(sets, taxon_count)
    first, _ = _search(members, taxon_count, 0)
    needed = np.arange(1, len(members) + 1) + 3 * np.cumsum(first)  # entries of the first splits, by their number
    least = 2 * taxon_count - 3
    kept = max(least, int(np.searchsorted(needed, most_entries, side="right")))
    members = members[:kept]
    _, divisions = _search(members, taxon_count, int(first[:kept].sum()))
    clades, splits, subsplits = _parts(members, divisions, taxon_count)
    return ClosedParts(clades, splits, subsplits, taxon_count + len(sets) - len(splits))


def _most_frequent_first(number: LongArray, weights: FloatArray, split_count: int) -> LongArray:
    """The splits of the tree with the largest product of frequencies, then the others, from frequent to rare."""
    frequencies = np.bincount(number.ravel(), np.repeat(weights, number.shape[1]), minlength=split_count)
    logs = np.log(np.maximum(frequencies, np.finfo(float).tiny))
    best = number[logs[number].sum(axis=1).argmax()]
    priority = frequencies.copy()
    priority[best] = np.inf
    return np.argsort(-priority, kind="stable")


def _parts_of_groups(
    groups: Sequence[LongArray], taxon_count: int, constraints: TopologyConstraints | None
) -> WordArray:
    """The sides without taxon 0 of all splits that cut off two or more taxa of one group."""
    rows = [np.zeros((0, taxon_count), np.bool_)]
    for group in groups:
        if len(group) <= MOST_IDENTICAL:
            has = np.arange(1 << len(group))[:, None] >> np.arange(len(group)) & 1 == 1
            members = np.zeros((len(has), taxon_count), np.bool_)
            members[:, group] = has
            sizes = members.sum(axis=1)
            rows.append(members[(sizes > 1) & (sizes < taxon_count - 1)])
    sides = np.concatenate(rows)
    if constraints is not None:
        sides = sides[constraints.fit(sides)]
    return pack_members(np.unique(without_first(sides), axis=0))


def _with_single_taxa(sets: WordArray, taxon_count: int) -> WordArray:
    """The sides without taxon 0 of the splits of single taxa, then these sets. Split 0 has all taxa but taxon 0."""
    taxa = np.arange(taxon_count)
    single = np.zeros((taxon_count, sets.shape[1]), np.uint64)
    single[taxa, taxa // 64] = np.uint64(1) << (taxa % 64).astype(np.uint64)
    single[0] = np.bitwise_or.reduce(single[1:], axis=0)
    return np.concatenate([single, sets])


def _search(members: WordArray, taxon_count: int, count: int) -> tuple[LongArray, IntArray]:
    """How many divisions need each split and none after it; and `count` of them, which is all or none."""
    hashes = hash_sets(members, taxon_keys(taxon_count))
    rarest = kernels.rarest_taxa(members, taxon_count)
    listed = np.lexsort((_sizes(members, taxon_count), rarest)).astype(np.int32)
    starts = np.searchsorted(rarest[listed], np.arange(taxon_count + 1))
    last, divisions = np.empty(len(members), np.int64), np.empty((count, 3), np.int32)
    kernels.find_divisions(members, hashes, make_index(hashes), listed, starts, rarest, last, divisions)
    return last, divisions


def _parts(members: WordArray, divisions: IntArray, taxon_count: int) -> tuple[WordArray, IntArray, IntArray]:
    """Both sides of the splits that are part of some tree, and the three subsplits of each of their divisions."""
    from_small_to_large = np.argsort(_sizes(members, taxon_count)[divisions[:, 0]], kind="stable")
    divisions = divisions[from_small_to_large]
    divisions = divisions[kernels.usable_divisions(divisions, len(members), taxon_count)]
    divisions = divisions[np.argsort(divisions.max(axis=1), kind="stable")]  # by the rarest of their splits
    used = np.zeros(len(members), np.bool_)
    used[divisions] = True
    splits = int(used.sum())
    upper, one, other = (np.cumsum(used, dtype=np.int32) - 1)[divisions].T
    outer = np.where(upper == 0, 0, splits + upper)  # the taxa outside of the divided clade
    subsplits = np.stack([one, other, one, outer, other, outer], axis=1).reshape(-1, 2)
    first_sides = members[used]
    whole = np.bitwise_or.reduce(first_sides, axis=0) | np.uint64(1)
    first_sides[0] ^= whole  # taxon 0 alone
    numbers = np.arange(splits, dtype=np.int32)
    return (
        np.concatenate([first_sides, first_sides ^ whole]),
        np.stack([numbers, numbers + np.int32(splits)], axis=1),
        np.sort(subsplits.astype(np.int32), axis=1),
    )


def _sizes(sets: WordArray, taxon_count: int) -> LongArray:
    return np.asarray(unpack_bits(sets, taxon_count).sum(axis=1))
