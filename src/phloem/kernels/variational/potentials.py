"""Sums over all trees of a closed support, each weighted by the product of its splits' weights."""

import math

from phloem.arrays import FloatArray, IntArray, LongArray
from phloem.kernels.jit import Pointer, at, kernel


@kernel
def sum_products(
    potentials: FloatArray,
    halves: IntArray,
    children: IntArray,
    starts: LongArray,
    order: LongArray,
    log_sums: FloatArray,
    log_shares: FloatArray,
) -> None:
    """Fill log_sums (tables) and log_shares (entries). potentials: logarithms of the weights, (splits,).

    halves and children (entries, 2) are the splits of an entry's two halves and their tables, -1 - taxon for a single
    taxon. `order` has all tables but that of the root splits, halves before the clades that they make up.

    A table's sum is over the trees of its clade, its share the part of each of its entries. An entry of table 0 gets
    no share but the sum over all trees that have the split.
    """
    weights, sums, shares = at(potentials, 0), at(log_sums, 0), at(log_shares, 0)
    for place in range(len(order)):
        table = order[place]
        first, end = starts[table], starts[table + 1]
        largest = -math.inf
        for entry in range(first, end):
            value = side_sum(weights, sums, at(halves, 2 * entry), at(children, 2 * entry), 0)
            value += side_sum(weights, sums, at(halves, 2 * entry), at(children, 2 * entry), 1)
            shares[entry] = value
            largest = max(largest, value)
        total = 0.0
        for entry in range(first, end):
            total += math.exp(shares[entry] - largest)
        sums[table] = largest + math.log(total)
        for entry in range(first, end):
            shares[entry] -= sums[table]
    for split in range(starts[1]):
        value = side_sum(weights, sums, at(halves, 2 * split), at(children, 2 * split), 0)
        value += side_sum(weights, sums, at(halves, 2 * split), at(children, 2 * split), 1)
        shares[split] = value - weights[split]  # both sides have it


@kernel
def side_sum(weights: Pointer, sums: Pointer, halves: Pointer, children: Pointer, side: int) -> float:
    """The log-sum over the trees of one half, with the weight of its own split."""
    child = children[side]
    return weights[halves[side]] + (sums[child] if child >= 0 else 0.0)
