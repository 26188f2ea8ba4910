"""Rows of partial likelihoods with four rate categories side by side: the loops over the classes of one branch.

A row is (state, category), four lanes, one for each state. Nothing is ever shuffled: a matrix is 16 lanes, and every
product takes each category with its own. More than four categories go in groups.

With m the message of a class to the node above, p = m_left · m_right state by state, and O the derivative of the
log-likelihood with respect to m:

    up    m = P·p
    down  D = Pᵀ·O;  O_left += D · m_right;  O_right += D · m_left;  dP += O ⊗ p
"""

import numpy as np

from phloem.kernels.jit import shift, vector_kernel
from phloem.kernels.lanes import choose_if_between, four_at, four_of, least_of, put, smaller, sum_of

ROW = 16  # doubles: 4 states of 4 lanes
MATRIX = 64  # doubles: 16 entries of 4 lanes
ALL_STATES = 15
SMALL, FACTOR = 2.0**-200, 2.0**200


@vector_kernel
def tip_rows_four(rows, matrix, codes, count):
    """The messages of a tip, one for each code: the sums of P's columns of the states in it."""
    for code in range(count):
        row = shift(rows, code * ROW)
        for state in range(4):
            value = four_of(1.0)
            if codes[code] != ALL_STATES:
                value = four_of(0.0)
                for column in range(4):
                    if (codes[code] >> column) & 1:
                        value += four_at(matrix, (4 * state + column) * 4)
            put(row, state * 4, value)


@vector_kernel
def go_up_four(rows, matrix, left_rows, right_rows, pairs, count):
    """The messages of a node; returns the smallest sum of one over its states."""
    a0, a1, a2, a3 = four_at(matrix, 0), four_at(matrix, 4), four_at(matrix, 8), four_at(matrix, 12)
    b0, b1, b2, b3 = four_at(matrix, 16), four_at(matrix, 20), four_at(matrix, 24), four_at(matrix, 28)
    c0, c1, c2, c3 = four_at(matrix, 32), four_at(matrix, 36), four_at(matrix, 40), four_at(matrix, 44)
    d0, d1, d2, d3 = four_at(matrix, 48), four_at(matrix, 52), four_at(matrix, 56), four_at(matrix, 60)
    smallest = four_of(1.0)
    for place in range(count):
        left = np.int64(pairs[2 * place]) * ROW
        right = np.int64(pairs[2 * place + 1]) * ROW
        p0 = four_at(left_rows, left) * four_at(right_rows, right)
        p1 = four_at(left_rows, left + 4) * four_at(right_rows, right + 4)
        p2 = four_at(left_rows, left + 8) * four_at(right_rows, right + 8)
        p3 = four_at(left_rows, left + 12) * four_at(right_rows, right + 12)
        smallest = smaller(smallest, (p0 + p1) + (p2 + p3))
        row = place * ROW
        put(rows, row, (a0 * p0 + a1 * p1) + (a2 * p2 + a3 * p3))
        put(rows, row + 4, (b0 * p0 + b1 * p1) + (b2 * p2 + b3 * p3))
        put(rows, row + 8, (c0 * p0 + c1 * p1) + (c2 * p2 + c3 * p3))
        put(rows, row + 12, (d0 * p0 + d1 * p1) + (d2 * p2 + d3 * p3))
    return least_of(smallest)


@vector_kernel
def rescale_four(rows, count, scales, powers):
    """Multiply small messages until they are not, category by category; note the factors and count the times."""
    factor, one, none = four_of(FACTOR), four_of(1.0), four_of(0.0)
    for place in range(count):
        row = place * ROW
        m0, m1, m2, m3 = four_at(rows, row), four_at(rows, row + 4), four_at(rows, row + 8), four_at(rows, row + 12)
        scale, power = one, none
        for _ in range(5):  # a double has no smaller numbers
            size = ((m0 + m1) + (m2 + m3)) * scale
            power += choose_if_between(size, SMALL, one, none)
            scale *= choose_if_between(size, SMALL, factor, one)
        put(rows, row, m0 * scale)
        put(rows, row + 4, m1 * scale)
        put(rows, row + 8, m2 * scale)
        put(rows, row + 12, m3 * scale)
        put(scales, 4 * place, scale)
        put(powers, 4 * place, four_at(powers, 4 * place) + power)


