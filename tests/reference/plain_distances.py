"""Branches as splits, and distances along a tree, from parent arrays with any interior root."""

import numpy as np


def split_lengths(parent: np.ndarray, lengths: np.ndarray) -> dict[frozenset[int], float]:
    """The length of every branch, by the leaves on its side without leaf 0."""
    leaf_count = len(parent) // 2 + 1
    below: dict[int, set[int]] = {node: set() for node in range(len(parent))}
    for leaf in range(leaf_count):
        node = leaf
        while node >= 0:
            below[node].add(leaf)
            node = int(parent[node])
    return {
        frozenset(leaves if 0 not in leaves else set(range(leaf_count)) - leaves): float(lengths[node])
        for node, leaves in below.items()
        if parent[node] >= 0
    }


def path_distances(parent: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The sum of the branches between every two leaves: those with one of the two on each side."""
    leaf_count = len(parent) // 2 + 1
    distances = np.zeros((leaf_count, leaf_count))
    for split, length in split_lengths(parent, lengths).items():
        side = np.isin(np.arange(leaf_count), list(split))
        distances += length * (side[:, None] != side)
    return distances
