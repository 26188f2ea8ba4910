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
from phloem.kernels.lanes import choose_if_smaller, least, load, smaller, spread, store, total

ROW = 16  # doubles: 4 states of 4 lanes
MATRIX = 64  # doubles: 16 entries of 4 lanes
ALL_STATES = 15
SMALL, FACTOR = 2.0**-200, 2.0**200
CHUNK = 32  # classes whose p are kept for the second half of the way down


@vector_kernel
def tip_rows_four(rows, matrix, codes, count):
    """The messages of a tip, one for each code: the sums of P's columns of the states in it."""
    for code in range(count):
        row = shift(rows, code * ROW)
        for state in range(4):
            value = spread(1.0)
            if codes[code] != ALL_STATES:
                value = spread(0.0)
                for column in range(4):
                    if (codes[code] >> column) & 1:
                        value += load(matrix, (4 * state + column) * 4)
            store(row, state * 4, value)


@vector_kernel
def go_up_four(rows, matrix, left_rows, right_rows, pairs, count):
    """The messages of a node; returns the smallest sum of one over its states."""
    a0, a1, a2, a3 = load(matrix, 0), load(matrix, 4), load(matrix, 8), load(matrix, 12)
    b0, b1, b2, b3 = load(matrix, 16), load(matrix, 20), load(matrix, 24), load(matrix, 28)
    c0, c1, c2, c3 = load(matrix, 32), load(matrix, 36), load(matrix, 40), load(matrix, 44)
    d0, d1, d2, d3 = load(matrix, 48), load(matrix, 52), load(matrix, 56), load(matrix, 60)
    smallest = spread(1.0)
    for place in range(count):
        left = np.int64(pairs[2 * place]) * ROW
        right = np.int64(pairs[2 * place + 1]) * ROW
        p0 = load(left_rows, left) * load(right_rows, right)
        p1 = load(left_rows, left + 4) * load(right_rows, right + 4)
        p2 = load(left_rows, left + 8) * load(right_rows, right + 8)
        p3 = load(left_rows, left + 12) * load(right_rows, right + 12)
        smallest = smaller(smallest, (p0 + p1) + (p2 + p3))
        row = place * ROW
        store(rows, row, (a0 * p0 + a1 * p1) + (a2 * p2 + a3 * p3))
        store(rows, row + 4, (b0 * p0 + b1 * p1) + (b2 * p2 + b3 * p3))
        store(rows, row + 8, (c0 * p0 + c1 * p1) + (c2 * p2 + c3 * p3))
        store(rows, row + 12, (d0 * p0 + d1 * p1) + (d2 * p2 + d3 * p3))
    return least(smallest)


@vector_kernel
def rescale_four(rows, count, scales, powers):
    """Multiply small messages until they are not, category by category; note the factors and count the times."""
    small, factor, one, none = spread(SMALL), spread(FACTOR), spread(1.0), spread(0.0)
    for place in range(count):
        row = place * ROW
        m0, m1, m2, m3 = load(rows, row), load(rows, row + 4), load(rows, row + 8), load(rows, row + 12)
        scale, power = one, none
        for _ in range(5):  # a double has no smaller numbers
            size = ((m0 + m1) + (m2 + m3)) * scale
            power += choose_if_smaller(size, small, one, none)
            scale *= choose_if_smaller(size, small, factor, one)
        store(rows, row, m0 * scale)
        store(rows, row + 4, m1 * scale)
        store(rows, row + 8, m2 * scale)
        store(rows, row + 12, m3 * scale)
        store(scales, 4 * place, scale)
        store(powers, 4 * place, load(powers, 4 * place) + power)


@vector_kernel
def add_powers_four(powers, child_powers, pairs, column, count):
    """Add how often a child's classes were multiplied."""
    for place in range(count):
        child = np.int64(pairs[2 * place + column])
        store(powers, 4 * place, load(powers, 4 * place) + load(child_powers, 4 * child))


@vector_kernel
def scale_outside_four(outside, scales, count):
    """What was multiplied on the way up is multiplied on the way down."""
    for place in range(count):
        scale = load(scales, 4 * place)
        for state in range(4):
            entry = place * ROW + 4 * state
            store(outside, entry, load(outside, entry) * scale)


