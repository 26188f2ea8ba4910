"""The likelihood on both sides of every branch of one tree, and passes that fit all its branch lengths.

The tree is rooted on taxon 0, so that every interior node has two children, and branch v is the one above node v.
`below[v]` is the likelihood of the tips under v given the state at v; `above[v]` is that of all other tips given the
state at v's parent. A join carries two of them along their branches and multiplies:

    below[v] = (P below[left]) · (P below[right])        above[v] = (P above[parent]) · (P below[sibling])

The layout of partials, and what an end is: see branch.py. Single precision is half the memory to go through, and enough
for a search: rounding changes the log-likelihoods of usual alignments by less than a fifth of its tightest tolerance.
"""

from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, IntArray, RealArray
from phloem.kernels.jit import at, from_address, shift, vector_kernel, wide_vectors
from phloem.kernels.lanes import any_below, put, sixteen_at, sixteen_of
from phloem.kernels.search.branch import (
    FACTOR,
    LANES,
    MATRIX,
    SMALL,
    STATES,
    ZERO,
    BranchTables,
    PatternTables,
    RateTables,
    best_length,
    fill_matrices,
    fill_terms,
    four_lanes,
    log_likelihood,
    product,
)
from phloem.kernels.trees.surgery import list_from_top, sibling_of


class TreeTables(NamedTuple):
    """One tree rooted on taxon 0 (see trees/surgery.py) with its partials."""

    parts: int
    bounds: int  # address of those of their blocks, (parts + 1,)
    parent: IntArray  # (nodes,)  -1 at taxon 0
    children: IntArray  # (nodes, 2)  -1 at leaves; taxon 0 has its one neighbour first
    lengths: FloatArray  # (nodes,)  of the branch above each node
    matrices: RealArray  # (nodes, parts · categories, MATRIX)
    tips: RealArray  # (taxa, blocks, 4, LANES)
    below: RealArray  # (nodes - taxa, blocks, categories, 4, LANES)
    above: RealArray  # (nodes, blocks, categories, 4, LANES)
    below_steps: IntArray  # (nodes, blocks, LANES)  zero for tips
    above_steps: IntArray
    order: IntArray  # (nodes,)  scratch: a list of nodes


@vector_kernel
def end_below(tree, node):
    """The lower end of the branch above a node."""
    taxa, blocks, categories = len(tree.tips), tree.below.shape[1], tree.below.shape[2]
    steps = at(tree.below_steps, node * blocks * LANES)
    if node < taxa:
        return at(tree.tips, node * blocks * STATES), 0, steps
    return at(tree.below, (node - taxa) * blocks * categories * STATES), STATES, steps


@vector_kernel
def end_above(tree, node):
    """The upper end of the branch above a node; that of taxon 0's neighbour is the tip."""
    if tree.parent[node] == 0:
        return end_below(tree, 0)
    blocks, categories = tree.below.shape[1], tree.below.shape[2]
    partials = at(tree.above, node * blocks * categories * STATES)
    return partials, STATES, at(tree.above_steps, node * blocks * LANES)


@vector_kernel
def matrices_at(matrices, number):
    """A pointer to the matrices of one of several branches."""
    return at(matrices, number * matrices.shape[1] * MATRIX)


@vector_kernel
def _carry_equal(matrix, values):
    """The message a·S + b·p."""
    base = matrix[0] * ((values[0] + values[1]) + (values[2] + values[3]))
    stay = matrix[1]
    return base + stay * values[0], base + stay * values[1], base + stay * values[2], base + stay * values[3]


@vector_kernel
def _carry_any(matrix, values):
    """The message P·p."""
    return (
        product(matrix, values),
        product(shift(matrix, 4), values),
        product(shift(matrix, 8), values),
        product(shift(matrix, 12), values),
    )


@vector_kernel
def _multiply(out, left, right):
    """Write the product of two messages; the sum of its states."""
    p0, p1, p2, p3 = left[0] * right[0], left[1] * right[1], left[2] * right[2], left[3] * right[3]
    put(out, 0, p0)
    put(out, LANES, p1)
    put(out, 2 * LANES, p2)
    put(out, 3 * LANES, p3)
    return (p0 + p1) + (p2 + p3)


@vector_kernel
def _rescale(partials, rows, steps):
    """Multiply each pattern whose sum is small, but not zero, until it is not; count the multiplications."""
    for i in range(LANES):
        total = ZERO
        for row in range(rows):
            total += partials[row * LANES + i]
        while total > 0 and total < SMALL:
            for row in range(rows):
                partials[row * LANES + i] *= FACTOR
            total *= FACTOR
            steps[i] += 1


