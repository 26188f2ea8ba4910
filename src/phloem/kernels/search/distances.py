"""Maximum-likelihood distances, every two taxa as a tree of one branch, and neighbour joining.

Neighbour joining (Saitou & Nei 1987) uses the criterion of Studier & Keppler (1988): of m clusters with distances d and
sums r(i) = Σ_k d(i, k), the pair with least (m-2)·d(i, j) - r(i) - r(j) is joined:

    length(i) = d(i, j)/2 + (r(i) - r(j)) / (2(m-2)),   length(j) = d(i, j) - length(i)
    d(new, k) = (d(i, k) + d(j, k) - d(i, j)) / 2

until three are left, which meet in the root. Distances along a tree give that tree back.
"""

import numpy as np

from phloem.arrays import FloatArray, IntArray, RealArray
from phloem.kernels.jit import at, kernel, vector_kernel
from phloem.kernels.search.branch import LANES, STATES, BranchTables, PatternTables, RateTables, best_length, fill_terms

START = 0.1  # of the search for a distance


@vector_kernel
def pair_distances(
    rates: RateTables, patterns: PatternTables, branch: BranchTables, tips: RealArray, tolerance: float
) -> FloatArray:
    """The length of the branch between every two tips (taxa, blocks, 4, LANES), (taxa, taxa)."""
    taxa, blocks = tips.shape[:2]
    steps = np.zeros(blocks * LANES, np.int32)
    distances = np.zeros((taxa, taxa))
    for first in range(taxa):
        for second in range(first):
            x, y = at(tips, first * blocks * STATES), at(tips, second * blocks * STATES)
            none = at(steps, 0)
            fill_terms(branch, rates, patterns, rates.exponents.shape[1], (x, 0, none), (y, 0, none))
            distances[first, second] = best_length(branch, rates.terms, patterns.weights, START, tolerance)
            distances[second, first] = distances[first, second]
    return distances


@kernel
def join_neighbors(distances: FloatArray) -> tuple[IntArray, FloatArray]:
    """Parents and lengths (2n-2,) of the tree of n >= 3 taxa, from symmetric distances (n, n); O(n³).

    The root is the last node and has no length; the tree is not yet canonical. Lengths can be negative. Of equally
    good pairs the first is joined, clusters being ordered by their least taxon.
    """
    count = len(distances)
    parents = np.full(2 * count - 2, -1, np.int32)
    lengths = np.full(2 * count - 2, np.nan)
    between = distances.copy()
    nodes = np.arange(count)  # the top node of each cluster
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
    """The pair to join, the lower index first."""
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
    """Put the joined pair in the place of the first."""
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
    """Close the gap that a cluster leaves; the others keep their order."""
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