@vector_kernel
def go_down_four(outside, matrix, left_rows, right_rows, left_outside, right_outside, pairs, count, derivative, room):
    """O of the children, and dP, in chunks: the second loop has its sums in registers, which one loop had not."""
    for start in range(0, count, CHUNK):
        end = min(start + CHUNK, count)
        for place in range(start, end):
            left = np.int64(pairs[2 * place]) * ROW
            right = np.int64(pairs[2 * place + 1]) * ROW
            row, kept = place * ROW, (place - start) * ROW
            o0, o1 = load(outside, row), load(outside, row + 4)
            o2, o3 = load(outside, row + 8), load(outside, row + 12)
            for state in range(4):
                entry = 4 * state
                x, y = load(left_rows, left + entry), load(right_rows, right + entry)
                store(room, kept + entry, x * y)
                down = (load(matrix, entry) * o0 + load(matrix, entry + 16) * o1) + (
                    load(matrix, entry + 32) * o2 + load(matrix, entry + 48) * o3
                )
                store(left_outside, left + entry, down * y + load(left_outside, left + entry))
                store(right_outside, right + entry, down * x + load(right_outside, right + entry))
        _add_outer(derivative, shift(outside, start * ROW), room, end - start)
        _add_outer(shift(derivative, MATRIX // 2), shift(outside, start * ROW + ROW // 2), room, end - start)


@vector_kernel
def _add_outer(derivative, outside, partials, count):
    """Two rows of dP += O ⊗ p."""
    a0, a1, a2, a3 = load(derivative, 0), load(derivative, 4), load(derivative, 8), load(derivative, 12)
    b0, b1, b2, b3 = load(derivative, 16), load(derivative, 20), load(derivative, 24), load(derivative, 28)
    for place in range(count):
        row = place * ROW
        first, second = load(outside, row), load(outside, row + 4)
        p0, p1, p2, p3 = (
            load(partials, row),
            load(partials, row + 4),
            load(partials, row + 8),
            load(partials, row + 12),
        )
        a0 += first * p0
        a1 += first * p1
        a2 += first * p2
        a3 += first * p3
        b0 += second * p0
        b1 += second * p1
        b2 += second * p2
        b3 += second * p3
    store(derivative, 0, a0)
    store(derivative, 4, a1)
    store(derivative, 8, a2)
    store(derivative, 12, a3)
    store(derivative, 16, b0)
    store(derivative, 20, b1)
    store(derivative, 24, b2)
    store(derivative, 28, b3)


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
                    store(derivative, entry, load(derivative, entry) + load(outside, code * ROW + 4 * state))


@vector_kernel
def root_shares_four(shares, frequencies, first_rows, first, second_rows, second, third_rows, third, patterns):
    """The likelihood of every pattern in each category, from the messages of the root's three children."""
    f0, f1, f2, f3 = spread(frequencies[0]), spread(frequencies[1]), spread(frequencies[2]), spread(frequencies[3])
    for pattern in range(patterns):
        x = shift(first_rows, np.int64(first[pattern]) * ROW)
        y = shift(second_rows, np.int64(second[pattern]) * ROW)
        z = shift(third_rows, np.int64(third[pattern]) * ROW)
        low = f0 * (load(x, 0) * load(y, 0) * load(z, 0)) + f1 * (load(x, 4) * load(y, 4) * load(z, 4))
        high = f2 * (load(x, 8) * load(y, 8) * load(z, 8)) + f3 * (load(x, 12) * load(y, 12) * load(z, 12))
        store(shares, 4 * pattern, low + high)


@vector_kernel
def weigh_shares_four(likelihoods, shares, weights, patterns):
    """Add the categories' shares to the patterns' likelihoods."""
    weight = load(weights, 0)
    for pattern in range(patterns):
        likelihoods[pattern] += total(load(shares, 4 * pattern) * weight)


@vector_kernel
def make_factors_four(shares, weights, scales, patterns, derivative):
    """From shares to what O begins with: scale · weight; and the derivative for each category's weight, four lanes."""
    weight, summed = load(weights, 0), load(derivative, 0)
    for pattern in range(patterns):
        scale = spread(scales[pattern])
        summed += scale * load(shares, 4 * pattern)
        store(shares, 4 * pattern, scale * weight)
    store(derivative, 0, summed)


@vector_kernel
def root_outside_four(
    factors,
    frequencies,
    first_rows,
    first,
    second_rows,
    second,
    third_rows,
    third,
    patterns,
    first_outside,
    second_outside,
    third_outside,
    derivative,
):
    """O of the root's children, each pattern times its factors, and the derivative for each frequency, four lanes."""
    for state in range(4):
        entry = 4 * state
        frequency = spread(frequencies[state])
        summed = load(derivative, entry)
        for pattern in range(patterns):
            x_row = np.int64(first[pattern]) * ROW + entry
            y_row = np.int64(second[pattern]) * ROW + entry
            z_row = np.int64(third[pattern]) * ROW + entry
            x, y, z = load(first_rows, x_row), load(second_rows, y_row), load(third_rows, z_row)
            factor = load(factors, 4 * pattern)
            both = x * y
            summed += factor * (both * z)
            weight = factor * frequency
            store(third_outside, z_row, load(third_outside, z_row) + weight * both)
            weight *= z
            store(first_outside, x_row, load(first_outside, x_row) + weight * y)
            store(second_outside, y_row, load(second_outside, y_row) + weight * x)
        store(derivative, entry, summed)
