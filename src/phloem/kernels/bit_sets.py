"""Sets of taxa as rows of words: which are equal, and which fit on one tree."""

import numpy as np

from phloem.kernels.arrays import BoolArray, LongArray, WordArray
from phloem.kernels.jit import kernel

FACTOR = np.uint64(0x9E3779B97F4A7C15)


@kernel
def group_sets(sets: WordArray) -> tuple[LongArray, LongArray]:
    """Where each distinct row first appears, and every row's group, in that order; linear, by hashing."""
    count, words = sets.shape
    size = 2
    while size < 2 * count:
        size *= 2
    slots = np.full(size, -1, np.int64)
    first = np.empty(count, np.int64)
    group = np.empty(count, np.int64)
    found = 0
    for row in range(count):
        mixed = np.uint64(0)
        for word in range(words):
            mixed = (mixed ^ sets[row, word]) * FACTOR
            mixed ^= mixed >> np.uint64(32)
        slot = np.int64(mixed & np.uint64(size - 1))
        while True:
            number = slots[slot]
            if number < 0:
                slots[slot] = found
                first[found] = row
                group[row] = found
                found += 1
                break
            same = True
            for word in range(words):
                same &= sets[first[number], word] == sets[row, word]
            if same:
                group[row] = number
                break
            slot = (slot + 1) & (size - 1)
    return first[:found].copy(), group


@kernel
def fit_together(one: WordArray, other: WordArray) -> bool:
    """Whether two sets are disjoint or one holds the other: as clades they can be on the same rooted tree."""
    disjoint, inside, outside = True, True, True
    for word in range(len(one)):
        shared = one[word] & other[word]
        disjoint &= shared == 0
        inside &= shared == one[word]
        outside &= shared == other[word]
    return disjoint or inside or outside


@kernel
def choose_compatible(sets: WordArray, most: int) -> BoolArray:
    """Take each set that fits together with all that were taken before it, up to `most`; true for those."""
    taken = np.empty(most, np.int64)
    count = 0
    chosen = np.zeros(len(sets), np.bool_)
    for row in range(len(sets)):
        if count == most:
            break
        fits = True
        for place in range(count):
            if not fit_together(sets[row], sets[taken[place]]):
                fits = False
                break
        if fits:
            taken[count] = row
            count += 1
            chosen[row] = True
    return chosen
