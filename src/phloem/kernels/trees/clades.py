"""Clades: as 128-bit Zobrist hashes, as bit sets, shared between trees, and summed into keys of whole topologies.

A clade's hash is the XOR of its taxa's fixed random keys (Zobrist 1970). A topology's key is the sum of its interior
clades' hashes, each mixed first; an interchange replaces one clade, so the key of a neighbour costs three operations.
"""

import numpy as np

from phloem.arrays import BoolArray, IntArray, LongArray, WordArray
from phloem.kernels.jit import kernel
from phloem.kernels.trees.surgery import list_from_top, sibling_of

FACTOR = np.uint64(0x9E3779B97F4A7C15)


@kernel
def clade_hashes(parents: IntArray, keys: WordArray) -> WordArray:
    """Hash of the leaves at or below every node, (batch, nodes, 2): the XOR of their keys."""
    batch, nodes = parents.shape
    leaf_count = len(keys)
    hashes = np.zeros((batch, nodes, 2), np.uint64)
    for tree in range(batch):
        hashes[tree, :leaf_count] = keys
        for node in range(nodes - 1):
            above = parents[tree, node]
            hashes[tree, above, 0] ^= hashes[tree, node, 0]
            hashes[tree, above, 1] ^= hashes[tree, node, 1]
    return hashes


@kernel
def clade_bits(parents: IntArray, leaf_count: int) -> WordArray:
    """Bit set of the leaves at or below every node, (batch, nodes, words): leaf i is bit i % 64 of word i // 64."""
    batch, nodes = parents.shape
    words = (leaf_count + 63) // 64
    bits = np.zeros((batch, nodes, words), np.uint64)
    for tree in range(batch):
        for leaf in range(leaf_count):
            bits[tree, leaf, leaf // 64] = np.uint64(1) << np.uint64(leaf % 64)
        for node in range(nodes - 1):
            above = parents[tree, node]
            for word in range(words):
                bits[tree, above, word] |= bits[tree, node, word]
    return bits


@kernel
def sort_rows(hashes: WordArray) -> WordArray:
    """Each tree's hashes in ascending order of (first word, second word)."""
    batch, count, _ = hashes.shape
    ordered = np.empty_like(hashes)
    for tree in range(batch):
        order = np.argsort(hashes[tree, :, 0])
        for place in range(count):
            ordered[tree, place] = hashes[tree, order[place]]
        for place in range(1, count):  # equal first words are rare: a few swaps sort them
            other = place
            while (
                other > 0
                and ordered[tree, other - 1, 0] == ordered[tree, other, 0]
                and ordered[tree, other - 1, 1] > ordered[tree, other, 1]
            ):
                held = ordered[tree, other, 1]
                ordered[tree, other, 1] = ordered[tree, other - 1, 1]
                ordered[tree, other - 1, 1] = held
                other -= 1
    return ordered


@kernel
def count_shared(first: WordArray, second: WordArray) -> int:
    """How many hashes two sorted rows, (count, 2) each, have in common."""
    shared = 0
    left = 0
    right = 0
    while left < len(first) and right < len(second):
        if first[left, 0] == second[right, 0] and first[left, 1] == second[right, 1]:
            shared += 1
            left += 1
            right += 1
        elif first[left, 0] < second[right, 0] or (
            first[left, 0] == second[right, 0] and first[left, 1] < second[right, 1]
        ):
            left += 1
        else:
            right += 1
    return shared


@kernel
def count_shared_pairwise(first: WordArray, second: WordArray) -> IntArray:
    """count_shared of every tree of `first` with every tree of `second`, (batch, other batch)."""
    shared = np.empty((len(first), len(second)), np.int32)
    for row in range(len(first)):
        for column in range(len(second)):
            shared[row, column] = count_shared(first[row], second[column])
    return shared


@kernel
def hash_sets(sets: WordArray, keys: WordArray) -> WordArray:
    """Hash of every bit set (sets, words): the XOR of its leaves' keys, (sets, 2)."""
    hashes = np.zeros((len(sets), 2), np.uint64)
    for row in range(len(sets)):
        for leaf in range(len(keys)):
            if (sets[row, leaf // 64] >> np.uint64(leaf % 64)) & np.uint64(1):
                hashes[row, 0] ^= keys[leaf, 0]
                hashes[row, 1] ^= keys[leaf, 1]
    return hashes


@kernel
def _mix(key):
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014)."""
    mixed = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@kernel
def topology_keys(parent: IntArray, children: IntArray, taxon_keys: WordArray, moves: IntArray) -> WordArray:
    """The key of a tree rooted on taxon 0, and of the trees after each interchange, 2 · branch + which child."""
    clades = np.zeros(len(parent), np.uint64)
    clades[: len(taxon_keys)] = taxon_keys
    keys = np.zeros(1 + len(moves), np.uint64)
    order = np.empty(len(parent), np.int32)
    count = list_from_top(children, order)
    for place in range(count - 1, -1, -1):
        node = order[place]
        if children[node, 0] >= 0:
            clades[node] = clades[children[node, 0]] ^ clades[children[node, 1]]
            keys[0] += _mix(clades[node])
    for place in range(len(moves)):
        node = moves[place] // 2
        kept = children[node, 1 - moves[place] % 2]
        changed = clades[kept] ^ clades[sibling_of(parent, children, node)]
        keys[1 + place] = keys[0] - _mix(clades[node]) + _mix(changed)
    return keys


@kernel
def group_sets(sets: WordArray) -> tuple[LongArray, LongArray]:
    """Where each distinct row first appears, and the group of every row, numbered in that order; linear, by hashing."""
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
    """Whether two sets are disjoint or nested, so that they can be clades of one rooted tree."""
    disjoint, inside, outside = True, True, True
    for word in range(len(one)):
        shared = one[word] & other[word]
        disjoint &= shared == 0
        inside &= shared == one[word]
        outside &= shared == other[word]
    return disjoint or inside or outside


@kernel
def choose_compatible(sets: WordArray, most: int) -> BoolArray:
    """Take each set that is compatible with all taken before it, up to `most`; true for those taken."""
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