@vector_kernel
def join(equal, parts, bounds, categories, out, left, left_matrices, right, right_matrices):
    """The product of two ends, each carried along its branch, for all patterns."""
    wide_vectors()
    (target, _, steps), (of_left, left_stride, left_steps), (of_right, right_stride, right_steps) = out, left, right
    left_size, right_size = STATES + (categories - 1) * left_stride, STATES + (categories - 1) * right_stride
    ends = from_address(steps, bounds)
    for part in range(parts):
        left_matrix = shift(left_matrices, part * categories * MATRIX)
        right_matrix = shift(right_matrices, part * categories * MATRIX)
        for block in range(ends[part], ends[part + 1]):
            own = shift(target, block * categories * STATES)
            first, second = shift(of_left, block * left_size), shift(of_right, block * right_size)
            if equal:
                sums = _multiply(
                    own, _carry_equal(left_matrix, four_lanes(first)), _carry_equal(right_matrix, four_lanes(second))
                )
            else:
                sums = sixteen_of(ZERO)
                for category in range(categories):
                    to_left = shift(left_matrix, category * MATRIX)
                    to_right = shift(right_matrix, category * MATRIX)
                    sums = sums + _multiply(
                        shift(own, category * STATES),
                        _carry_any(to_left, four_lanes(shift(first, category * left_stride))),
                        _carry_any(to_right, four_lanes(shift(second, category * right_stride))),
                    )
            place = block * LANES
            put(steps, place, sixteen_at(left_steps, place) + sixteen_at(right_steps, place))
            if any_below(sums, SMALL):
                _rescale(own, 4 * categories, shift(steps, place))


@vector_kernel
def fill_below(tree, equal, node):
    """below[node] from its children."""
    left, right = tree.children[node, 0], tree.children[node, 1]
    join(
        equal,
        tree.parts,
        tree.bounds,
        tree.below.shape[2],
        end_below(tree, node),
        end_below(tree, left),
        matrices_at(tree.matrices, left),
        end_below(tree, right),
        matrices_at(tree.matrices, right),
    )


@vector_kernel
def fill_above(tree, equal, node):
    """above[node] from its parent's and its sibling; taxon 0's neighbour has that tip there already."""
    above = tree.parent[node]
    if above == 0:
        return
    sibling = sibling_of(tree.parent, tree.children, node)
    join(
        equal,
        tree.parts,
        tree.bounds,
        tree.below.shape[2],
        end_above(tree, node),
        end_above(tree, above),
        matrices_at(tree.matrices, above),
        end_below(tree, sibling),
        matrices_at(tree.matrices, sibling),
    )


@vector_kernel
def fill_all_below(tree, rates):
    """All matrices and all of `below`."""
    count = list_from_top(tree.children, tree.order)
    for place in range(count - 1, -1, -1):
        node = tree.order[place]
        fill_matrices(tree.matrices[node], rates, tree.lengths[node])
        if tree.children[node, 0] >= 0:
            fill_below(tree, rates.equal, node)


@vector_kernel
def fill_all_above(tree, rates):
    """All of `above`, once `below` and the matrices are filled."""
    count = list_from_top(tree.children, tree.order)
    for place in range(1, count):
        fill_above(tree, rates.equal, tree.order[place])


@vector_kernel
def _fill_branch_terms(tree, rates, patterns, branch, node):
    """The coefficients of the branch above a node."""
    fill_terms(branch, rates, patterns, tree.below.shape[2], end_below(tree, node), end_above(tree, node))


@vector_kernel
def _fit_branch(tree, rates, patterns, branch, node, tolerance):
    _fill_branch_terms(tree, rates, patterns, branch, node)
    tree.lengths[node] = best_length(branch, rates.terms, patterns.weights, tree.lengths[node], tolerance)
    fill_matrices(tree.matrices[node], rates, tree.lengths[node])


@vector_kernel
def _pass_over(tree, rates, patterns, branch, places, tolerance):
    """Fit every branch on the way down, and update `below` on the way up; `above` is out of date afterwards.

    tree.order is the path from the top, places how many children of each node on it have been visited.
    """
    depth = 0
    tree.order[0] = tree.children[0, 0]
    places[0] = 0
    while depth >= 0:
        node = tree.order[depth]
        seen = places[depth]
        if seen == 0:
            fill_above(tree, rates.equal, node)
            _fit_branch(tree, rates, patterns, branch, node, tolerance)
        if tree.children[node, 0] < 0:
            depth -= 1
        elif seen < 2:
            places[depth] = seen + 1
            depth += 1
            tree.order[depth] = tree.children[node, seen]
            places[depth] = 0
        else:
            fill_below(tree, rates.equal, node)
            depth -= 1


@vector_kernel
def tree_log_likelihood(
    tree: TreeTables, rates: RateTables, patterns: PatternTables, branch: BranchTables, sites: FloatArray
) -> float:
    """The log-likelihood, from `below` and taxon 0's branch; that of each pattern goes to `sites`."""
    top = tree.children[0, 0]
    _fill_branch_terms(tree, rates, patterns, branch, top)
    return log_likelihood(branch, rates.terms, patterns.weights, tree.lengths[top], sites)


@vector_kernel
def smooth(
    tree: TreeTables,
    rates: RateTables,
    patterns: PatternTables,
    branch: BranchTables,
    sites: FloatArray,
    passes: int,
    tolerance: float,
) -> float:
    """Fit all lengths in at most `passes` passes, until one gains less than `tolerance`; returns the log-likelihood.

    All partials are up to date afterwards.
    """
    fill_all_below(tree, rates)
    value = tree_log_likelihood(tree, rates, patterns, branch, sites)
    places = np.empty(len(tree.parent), np.int32)
    for _ in range(passes):
        _pass_over(tree, rates, patterns, branch, places, 0.01 * tolerance)
        before = value
        value = tree_log_likelihood(tree, rates, patterns, branch, sites)
        if value - before < tolerance:
            break
    fill_all_above(tree, rates)
    return value
