"""Subsplit indices: the splits, subsplits and table entries used by all rootings of a tree, found by hashing.

An interior node v sees three clades, one beyond each of its neighbours. Seen from neighbour i, the taxa on v's side
divide into the other two clades: three subsplits per node, 3(n-2) per tree. A rooting puts a sister beside each: the
clade beyond i if the root is on that branch, else one of the two other clades that the neighbour sees. So there are at
most nine parent–child pairs per node over all 2n-3 rootings.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from phloem.arrays import IntArray, LongArray, WordArray
from phloem.kernels.jit import Pointer, at, kernel

EMPTY = np.int32(-1)
FIRST_FACTOR = np.uint64(0x9E3779B97F4A7C15)
SECOND_FACTOR = np.uint64(0xC2B2AE3D27D4EB4F)


class PairIndex(NamedTuple):
    """A hash index of distinct pairs, numbered by row; slots hold row numbers or EMPTY. Rows after them are free.

    Clade hashes are pairs of words, subsplits pairs of clades, table entries pairs of a clade and a subsplit: one kind
    of index serves all three. Linear probing; at most half of the slots are used.
    """

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
    """Bare pointers: passing arrays between functions would count references at every look-up."""
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
    """Put the first `count` pairs into empty slots; of equal pairs only the first is entered."""
    opened = open_index(index)
    for number in range(count):
        slot = search(opened, index.pairs[number, 0], index.pairs[number, 1])
        if index.slots[slot] < 0:
            index.slots[slot] = number


@kernel
def find_all(index: PairIndex, pairs: WordArray) -> IntArray:
    """The numbers of pairs (count, 2); -1 for unknown ones."""
    opened = open_index(index)
    numbers = np.empty(len(pairs), np.int32)
    for row in range(len(pairs)):
        numbers[row] = find(opened, pairs[row, 0], pairs[row, 1])
    return numbers


class SubsplitLookup(NamedTuple):
    """Indices of all known clades, subsplits and pairs. `clades` are keyed by hash, the single taxa first.

    Where tables are conditional on clades alone, a subsplit has one entry, found without its sister.
    """

    clades: PairIndex
    subsplits: PairIndex  # (lower, higher) clade of the two halves
    pairs: PairIndex  # sister and subsplit; empty where sisters do not matter
    sides: IntArray  # (splits, 2)  the clade below the branch, and the rest: canonical trees agree on which is which
    split_of_clade: IntArray  # (clades,)  of the first side; -1 for clades that are only ever the second
    entry_of_subsplit: IntArray  # (subsplits,)  empty where sisters matter


# Rows of the counters.
CLADES, SPLITS, SUBSPLITS, PAIRS = range(4)


@kernel
def index_subsplits(
    neighbors: IntArray,
    keys: WordArray,
    lookup: SubsplitLookup,
    counts: LongArray,
    adding: bool,
    splits: IntArray,
    subsplits: IntArray,
    pairs: IntArray,
) -> None:
    """Fill the indices of trees: splits (batch, 2n-3), subsplits (batch, 2n-3, 2), pairs (batch, n-2, 3, 3).

    A branch has a subsplit below (-1 under a leaf) and one above. pairs[v, i] has the sister that is the complement,
    then those beyond the other branches of neighbour i, unless that is a leaf. What is unknown gets -1 or, with
    `adding`, the next index. Where sisters do not matter, a subsplit has the same index beside all of them.
    """
    batch, nodes, _ = neighbors.shape
    leaf_count = nodes // 2 + 1
    hashes = np.empty((nodes, 2), np.uint64)
    below = np.empty(nodes, np.int32)
    beyond = np.empty((leaf_count - 2, 3), np.int32)
    clades, pieces, known = open_index(lookup.clades), open_index(lookup.subsplits), open_index(lookup.pairs)
    sides, split_of_clade, entry_of_subsplit = lookup.sides, lookup.split_of_clade, lookup.entry_of_subsplit
    sisters_matter = len(entry_of_subsplit) == 0
    counters = at(counts, 0)
    for tree in range(batch):
        tree_neighbors = at(neighbors, tree * nodes * 3)
        hashes[:leaf_count] = keys
        for node in range(leaf_count, nodes):
            left, right = tree_neighbors[3 * node + 1], tree_neighbors[3 * node + 2]
            hashes[node, 0] = hashes[left, 0] ^ hashes[right, 0]
            hashes[node, 1] = hashes[left, 1] ^ hashes[right, 1]
        for node in range(nodes - 1):
            first, second = hashes[node, 0], hashes[node, 1]
            clade = node if node < leaf_count else number_of(clades, counters, CLADES, first, second, adding)
            below[node] = clade
            if adding and split_of_clade[clade] < 0:
                split = counts[SPLITS]
                counts[SPLITS] += 1
                split_of_clade[clade] = split
                sides[split, 0] = clade
                first ^= hashes[nodes - 1, 0] ^ keys[0, 0]  # the root's children are all taxa but taxon 0
                second ^= hashes[nodes - 1, 1] ^ keys[0, 1]
                sides[split, 1] = number_of(clades, counters, CLADES, first, second, adding)
            splits[tree, node] = split_of_clade[clade] if clade >= 0 else -1
            subsplits[tree, node, 0] = -1
        for node in range(leaf_count, nodes):
            row = node - leaf_count
            beyond[row, 0] = 0  # beyond the root's first neighbour is taxon 0
            if node < nodes - 1:
                beyond[row, 0] = sides[splits[tree, node], 1] if splits[tree, node] >= 0 else -1
            for slot in range(1, 3):
                beyond[row, slot] = below[tree_neighbors[3 * node + slot]]
            for slot in range(3):
                one, two = beyond[row, other_slot(slot, 1)], beyond[row, other_slot(slot, 2)]
                branch, side = branch_at(tree_neighbors, nodes, node, slot)
                subsplits[tree, branch, side] = -1
                if one >= 0 and two >= 0:
                    lower, higher = np.uint64(min(one, two)), np.uint64(max(one, two))
                    subsplits[tree, branch, side] = number_of(pieces, counters, SUBSPLITS, lower, higher, adding)
        for node in range(leaf_count, nodes):
            row = node - leaf_count
            for slot in range(3):
                branch, side = branch_at(tree_neighbors, nodes, node, slot)
                subsplit = subsplits[tree, branch, side]
                neighbor = tree_neighbors[3 * node + slot]
                for place in range(3):
                    sister = beyond[row, slot]
                    if place > 0:
                        if neighbor < leaf_count:
                            continue
                        back = slot_of(tree_neighbors, neighbor, node)
                        sister = beyond[neighbor - leaf_count, other_slot(back, place)]
                    pairs[tree, row, slot, place] = -1
                    if subsplit >= 0 and not sisters_matter:
                        pairs[tree, row, slot, place] = entry_of_subsplit[subsplit]
                    elif subsplit >= 0 and sister >= 0:
                        pairs[tree, row, slot, place] = number_of(
                            known, counters, PAIRS, np.uint64(sister), np.uint64(subsplit), adding
                        )


@kernel
def number_of(index: OpenIndex, counts: Pointer, kind: int, first: int, second: int, adding: bool) -> int:
    """The number of a pair of words, or -1; with `adding` a new pair gets the next number."""
    if not adding:
        return find(index, first, second)
    number = find_or_add(index, counts[kind], first, second)
    if number == counts[kind]:
        counts[kind] += 1
    return number


@kernel
def slot_of(tree_neighbors: Pointer, node: int, neighbor: int) -> int:
    """The column of a node's neighbours that holds `neighbor`."""
    if tree_neighbors[3 * node] == neighbor:
        return 0
    return 1 if tree_neighbors[3 * node + 1] == neighbor else 2


