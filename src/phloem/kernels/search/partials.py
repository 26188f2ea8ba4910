"""The likelihood on both sides of every branch of one tree, and the branch lengths that make it largest.

The tree is rooted on taxon 0, so that every interior node has two children, and branch v is the one above node v.
`below[v]` is the likelihood of the tips under v given the state at v; `above[v]` is that of all other tips given the
state at v's parent. A join carries two of them along their branches and multiplies:

    below[v] = (P below[left]) · (P below[right])        above[v] = (P above[parent]) · (P below[sibling])

With the partials x and y at its ends, the likelihood of a pattern along a branch of length t is a sum of exponentials,

    L(t) = sum over categories c and eigenvalues k of  w_c · (L x_c)_k · (L y_c)_k · exp(μ_ck · t)

whose coefficients, the terms, are computed once. Those of eigenvalue zero make one constant, together with the
invariant sites; under Jukes–Cantor there is one exponential beside it.

Patterns go in blocks, laid out (block, category, state, pattern); `steps` counts how often each pattern of a node was
rescaled (see likelihood/blocks.py).
"""

import math
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, IntArray
from phloem.kernels.elementary import log_above_zero
from phloem.kernels.jit import at, shift, vector_kernel, wide_vectors
from phloem.kernels.likelihood.blocks import BLOCK, FOURTH, MATRIX, RESCALING, SECOND, STATES, THIRD, rescale
from phloem.kernels.trees.surgery import list_from_top, sibling_of

SMALL, FACTOR = RESCALING[np.float64]
LOG_FACTOR = math.log(FACTOR)
SHORTEST, LONGEST = 1e-8, 100.0
LONGEST_START = 2.0  # beyond it the curve can be too flat to show where its peak is
MOST_STEPS = 30
MOST_SCALING = 4  # rescalings that a constant takes without overflowing


class RateTables(NamedTuple):
    """A model by the eigenvalues and eigenvectors of its rate matrix: diag(π) P(t) = Lᵀ exp(exponents[c] · t) L.

    equal: 1 for Jukes–Cantor, whose P is a + b·I.
    """

    equal: int
    frequencies: FloatArray  # (4,)
    spectral: FloatArray  # (4, 4)  L: one row an eigenvalue, the first is that of zero
    exponents: FloatArray  # (categories, 4)
    category_weights: FloatArray  # (categories,)
    terms: FloatArray  # (terms,)  exponents of the likelihood along a branch, the first is zero


class PatternTables(NamedTuple):
    """How often each pattern occurs, and its likelihood at invariant sites."""

    weights: FloatArray  # (blocks, BLOCK)
    constant: FloatArray  # (blocks, BLOCK)


class TreeTables(NamedTuple):
    """One tree rooted on taxon 0 (see trees/surgery.py) with its partials. Rows of leaves in `below` are the tips."""

    parent: IntArray  # (nodes,)  -1 at taxon 0
    children: IntArray  # (nodes, 2)  -1 at leaves; taxon 0 has its one neighbour first
    lengths: FloatArray  # (nodes,)  of the branch above each node
    matrices: FloatArray  # (nodes, categories, MATRIX)
    below: FloatArray  # (nodes, blocks, categories, 4, BLOCK)
    above: FloatArray
    below_steps: IntArray  # (nodes, blocks, BLOCK)
    above_steps: IntArray
    order: IntArray  # (nodes,)  scratch: a list of nodes
    places: IntArray  # (nodes,)  scratch: a number for each of them


@vector_kernel
def fill_matrices(matrices, rates, length):
    """P of every category for one branch; under Jukes–Cantor only a and b, the probabilities to change and to stay."""
    if rates.equal:
        exponent = rates.exponents[0, 1] * length
        matrices[0, 0] = -0.25 * math.expm1(exponent)
        matrices[0, 1] = math.exp(exponent)
        return
    for category in range(len(matrices)):
        for entry in range(MATRIX):
            matrices[category, entry] = 1.0 if entry % 5 == 0 else 0.0
        for k in range(1, 4):
            growth = math.expm1(rates.exponents[category, k] * length)
            for row in range(4):
                scaled = growth * rates.spectral[k, row] / rates.frequencies[row]
                for column in range(4):
                    matrices[category, 4 * row + column] += scaled * rates.spectral[k, column]


