"""Rearrangements of one tree and their likelihoods: nearest-neighbour interchanges, and subtrees moved elsewhere.

Interchanges: branch v below u; one of v's children, `moved`, changes places with v's sibling, the other one is `kept`:

    v has  sibling, kept        u has  moved, and all that is above u

Regrafts: the subtree of `node` takes its joint along; the joint's other child takes their place, with one branch for
two. The joint goes into the middle of another branch, and only the branch that carries the subtree is fitted: a rough
score, but of most trees near this one. Subtrees are those without taxon 0, on which the tree is rooted.
"""

import numpy as np

from phloem.arrays import FloatArray, IntArray
from phloem.kernels.jit import at, vector_kernel
from phloem.kernels.search.branch import (
    LANES,
    STATES,
    BranchTables,
    PatternTables,
    RateTables,
    best_length,
    fill_matrices,
    fill_terms,
    log_likelihood,
)
from phloem.kernels.search.partials import (
    TreeTables,
    end_above,
    end_below,
    fill_all_above,
    fill_all_below,
    fill_below,
    join,
    matrices_at,
)
from phloem.kernels.trees.surgery import cut, graft, list_from_top, sibling_of

LOWER, UPPER, SIDE = 0, 1, 2  # rows of scratch partials: below and above branch v, and beside an outer branch


@vector_kernel
def score_interchanges(
    tree: TreeTables,
    rates: RateTables,
    patterns: PatternTables,
    branch: BranchTables,
    least: float,
    tolerance: float,
    moves: IntArray,
    values: FloatArray,
    lengths: FloatArray,
    sites: FloatArray,
) -> None:
    """For each move, 2 · branch + which child: its log-likelihood, five lengths and the patterns' log-likelihoods.

    The lengths are those of v, sibling, kept, moved and u, in this order. Where the log-likelihood with only v fitted
    is below `least`, the other branches keep their lengths.
    """
    blocks, categories = tree.below.shape[1], tree.below.shape[2]
    room = np.empty((3, blocks, categories, 4, LANES), np.float32)
    counts = np.empty((3, blocks, LANES), np.int32)
    matrices = np.empty((5, *tree.matrices.shape[1:]), np.float32)
    equal, parts, bounds = rates.equal, tree.parts, tree.bounds
    around = np.empty(5, np.int64)
    for place in range(len(moves)):
        node = moves[place] // 2
        sibling, above = sibling_of(tree.parent, tree.children, node), tree.parent[node]
        moved, kept = tree.children[node, moves[place] % 2], tree.children[node, 1 - moves[place] % 2]
        around[0], around[1], around[2], around[3], around[4] = node, sibling, kept, moved, above
        own = lengths[place]
        for number in range(5):
            own[number] = tree.lengths[around[number]]
            matrices[number] = tree.matrices[around[number]]
        # The far ends of the four outer branches: two at v, two at u.
        ends = end_below(tree, sibling), end_below(tree, kept), end_below(tree, moved), end_above(tree, above)
        for row in range(2):
            join_pair(equal, parts, bounds, room, counts, row, ends, matrices)
        values[place] = _fit_middle(rates, patterns, branch, room, counts, matrices, own, tolerance, sites[place])
        if values[place] < least:
            continue
        for row in range(2):  # the two branches at v, then the two at u
            for column in range(2):
                outer, beside = 2 * row + column, 2 * row + 1 - column
                side = scratch_end(room, counts, SIDE)
                across = scratch_end(room, counts, 1 - row)
                to_beside, to_across = matrices_at(matrices, 1 + beside), matrices_at(matrices, 0)
                join(equal, parts, bounds, categories, side, ends[beside], to_beside, across, to_across)
                fill_terms(branch, rates, patterns, categories, ends[outer], side)
                own[1 + outer] = best_length(branch, rates.terms, patterns.weights, own[1 + outer], tolerance)
                fill_matrices(matrices[1 + outer], rates, own[1 + outer])
            join_pair(equal, parts, bounds, room, counts, row, ends, matrices)
        values[place] = _fit_middle(rates, patterns, branch, room, counts, matrices, own, tolerance, sites[place])