@vector_kernel
def add_powers_four(powers, child_powers, pairs, column, count):
    """Add how often a child's classes were multiplied."""
    for place in range(count):
        child = np.int64(pairs[2 * place + column])
        put(powers, 4 * place, four_at(powers, 4 * place) + four_at(child_powers, 4 * child))


@vector_kernel
def scale_outside_four(outside, scales, count):
    """What was multiplied on the way up is multiplied on the way down."""
    for place in range(count):
        scale = four_at(scales, 4 * place)
        for state in range(4):
            entry = place * ROW + 4 * state
            put(outside, entry, four_at(outside, entry) * scale)


@vector_kernel
def go_down_four(outside, matrix, left_rows, right_rows, left_outside, right_outside, pairs, count, derivative):
    """O of the children, and dP, whose sixteen sums are kept in registers where there are enough."""
    a0, a1, a2, a3 = four_at(derivative, 0), four_at(derivative, 4), four_at(derivative, 8), four_at(derivative, 12)
    b0, b1, b2, b3 = four_at(derivative, 16), four_at(derivative, 20), four_at(derivative, 24), four_at(derivative, 28)
    c0, c1, c2, c3 = four_at(derivative, 32), four_at(derivative, 36), four_at(derivative, 40), four_at(derivative, 44)
    d0, d1, d2, d3 = four_at(derivative, 48), four_at(derivative, 52), four_at(derivative, 56), four_at(derivative, 60)
    for place in range(count):
        left = np.int64(pairs[2 * place]) * ROW
        right = np.int64(pairs[2 * place + 1]) * ROW
        row = place * ROW
        own = four_at(outside, row), four_at(outside, row + 4), four_at(outside, row + 8), four_at(outside, row + 12)
        p = _descend(own, matrix, 0, left_rows, right_rows, left_outside, right_outside, left, right)
        a0, b0, c0, d0 = a0 + own[0] * p, b0 + own[1] * p, c0 + own[2] * p, d0 + own[3] * p
        p = _descend(own, matrix, 4, left_rows, right_rows, left_outside, right_outside, left + 4, right + 4)
        a1, b1, c1, d1 = a1 + own[0] * p, b1 + own[1] * p, c1 + own[2] * p, d1 + own[3] * p
        p = _descend(own, matrix, 8, left_rows, right_rows, left_outside, right_outside, left + 8, right + 8)
        a2, b2, c2, d2 = a2 + own[0] * p, b2 + own[1] * p, c2 + own[2] * p, d2 + own[3] * p
        p = _descend(own, matrix, 12, left_rows, right_rows, left_outside, right_outside, left + 12, right + 12)
        a3, b3, c3, d3 = a3 + own[0] * p, b3 + own[1] * p, c3 + own[2] * p, d3 + own[3] * p
    _store_row(derivative, a0, a1, a2, a3)
    _store_row(shift(derivative, 16), b0, b1, b2, b3)
    _store_row(shift(derivative, 32), c0, c1, c2, c3)
    _store_row(shift(derivative, 48), d0, d1, d2, d3)


@vector_kernel
def _descend(own, matrix, column, left_rows, right_rows, left_outside, right_outside, left, right):
    """D of one state, its share of the children's O, and p."""
    x, y = four_at(left_rows, left), four_at(right_rows, right)
    down = four_at(matrix, column) * own[0] + four_at(matrix, column + 16) * own[1]
    down += four_at(matrix, column + 32) * own[2] + four_at(matrix, column + 48) * own[3]
    put(left_outside, left, down * y + four_at(left_outside, left))
    put(right_outside, right, down * x + four_at(right_outside, right))
    return x * y


@vector_kernel
def _store_row(row, first, second, third, fourth):
    put(row, 0, first)
    put(row, 4, second)
    put(row, 8, third)
    put(row, 12, fourth)


