"""Nearest-neighbour interchanges of one tree: the log-likelihood of each, with the five branches around it fitted.

Branch v below u: one of v's children, `moved`, changes places with v's sibling. The other child stays, `kept`:

    v has  sibling, kept        u has  moved, and all that is above u
"""

import numpy as np

from phloem.kernels.arrays import FloatArray, IntArray
from phloem.kernels.branch_fit import best_length, fill_terms, log_likelihood
from phloem.kernels.jit import vector_kernel
from phloem.kernels.jukes_cantor import BLOCK, STATES
from phloem.kernels.partials import PatternTables, RateTables, TreeTables, fill_matrices, join, sibling_of
from phloem.kernels.pointers import at

LOWER, UPPER, SIDE = 0, 1, 2  # rows of the room: the partials below and above branch v, and beside a branch at one end


@vector_kernel
def score_interchanges(
    tree: TreeTables,
    rates: RateTables,
    patterns: PatternTables,
    terms: FloatArray,
    least: float,
    tolerance: float,
    moves: IntArray,
    values: FloatArray,
    lengths: FloatArray,
    sites: FloatArray,
) -> None:
    """For each move, 2 · branch + which child: its log-likelihood, five lengths and the patterns' log-likelihoods.

    The lengths are those of v, sibling, kept, moved and u, in this order. Where the log-likelihood with only v fitted
    is below `least`, the other branches stay as they are.
    """
    blocks, categories = tree.below.shape[1], tree.below.shape[2]
    size, width, matrix = blocks * categories * STATES, blocks * BLOCK, categories * 16
    room = np.empty((3, blocks, categories, 4, BLOCK))
    counts = np.empty((3, blocks, BLOCK), np.int32)
    matrices = np.empty((5, categories, 16))
    around = np.empty(5, np.int64)
    for place in range(len(moves)):
        node = moves[place] // 2
        sibling, above = sibling_of(tree, node), tree.parent[node]
        moved, kept = tree.children[node, moves[place] % 2], tree.children[node, 1 - moves[place] % 2]
        around[0], around[1], around[2], around[3], around[4] = node, sibling, kept, moved, above
        own = lengths[place]
        for branch in range(5):
            own[branch] = tree.lengths[around[branch]]
            matrices[branch] = tree.matrices[around[branch]]
        # Ends of the four outer branches, away from v: partials, counts of rescalings, and which node joins them.
        ends = (
            at(tree.below, sibling * size),
            at(tree.below, kept * size),
            at(tree.below, moved * size),
            at(tree.above, above * size),
        )
        end_counts = (
            at(tree.below_steps, sibling * width),
            at(tree.below_steps, kept * width),
            at(tree.below_steps, moved * width),
            at(tree.above_steps, above * width),
        )
        for row in range(2):
            _join_pair(rates, blocks, categories, room, counts, row, ends, end_counts, matrices)
        values[place] = _fit_middle(
            rates, patterns, terms, categories, room, counts, matrices, own, tolerance, sites[place]
        )
        if values[place] < least:
            continue
        for row in range(2):  # the two branches at v, then the two at u
            for column in range(2):
                outer, beside = 2 * row + column, 2 * row + 1 - column
                join(
                    rates.equal,
                    blocks,
                    categories,
                    at(room, SIDE * size),
                    at(counts, SIDE * width),
                    ends[beside],
                    end_counts[beside],
                    at(matrices, (1 + beside) * matrix),
                    at(room, (1 - row) * size),
                    at(counts, (1 - row) * width),
                    at(matrices, 0),
                )
                fill_terms(
                    terms,
                    rates,
                    patterns,
                    categories,
                    ends[outer],
                    end_counts[outer],
                    at(room, SIDE * size),
                    at(counts, SIDE * width),
                )
                own[1 + outer] = best_length(terms, rates.terms, patterns.weights, own[1 + outer], tolerance)
                fill_matrices(matrices[1 + outer], rates, own[1 + outer])
            _join_pair(rates, blocks, categories, room, counts, row, ends, end_counts, matrices)
        values[place] = _fit_middle(
            rates, patterns, terms, categories, room, counts, matrices, own, tolerance, sites[place]
        )


@vector_kernel
def _join_pair(rates, blocks, categories, room, counts, row, ends, end_counts, matrices):
    """The partials at v (row LOWER) or at u (row UPPER) from the two outer branches there."""
    first, second = 2 * row, 2 * row + 1
    join(
        rates.equal,
        blocks,
        categories,
        at(room, row * blocks * categories * STATES),
        at(counts, row * blocks * BLOCK),
        ends[first],
        end_counts[first],
        at(matrices, (1 + first) * categories * 16),
        ends[second],
        end_counts[second],
        at(matrices, (1 + second) * categories * 16),
    )


@vector_kernel
def _fit_middle(rates, patterns, terms, categories, room, counts, matrices, lengths, tolerance, sites):
    """Fit branch v between its two partials; the log-likelihood of the tree."""
    size, width = room[0].size, counts[0].size
    x, x_steps, y, y_steps = at(room, 0), at(counts, 0), at(room, size), at(counts, width)
    fill_terms(terms, rates, patterns, categories, x, x_steps, y, y_steps)
    lengths[0] = best_length(terms, rates.terms, patterns.weights, lengths[0], tolerance)
    fill_matrices(matrices[0], rates, lengths[0])
    return log_likelihood(terms, rates.terms, patterns.weights, lengths[0], x_steps, y_steps, sites)
