"""Clades of canonical trees: as bit sets, as 128-bit Zobrist hashes, and shared between trees."""

import numpy as np

from phloem.kernels.arrays import IntArray, WordArray
from phloem.kernels.jit import kernel


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
        for place in range(1, count):  # equal first words are all but impossible: a few swaps put them right
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
    """count_shared of every sorted row of `first` with every one of `second`, (batch, other batch)."""
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