@vector_kernel
def _join_equal(out, sums, left, left_change, left_stay, right, right_change, right_stay):
    """The product of two messages a·S + b·p, and the sums of its states."""
    wide_vectors()
    for i in range(BLOCK):
        l0, l1, l2, l3 = left[i], left[SECOND + i], left[THIRD + i], left[FOURTH + i]
        r0, r1, r2, r3 = right[i], right[SECOND + i], right[THIRD + i], right[FOURTH + i]
        left_base = left_change * ((l0 + l1) + (l2 + l3))
        right_base = right_change * ((r0 + r1) + (r2 + r3))
        p0 = (left_base + left_stay * l0) * (right_base + right_stay * r0)
        p1 = (left_base + left_stay * l1) * (right_base + right_stay * r1)
        p2 = (left_base + left_stay * l2) * (right_base + right_stay * r2)
        p3 = (left_base + left_stay * l3) * (right_base + right_stay * r3)
        out[i] = p0
        out[SECOND + i] = p1
        out[THIRD + i] = p2
        out[FOURTH + i] = p3
        sums[i] = (p0 + p1) + (p2 + p3)


@vector_kernel
def _join_any(out, sums, left, left_matrix, right, right_matrix):
    """The product of two messages P·p, and the sums of its states added to those of other categories."""
    wide_vectors()
    for state in range(4):
        place = state * BLOCK
        row = 4 * state
        a0, a1, a2, a3 = left_matrix[row], left_matrix[row + 1], left_matrix[row + 2], left_matrix[row + 3]
        b0, b1, b2, b3 = right_matrix[row], right_matrix[row + 1], right_matrix[row + 2], right_matrix[row + 3]
        for i in range(BLOCK):
            from_left = (a0 * left[i] + a1 * left[SECOND + i]) + (a2 * left[THIRD + i] + a3 * left[FOURTH + i])
            from_right = (b0 * right[i] + b1 * right[SECOND + i]) + (b2 * right[THIRD + i] + b3 * right[FOURTH + i])
            product = from_left * from_right
            out[place + i] = product
            sums[i] += product


@vector_kernel
def join(equal, blocks, categories, out, out_steps, left, left_steps, left_matrix, right, right_steps, right_matrix):
    """The product of two partials, each carried along its branch, for all patterns."""
    wide_vectors()
    room = np.empty(BLOCK)
    sums = at(room, 0)
    size = categories * STATES
    for block in range(blocks):
        target, first, second = shift(out, block * size), shift(left, block * size), shift(right, block * size)
        if equal:
            _join_equal(target, sums, first, left_matrix[0], left_matrix[1], second, right_matrix[0], right_matrix[1])
        else:
            for i in range(BLOCK):
                sums[i] = 0.0
            for category in range(categories):
                place, matrix = category * STATES, category * MATRIX
                _join_any(
                    shift(target, place),
                    sums,
                    shift(first, place),
                    shift(left_matrix, matrix),
                    shift(second, place),
                    shift(right_matrix, matrix),
                )
        counts = shift(out_steps, block * BLOCK)
        first_counts, second_counts = shift(left_steps, block * BLOCK), shift(right_steps, block * BLOCK)
        tiny = 0
        for i in range(BLOCK):
            counts[i] = first_counts[i] + second_counts[i]
            tiny += sums[i] < SMALL
        if tiny:
            rescale(target, 4 * categories, sums, counts, SMALL, FACTOR)
    return room[0]  # keeps the array alive for as long as the pointer into it


@vector_kernel
def fill_below(tree, equal, node):
    """below[node] from its children."""
    blocks, categories = tree.below.shape[1], tree.below.shape[2]
    size, width, matrix = blocks * categories * STATES, blocks * BLOCK, categories * MATRIX
    left, right = tree.children[node, 0], tree.children[node, 1]
    join(
        equal,
        blocks,
        categories,
        at(tree.below, node * size),
        at(tree.below_steps, node * width),
        at(tree.below, left * size),
        at(tree.below_steps, left * width),
        at(tree.matrices, left * matrix),
        at(tree.below, right * size),
        at(tree.below_steps, right * width),
        at(tree.matrices, right * matrix),
    )


