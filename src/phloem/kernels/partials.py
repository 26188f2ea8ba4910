"""The likelihood on both sides of every branch of one tree, under any reversible model of nucleotides.

The tree hangs on taxon 0, so that every interior node has two children, and branch v is the one above node v.
`below[v]` is the likelihood of the tips under v given the state at v; `above[v]` is that of all other tips given the
state at v's parent. A join carries two of them along their branches and multiplies:

    below[v] = (P below[left]) · (P below[right])        above[v] = (P above[parent]) · (P below[sibling])

Patterns go in blocks of `BLOCK`, laid out (block, category, state, pattern), as in jukes_cantor.py. Where all numbers
of a pattern become small they are multiplied by a power of two, and `steps` counts how often.
"""

import math
from typing import NamedTuple

import numpy as np

from phloem.kernels.arrays import FloatArray, IntArray
from phloem.kernels.jit import vector_kernel, wide_vectors
from phloem.kernels.jukes_cantor import BLOCK, FOURTH, SECOND, STATES, THIRD
from phloem.kernels.pointers import at, shift

MATRIX = 16  # numbers of a transition matrix
SMALL, FACTOR = 2.0**-200, 2.0**200
LOG_FACTOR = math.log(FACTOR)


class RateTables(NamedTuple):
    """A model by the eigenvalues and eigenvectors of its rates: P(t) = Lᵀ exp(exponents[c] · t) L, rows by frequencies.

    equal: 1 for Jukes–Cantor, whose P is a + b·I.
    """

    equal: int
    frequencies: FloatArray  # (4,)
    spectral: FloatArray  # (4, 4)  L: one row an eigenvalue, the first is that of zero
    exponents: FloatArray  # (categories, 4)
    category_weights: FloatArray  # (categories,)
    terms: FloatArray  # (terms,)  exponents of the likelihood along a branch, see branch_fit.py


class PatternTables(NamedTuple):
    """Patterns: how often each occurs, and its likelihood at sites that never change."""

    weights: FloatArray  # (blocks, BLOCK)
    constant: FloatArray  # (blocks, BLOCK)


class TreeTables(NamedTuple):
    """One tree hung on taxon 0, and room for its partials. Rows of leaves in `below` are the tips."""

    parent: IntArray  # (nodes,)  -1 at taxon 0
    children: IntArray  # (nodes, 2)  -1 at leaves; taxon 0 has its one neighbour first
    lengths: FloatArray  # (nodes,)  of the branch above each node
    matrices: FloatArray  # (nodes, categories, 16)
    below: FloatArray  # (nodes, blocks, categories, 4, BLOCK)
    above: FloatArray
    below_steps: IntArray  # (nodes, blocks, BLOCK)
    above_steps: IntArray
    order: IntArray  # (nodes,)  room for a list of nodes
    places: IntArray  # (nodes,)


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
def _rescale(out, steps, sums, categories):
    """Multiply each pattern whose sum is small, but not zero, until it is not, and count how often."""
    for i in range(BLOCK):
        while sums[i] > 0 and sums[i] < SMALL:
            for place in range(i, categories * STATES, BLOCK):
                out[place] *= FACTOR
            sums[i] *= FACTOR
            steps[i] += 1


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
            _rescale(target, counts, sums, categories)
    return room[0]  # keeps the room alive for as long as its pointer


@vector_kernel
def sibling_of(tree, node):
    """The other child of a node's parent."""
    above = tree.parent[node]
    return tree.children[above, 0] + tree.children[above, 1] - node


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
    """above[node] from its parent's and its sibling; beside taxon 0 it is that tip, which is there already."""
    above = tree.parent[node]
    if above == 0:
        return
    blocks, categories = tree.below.shape[1], tree.below.shape[2]
    size, width, matrix = blocks * categories * STATES, blocks * BLOCK, categories * MATRIX
    sibling = sibling_of(tree, node)
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
def list_from_top(tree):
    """tree.order: all nodes but taxon 0, parents before children, and how many; fewer where a subtree is cut off."""
    tree.order[0] = tree.children[0, 0]
    count = 1
    place = 0
    while place < count:
        node = tree.order[place]
        place += 1
        if tree.children[node, 0] >= 0:
            tree.order[count] = tree.children[node, 0]
            tree.order[count + 1] = tree.children[node, 1]
            count += 2
    return count


@vector_kernel
def fill_all_below(tree, rates):
    """All matrices and all of `below`."""
    count = list_from_top(tree)
    for place in range(count - 1, -1, -1):
        node = tree.order[place]
        fill_matrices(tree.matrices[node], rates, tree.lengths[node])
        if tree.children[node, 0] >= 0:
            fill_below(tree, rates.equal, node)


@vector_kernel
def fill_all_above(tree, rates):
    """All of `above`, where `below` and the matrices are there."""
    top = tree.children[0, 0]
    tree.above[top] = tree.below[0]
    tree.above_steps[top] = tree.below_steps[0]
    count = list_from_top(tree)
    for place in range(1, count):
        fill_above(tree, rates.equal, tree.order[place])