@vector_kernel
def scratch_end(room, counts, row):
    """A row of scratch partials as an end."""
    return at(room, row * room[0].size), STATES, at(counts, row * counts[0].size)


@vector_kernel
def join_pair(equal, parts, bounds, room, counts, row, ends, matrices):
    """The partials at v (row LOWER) or at u (row UPPER) from the two outer branches there."""
    first, second = 2 * row, 2 * row + 1
    join(
        equal,
        parts,
        bounds,
        room.shape[2],
        scratch_end(room, counts, row),
        ends[first],
        matrices_at(matrices, 1 + first),
        ends[second],
        matrices_at(matrices, 1 + second),
    )


@vector_kernel
def _fit_middle(rates, patterns, branch, room, counts, matrices, lengths, tolerance, sites):
    """Fit branch v between its two ends; the log-likelihood of the tree."""
    lower, upper = scratch_end(room, counts, LOWER), scratch_end(room, counts, UPPER)
    fill_terms(branch, rates, patterns, room.shape[2], lower, upper)
    lengths[0] = best_length(branch, rates.terms, patterns.weights, lengths[0], tolerance)
    fill_matrices(matrices[0], rates, lengths[0])
    return log_likelihood(branch, rates.terms, patterns.weights, lengths[0], sites)


@vector_kernel
def cut_off(tree: TreeTables, node: int) -> int:
    """Cut a subtree off; its sibling, which is returned, has one branch for the two that met at the joint."""
    joint = tree.parent[node]
    sibling = cut(tree.parent, tree.children, node)
    tree.lengths[sibling] += tree.lengths[joint]
    return sibling


@vector_kernel
def take_out(tree, rates, node):
    """Like `cut_off`, with the partials of the rest made up to date, as those below were before."""
    sibling = cut_off(tree, node)
    fill_matrices(tree.matrices[sibling], rates, tree.lengths[sibling])
    changed = tree.parent[sibling]
    while changed > 0:
        fill_below(tree, rates.equal, changed)
        changed = tree.parent[changed]
    fill_all_above(tree, rates)
    return sibling


@vector_kernel
def graft_into(tree: TreeTables, node: int, place: int) -> None:
    """Put a subtree that was cut off into the middle of the branch above `place`."""
    graft(tree.parent, tree.children, node, place)
    tree.lengths[place] *= 0.5
    tree.lengths[tree.parent[node]] = tree.lengths[place]


@vector_kernel
def score_regrafts(
    tree: TreeTables,
    rates: RateTables,
    patterns: PatternTables,
    branch: BranchTables,
    node: int,
    tolerance: float,
    sites: FloatArray,
) -> tuple[IntArray, FloatArray]:
    """The branches onto which the subtree of a node could be grafted, and the log-likelihoods of the trees.

    The node is neither taxon 0 nor its neighbour. The tree comes back as it was, except for its partials.
    """
    blocks, categories = tree.below.shape[1], tree.below.shape[2]
    parent, children, lengths = tree.parent.copy(), tree.children.copy(), tree.lengths.copy()
    fill_all_below(tree, rates)
    sibling = take_out(tree, rates, node)
    room = np.empty((1, blocks, categories, 4, LANES), np.float32)
    counts = np.empty((1, blocks, LANES), np.int32)
    half = np.empty((1, *tree.matrices.shape[1:]), np.float32)
    count = list_from_top(tree.children, tree.order)
    places = tree.order[:count].copy()
    values = np.empty(count)
    for number in range(count):
        place = places[number]
        fill_matrices(half[0], rates, 0.5 * tree.lengths[place])
        low, high = end_below(tree, place), end_above(tree, place)
        # Here, not before: the loop is what keeps the arrays alive.
        middle, to_both = scratch_end(room, counts, 0), matrices_at(half, 0)
        join(rates.equal, tree.parts, tree.bounds, categories, middle, low, to_both, high, to_both)
        fill_terms(branch, rates, patterns, categories, end_below(tree, node), middle)
        length = best_length(branch, rates.terms, patterns.weights, tree.lengths[node], tolerance)
        values[number] = log_likelihood(branch, rates.terms, patterns.weights, length, sites)
    tree.parent[:] = parent
    tree.children[:] = children
    tree.lengths[:] = lengths
    return places[places != sibling], values[places != sibling]
