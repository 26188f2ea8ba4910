"""Numbers for pairs of words: each distinct pair gets the next number, and is found again by hashing.

Clade hashes are pairs of words, subsplits pairs of clades, table entries a clade and a subsplit: one table serves
all three. Linear probing over a power of two of slots, at most half of them used.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from phloem.kernels.arrays import IntArray, WordArray
from phloem.kernels.jit import kernel
from phloem.kernels.pointers import at

EMPTY = np.int32(-1)
FIRST_FACTOR = np.uint64(0x9E3779B97F4A7C15)
SECOND_FACTOR = np.uint64(0xC2B2AE3D27D4EB4F)


class PairIndex(NamedTuple):
    """Distinct pairs, numbered by row, and slots that hold row numbers or EMPTY. Rows beyond the used ones are free."""

    pairs: WordArray  # (capacity, 2)
    slots: IntArray  # (a power of two, at least twice the capacity)


# What a kernel searches: pointers to the pairs and to the slots, and the number of slots minus one.
OpenIndex: TypeAlias = tuple[Any, Any, int]


def make_index(pairs: WordArray, capacity: int | None = None) -> PairIndex:
    """An index of distinct pairs (count, 2), with room for `capacity` in all."""
    capacity = max(capacity or 0, len(pairs), 1)
    held = np.zeros((capacity, 2), np.uint64)
    held[: len(pairs)] = pairs
    index = PairIndex(held, np.full(1 << (2 * capacity - 1).bit_length(), EMPTY))
    enter(index, len(pairs))
    return index


@kernel
def open_index(index: PairIndex) -> OpenIndex:
    """Bare pointers: passing arrays from call to call would count references at every look-up."""
    return at(index.pairs, 0), at(index.slots, 0), len(index.slots) - 1


@kernel
def search(index: OpenIndex, first: int, second: int) -> int:
    """The slot that holds a pair's number, or the empty one where it belongs."""
    pairs, slots, mask = index
    mixed = first * FIRST_FACTOR ^ second * SECOND_FACTOR
    mixed = (mixed ^ (mixed >> np.uint64(32))) * FIRST_FACTOR
    slot = np.int64(mixed >> np.uint64(32)) & mask
    while True:
        number = slots[slot]
        if number < 0 or (pairs[2 * number] == first and pairs[2 * number + 1] == second):
            return slot
        slot = (slot + 1) & mask


@kernel
def find(index: OpenIndex, first: int, second: int) -> int:
    """The pair's number, or -1."""
    return index[1][search(index, first, second)]


@kernel
def find_or_add(index: OpenIndex, count: int, first: int, second: int) -> int:
    """The pair's number; `count`, the number of pairs so far, where it is new and has been added."""
    pairs, slots, _ = index
    slot = search(index, first, second)
    if slots[slot] < 0:
        slots[slot] = count
        pairs[2 * count] = first
        pairs[2 * count + 1] = second
    return slots[slot]


@kernel
def enter(index: PairIndex, count: int) -> None:
    """Put the first `count` pairs into empty slots; of equal ones the first stands for all."""
    opened = open_index(index)
    for number in range(count):
        slot = search(opened, index.pairs[number, 0], index.pairs[number, 1])
        if index.slots[slot] < 0:
            index.slots[slot] = number


@kernel
def find_all(index: PairIndex, pairs: WordArray) -> IntArray:
    """The numbers of pairs (count, 2), -1 for those that are not there."""
    opened = open_index(index)
    numbers = np.empty(len(pairs), np.int32)
    for row in range(len(pairs)):
        numbers[row] = find(opened, pairs[row, 0], pairs[row, 1])
    return numbers