@kernel
def branch_at(tree_neighbors: Pointer, nodes: int, node: int, slot: int) -> tuple[int, int]:
    """The branch between a node and its neighbour, and on which side of it the node is: 0 below, 1 above."""
    if slot == 0 and node < nodes - 1:
        return node, 0
    return tree_neighbors[3 * node + slot], 1


@kernel
def other_slot(slot: int, place: int) -> int:
    """The lower (place 1) or the higher (place 2) of the two slots that are not `slot`."""
    if place == 1:
        return 0 if slot > 0 else 1
    return 2 if slot < 2 else 1


@kernel
def confirm_sets(below: WordArray, splits: IntArray, sides: IntArray, sets: WordArray, known: int) -> bool:
    """Write the taxon sets of the sides of splits numbered `known` or more; false where a split has two sets.

    `below` (batch, nodes, words) has the taxa at or below each node, sets[clade] those of a clade.
    """
    batch, branches = splits.shape
    for tree in range(batch):
        for branch in range(branches):
            split = splits[tree, branch]
            one, two = sides[split, 0], sides[split, 1]
            for word in range(below.shape[2]):
                if split >= known:
                    sets[one, word] = below[tree, branch, word]
                    sets[two, word] = below[tree, branches, word] ^ below[tree, branch, word]
                elif sets[one, word] != below[tree, branch, word]:
                    return False
            known = max(known, split + 1)  # splits are numbered as they appear
    return True
