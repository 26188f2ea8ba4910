"""The search for everything that some splits can build: which unions of two known clades are known clades too.

A split is written as its side without taxon 0, that of taxon 0 itself as all other taxa: clades of trees rooted on
taxon 0. A division is a clade in two, (upper, one, other) by the numbers of the three splits; with the complement of
the upper clade it is a tripartition of the taxa, an interior node of an unrooted tree.
"""

import numpy as np

from phloem.arrays import BoolArray, IntArray, LongArray, WordArray
from phloem.kernels.jit import Pointer, at, kernel
from phloem.kernels.variational.subsplits import PairIndex, find, open_index


@kernel
def rarest_taxa(sets: WordArray, taxon_count: int) -> IntArray:
    """Of each set, the taxon that the fewest sets hold; the lowest of several."""
    holding = np.zeros(taxon_count, np.int64)
    for row in range(len(sets)):
        for taxon in range(taxon_count):
            holding[taxon] += holds(sets, row, taxon)
    rarest = np.empty(len(sets), np.int32)
    for row in range(len(sets)):
        best = -1
        for taxon in range(taxon_count):
            if holds(sets, row, taxon) and (best < 0 or holding[taxon] < holding[best]):
                best = taxon
        rarest[row] = best
    return rarest


@kernel
def holds(sets, row, taxon):
    """Whether a bit set has a taxon."""
    return (sets[row, taxon // 64] >> np.uint64(taxon % 64)) & np.uint64(1) != 0


@kernel
def find_divisions(
    sets: WordArray,
    hashes: WordArray,
    index: PairIndex,
    listed: IntArray,
    starts: LongArray,
    rarest: IntArray,
    last: LongArray,
    divisions: IntArray,
) -> None:
    """Every division of every set into two of them; in `divisions` (count, 3), unless that has length 0.

    sets (splits, words) are distinct, hashes theirs, `index` finds a set by its hash. `listed` has the sets by their
    rarest taxon, those of taxon t from starts[t], each list from small to large. last[s] is how many divisions need
    split s and none with a higher number.

    One half of a set has its rarest taxon, which is then the rarest of that half too: only that list is searched. The
    other half is the difference, whose hash is the exclusive or of two that are known.
    """
    words = sets.shape[1]
    opened = open_index(index)
    bits = at(sets, 0)
    found = 0
    last[:] = 0
    for upper in range(len(sets)):
        for place in range(starts[rarest[upper]], starts[rarest[upper] + 1]):
            one = listed[place]
            if one == upper:  # what follows is as large or larger
                break
            if not is_within(bits, one, upper, words):
                continue
            other = find(opened, hashes[upper, 0] ^ hashes[one, 0], hashes[upper, 1] ^ hashes[one, 1])
            if other < 0 or not make_up(bits, one, other, upper, words):
                continue
            last[max(upper, one, other)] += 1
            if len(divisions) > 0:
                divisions[found, 0] = upper
                divisions[found, 1] = min(one, other)
                divisions[found, 2] = max(one, other)
                found += 1


@kernel
def is_within(bits: Pointer, one: int, upper: int, words: int) -> bool:
    """Whether a set has no taxon that another lacks."""
    word = 0
    while word < words and bits[one * words + word] & ~bits[upper * words + word] == 0:
        word += 1
    return word == words


@kernel
def make_up(bits: Pointer, one: int, other: int, upper: int, words: int) -> bool:
    """Whether two sets are disjoint and have a third for their union."""
    for word in range(words):
        first, second = bits[one * words + word], bits[other * words + word]
        if first & second or first | second != bits[upper * words + word]:
            return False
    return True


@kernel
def usable_divisions(divisions: IntArray, split_count: int, leaf_count: int) -> BoolArray:
    """Which divisions some tree has: both halves can be divided on to single taxa, and the clade is part of a tree.

    divisions: (count, 3), from small clades to large ones. Splits 0 to leaf_count-1 are those of single taxa, and
    split 0 is the clade of all other taxa.
    """
    divisible = np.zeros(split_count, np.bool_)
    divisible[1:leaf_count] = True
    usable = np.zeros(len(divisions), np.bool_)
    for row in range(len(divisions)):
        if divisible[divisions[row, 1]] and divisible[divisions[row, 2]]:
            divisible[divisions[row, 0]] = True
            usable[row] = True
    reached = np.zeros(split_count, np.bool_)
    reached[0] = True
    for row in range(len(divisions) - 1, -1, -1):
        usable[row] &= reached[divisions[row, 0]]
        if usable[row]:
            reached[divisions[row, 1]] = True
            reached[divisions[row, 2]] = True
    return usable