@vector_kernel
def tip_derivative_four(derivative, outside, codes, count):
    """dP of a tip. A gap tells nothing of its branch and is left out."""
    for code in range(count):
        if codes[code] == ALL_STATES:
            continue
        for column in range(4):
            if (codes[code] >> column) & 1:
                for state in range(4):
                    entry = (4 * state + column) * 4
                    put(derivative, entry, four_at(derivative, entry) + four_at(outside, code * ROW + 4 * state))


@vector_kernel
def root_shares_four(shares, frequencies, messages, classes, patterns):
    """The likelihood of every pattern in each category, from the messages of the root's three children."""
    f0, f1, f2, f3 = four_of(frequencies[0]), four_of(frequencies[1]), four_of(frequencies[2]), four_of(frequencies[3])
    for pattern in range(patterns):
        x = shift(messages[0], np.int64(classes[0][pattern]) * ROW)
        y = shift(messages[1], np.int64(classes[1][pattern]) * ROW)
        z = shift(messages[2], np.int64(classes[2][pattern]) * ROW)
        low = f0 * (four_at(x, 0) * four_at(y, 0) * four_at(z, 0)) + f1 * (
            four_at(x, 4) * four_at(y, 4) * four_at(z, 4)
        )
        high = f2 * (four_at(x, 8) * four_at(y, 8) * four_at(z, 8)) + f3 * (
            four_at(x, 12) * four_at(y, 12) * four_at(z, 12)
        )
        put(shares, 4 * pattern, low + high)


@vector_kernel
def weigh_shares_four(likelihoods, shares, weights, patterns):
    """Add the categories' shares to the patterns' likelihoods."""
    weight = four_at(weights, 0)
    for pattern in range(patterns):
        likelihoods[pattern] += sum_of(four_at(shares, 4 * pattern) * weight)


@vector_kernel
def make_factors_four(shares, weights, scales, patterns, derivative):
    """From shares to what O begins with: scale · weight; and the derivative for each category's weight, four lanes."""
    weight, summed = four_at(weights, 0), four_at(derivative, 0)
    for pattern in range(patterns):
        scale = four_of(scales[pattern])
        summed += scale * four_at(shares, 4 * pattern)
        put(shares, 4 * pattern, scale * weight)
    put(derivative, 0, summed)


@vector_kernel
def root_outside_four(factors, frequencies, messages, classes, patterns, outsides, derivative):
    """O of the root's children, each pattern times its factors, and the derivative for each frequency, four lanes."""
    f0, f1, f2, f3 = four_of(frequencies[0]), four_of(frequencies[1]), four_of(frequencies[2]), four_of(frequencies[3])
    s0, s1, s2, s3 = four_at(derivative, 0), four_at(derivative, 4), four_at(derivative, 8), four_at(derivative, 12)
    for pattern in range(patterns):
        x, y = np.int64(classes[0][pattern]) * ROW, np.int64(classes[1][pattern]) * ROW
        z = np.int64(classes[2][pattern]) * ROW
        factor = four_at(factors, 4 * pattern)
        s0 += factor * _root_state(factor * f0, messages, outsides, x, y, z)
        s1 += factor * _root_state(factor * f1, messages, outsides, x + 4, y + 4, z + 4)
        s2 += factor * _root_state(factor * f2, messages, outsides, x + 8, y + 8, z + 8)
        s3 += factor * _root_state(factor * f3, messages, outsides, x + 12, y + 12, z + 12)
    _store_row(derivative, s0, s1, s2, s3)


@vector_kernel
def _root_state(weight, rows, outsides, x_place, y_place, z_place):
    """O of one state of the root's children; returns the product of their messages."""
    x, y, z = four_at(rows[0], x_place), four_at(rows[1], y_place), four_at(rows[2], z_place)
    both = x * y
    put(outsides[2], z_place, weight * both + four_at(outsides[2], z_place))
    weight *= z
    put(outsides[0], x_place, weight * y + four_at(outsides[0], x_place))
    put(outsides[1], y_place, weight * x + four_at(outsides[1], y_place))
    return both * z
