"""Maximum-likelihood distances, and neighbour joining (Saitou & Nei 1987; Studier & Keppler 1988)."""

import numpy as np

from phloem.arrays import FloatArray, IntArray
from phloem.kernels.jit import at, kernel, vector_kernel
from phloem.kernels.likelihood.blocks import BLOCK
from phloem.kernels.search.partials import PatternTables, RateTables, best_length, fill_terms

START = 0.1


@vector_kernel
def pair_distances(rates: RateTables, patterns: PatternTables, tips: FloatArray, tolerance: float) -> FloatArray:
    """The length of the branch between every two tips (taxa, blocks, categories, 4, BLOCK), (taxa, taxa)."""
    taxa, blocks, categories = tips.shape[:3]
    size = tips[0].size
    terms = np.empty((blocks, len(rates.terms), BLOCK))
    steps = np.zeros(blocks * BLOCK, np.int32)
    distances = np.zeros((taxa, taxa))
    for first in range(taxa):
        for second in range(first):
            x, y = at(tips, first * size), at(tips, second * size)
            fill_terms(terms, rates, patterns, categories, x, at(steps, 0), y, at(steps, 0))
            distances[first, second] = best_length(terms, rates.terms, patterns.weights, START, tolerance)
            distances[second, first] = distances[first, second]
    return distances


@kernel
def join_neighbors(distances: FloatArray) -> tuple[IntArray, FloatArray]:
    """Parents and lengths (2n-2,) of the tree of n >= 3 taxa, from symmetric distances (n, n); O(n³).

    The root is the last node and has no length; the tree is not yet canonical. Lengths are negative where the distances
    say so. Of pairs that are equally good the lowest is joined, clusters being ordered by their least taxon.
    """
    count = len(distances)
    parents = np.full(2 * count - 2, -1, np.int32)
    lengths = np.full(2 * count - 2, np.nan)
    between = distances.copy()
    nodes = np.arange(count)  # that the clusters hang on
    sums = np.zeros(count)
    for one in range(count):
        for other in range(count):
            if other != one:
                sums[one] += between[one, other]
    for clusters in range(count, 3, -1):
        added = 2 * count - clusters
        first, second = _closest(between, sums, clusters)
        apart = between[first, second]
        to_first = 0.5 * apart + 0.5 * (sums[first] - sums[second]) / (clusters - 2)
        parents[nodes[first]] = added
        parents[nodes[second]] = added
        lengths[nodes[first]] = to_first
        lengths[nodes[second]] = apart - to_first
        nodes[first] = added
        _merge(between, sums, clusters, first, second)
        _remove(between, sums, nodes, clusters, second)
    root = 2 * count - 3
    for one in range(3):
        second, third = (one + 1) % 3, (one + 2) % 3
        parents[nodes[one]] = root
        lengths[nodes[one]] = 0.5 * (between[one, second] + between[one, third] - between[second, third])
    return parents, lengths


@kernel
def _closest(between, sums, clusters):
    """The pair to join, the lower place first."""
    least = np.inf
    first, second = 0, 1
    for one in range(clusters - 1):
        for other in range(one + 1, clusters):
            value = (clusters - 2) * between[one, other] - sums[one] - sums[other]
            if value < least:
                least = value
                first, second = one, other
    return first, second


@kernel
def _merge(between, sums, clusters, first, second):
    """Let the joined pair have the first one's place."""
    apart = between[first, second]
    total = 0.0
    for other in range(clusters):
        if other != first and other != second:
            old = between[first, other] + between[second, other]
            distance = 0.5 * (old - apart)
            between[first, other] = distance
            between[other, first] = distance
            sums[other] += distance - old
            total += distance
    sums[first] = total


@kernel
def _remove(between, sums, nodes, clusters, gone):
    """Close the gap that a cluster leaves, so that the others keep their order."""
    for row in range(gone):
        for column in range(gone, clusters - 1):
            between[row, column] = between[row, column + 1]
    for row in range(gone, clusters - 1):
        sums[row] = sums[row + 1]
        nodes[row] = nodes[row + 1]
        for column in range(gone):
            between[row, column] = between[row + 1, column]
        for column in range(gone, clusters - 1):
            between[row, column] = between[row + 1, column + 1]