@vector_kernel
def fill_above(tree, equal, node):
    """above[node] from its parent's and its sibling; taxon 0's neighbour has that tip there already."""
    above = tree.parent[node]
    if above == 0:
        return
    blocks, categories = tree.below.shape[1], tree.below.shape[2]
    size, width, matrix = blocks * categories * STATES, blocks * BLOCK, categories * MATRIX
    sibling = sibling_of(tree.parent, tree.children, node)
    join(
        equal,
        blocks,
        categories,
        at(tree.above, node * size),
        at(tree.above_steps, node * width),
        at(tree.above, above * size),
        at(tree.above_steps, above * width),
        at(tree.matrices, above * matrix),
        at(tree.below, sibling * size),
        at(tree.below_steps, sibling * width),
        at(tree.matrices, sibling * matrix),
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
    top = tree.children[0, 0]
    tree.above[top] = tree.below[0]
    tree.above_steps[top] = tree.below_steps[0]
    count = list_from_top(tree.children, tree.order)
    for place in range(1, count):
        fill_above(tree, rates.equal, tree.order[place])


@vector_kernel
def _fill_equal(terms, x, y):
    """Jukes–Cantor: S_x·S_y / 16, and x·y / 4 less that."""
    wide_vectors()
    for i in range(BLOCK):
        x0, x1, x2, x3 = x[i], x[SECOND + i], x[THIRD + i], x[FOURTH + i]
        y0, y1, y2, y3 = y[i], y[SECOND + i], y[THIRD + i], y[FOURTH + i]
        mean = 0.0625 * ((x0 + x1) + (x2 + x3)) * ((y0 + y1) + (y2 + y3))
        terms[i] += mean
        terms[BLOCK + i] = 0.25 * ((x0 * y0 + x1 * y1) + (x2 * y2 + x3 * y3)) - mean


@vector_kernel
def _fill_any(terms, rates, category, x, y):
    """The four terms of a category, the first of them added to the constant."""
    wide_vectors()
    weight = rates.category_weights[category]
    for k in range(4):
        l0, l1, l2, l3 = rates.spectral[k, 0], rates.spectral[k, 1], rates.spectral[k, 2], rates.spectral[k, 3]
        place = (3 * category + k) * BLOCK
        for i in range(BLOCK):
            of_x = (l0 * x[i] + l1 * x[SECOND + i]) + (l2 * x[THIRD + i] + l3 * x[FOURTH + i])
            of_y = (l0 * y[i] + l1 * y[SECOND + i]) + (l2 * y[THIRD + i] + l3 * y[FOURTH + i])
            term = weight * (of_x * of_y)
            if k == 0:
                terms[i] += term
            else:
                terms[place + i] = term


@vector_kernel
def fill_terms(terms, rates, patterns, categories, x, x_steps, y, y_steps):
    """Coefficients (blocks, terms, BLOCK) of a branch between two partials."""
    size = categories * STATES
    for block in range(len(patterns.weights)):
        row = at(terms, block * len(rates.terms) * BLOCK)
        first, second = shift(x, block * size), shift(y, block * size)
        for i in range(BLOCK):
            row[i] = patterns.constant[block, i]
            if row[i] > 0:  # it must be rescaled as the partials were
                for _ in range(min(x_steps[block * BLOCK + i] + y_steps[block * BLOCK + i], MOST_SCALING)):
                    row[i] *= FACTOR
        if rates.equal:
            _fill_equal(row, first, second)
        else:
            for category in range(categories):
                _fill_any(row, rates, category, shift(first, category * STATES), shift(second, category * STATES))


@vector_kernel
def _slopes(terms, exponents, weights, length):
    """First and second derivative of the log-likelihood with respect to the length."""
    wide_vectors()
    count = len(exponents)
    value, slope, curve = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    first, second = np.zeros(BLOCK), np.zeros(BLOCK)
    for block in range(len(weights)):
        row = at(terms, block * count * BLOCK)
        for i in range(BLOCK):
            value[i] = row[i]
            slope[i] = 0.0
            curve[i] = 0.0
        for k in range(1, count):
            factor = math.exp(exponents[k] * length)
            rate = exponents[k] * factor
            square = exponents[k] * rate
            term = shift(row, k * BLOCK)
            for i in range(BLOCK):
                value[i] += factor * term[i]
                slope[i] += rate * term[i]
                curve[i] += square * term[i]
        for i in range(BLOCK):
            inverse = 1.0 / value[i]
            ratio = slope[i] * inverse
            first[i] += weights[block, i] * ratio
            second[i] += weights[block, i] * (curve[i] * inverse - ratio * ratio)
    return first.sum(), second.sum()


@vector_kernel
def best_length(terms, exponents, weights, start, tolerance):
    """Newton's method within a bracket of lengths known to be too short and too long.

    It ends when a step can gain about `tolerance` at most. Where Newton's step leaves the bracket, the length changes
    at most tenfold.
    """
    low, high = SHORTEST, LONGEST
    length = min(max(start, low), LONGEST_START)
    floor_known = False
    for _ in range(MOST_STEPS):
        slope, curve = _slopes(terms, exponents, weights, length)
        if slope > 0:
            low = length
        else:
            high = length
        if abs(slope) * ((high - length) if slope > 0 else (length - low)) < tolerance:
            break
        following = length - slope / curve
        if not curve < 0:
            following = high if slope > 0 else low
        elif slope * slope < -2.0 * tolerance * curve:
            return min(max(following, low), high)
        if following >= high:
            following = min(10.0 * length, math.sqrt(length * high))
        elif following <= low:
            if low <= SHORTEST and not floor_known:  # many branches have length zero
                floor_known = True
                if _slopes(terms, exponents, weights, SHORTEST)[0] <= 0:
                    return SHORTEST
            following = max(0.1 * length, math.sqrt(low * length))
        length = following
    return length


@vector_kernel
def log_likelihood(terms, exponents, weights, length, steps_x, steps_y, sites):
    """The log-likelihood at a length; that of each pattern, padding included, goes to `sites`."""
    wide_vectors()
    count = len(exponents)
    value = np.empty(BLOCK)
    total = np.zeros(BLOCK)
    for block in range(len(weights)):
        row = at(terms, block * count * BLOCK)
        for i in range(BLOCK):
            value[i] = row[i]
        for k in range(1, count):
            factor = math.exp(exponents[k] * length)
            term = shift(row, k * BLOCK)
            for i in range(BLOCK):
                value[i] += factor * term[i]
        own = at(sites, block * BLOCK)
        place = block * BLOCK
        for i in range(BLOCK):
            logarithm = log_above_zero(value[i]) - LOG_FACTOR * (steps_x[place + i] + steps_y[place + i])
            own[i] = logarithm
            total[i] += weights[block, i] * logarithm
    return total.sum()


@vector_kernel
def _fill_branch_terms(tree, rates, patterns, terms, node):
    """The coefficients of the branch above a node."""
    blocks, categories = tree.below.shape[1], tree.below.shape[2]
    size, width = blocks * categories * STATES, blocks * BLOCK
    fill_terms(
        terms,
        rates,
        patterns,
        categories,
        at(tree.below, node * size),
        at(tree.below_steps, node * width),
        at(tree.above, node * size),
        at(tree.above_steps, node * width),
    )


@vector_kernel
def _fit_branch(tree, rates, patterns, terms, node, tolerance):
    _fill_branch_terms(tree, rates, patterns, terms, node)
    tree.lengths[node] = best_length(terms, rates.terms, patterns.weights, tree.lengths[node], tolerance)
    fill_matrices(tree.matrices[node], rates, tree.lengths[node])


@vector_kernel
def _pass_over(tree, rates, patterns, terms, tolerance):
    """Fit every branch on the way down, and update `below` on the way up; `above` is out of date afterwards.

    tree.order is the path from the top, tree.places how many children of each node on it have been visited.
    """
    depth = 0
    tree.order[0] = tree.children[0, 0]
    tree.places[0] = 0
    while depth >= 0:
        node = tree.order[depth]
        seen = tree.places[depth]
        if seen == 0:
            fill_above(tree, rates.equal, node)
            _fit_branch(tree, rates, patterns, terms, node, tolerance)
        if tree.children[node, 0] < 0:
            depth -= 1
        elif seen < 2:
            tree.places[depth] = seen + 1
            depth += 1
            tree.order[depth] = tree.children[node, seen]
            tree.places[depth] = 0
        else:
            fill_below(tree, rates.equal, node)
            depth -= 1


@vector_kernel
def tree_log_likelihood(
    tree: TreeTables, rates: RateTables, patterns: PatternTables, terms: FloatArray, sites: FloatArray
) -> float:
    """The log-likelihood, from `below` and taxon 0's branch; that of each pattern goes to `sites`."""
    top = tree.children[0, 0]
    width = tree.below.shape[1] * BLOCK
    _fill_branch_terms(tree, rates, patterns, terms, top)
    return log_likelihood(
        terms,
        rates.terms,
        patterns.weights,
        tree.lengths[top],
        at(tree.below_steps, top * width),
        at(tree.above_steps, top * width),
        sites,
    )


@vector_kernel
def smooth(
    tree: TreeTables,
    rates: RateTables,
    patterns: PatternTables,
    terms: FloatArray,
    sites: FloatArray,
    passes: int,
    tolerance: float,
) -> float:
    """Fit all lengths in at most `passes` passes, until one gains less than `tolerance`; returns the log-likelihood.

    All partials are up to date afterwards.
    """
    fill_all_below(tree, rates)
    top = tree.children[0, 0]
    tree.above[top] = tree.below[0]
    tree.above_steps[top] = tree.below_steps[0]
    value = tree_log_likelihood(tree, rates, patterns, terms, sites)
    for _ in range(passes):
        _pass_over(tree, rates, patterns, terms, 0.01 * tolerance)
        before = value
        value = tree_log_likelihood(tree, rates, patterns, terms, sites)
        if value - before < tolerance:
            break
    fill_all_above(tree, rates)
    return value
