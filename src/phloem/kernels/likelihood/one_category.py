"""Rows of partial likelihoods for one rate category: the loops over the classes of one branch.

A row is the four states, in the lanes of one register. P comes twice, by rows and by columns, so that P·p and Pᵀ·O are
sums of four lanes times one number each. What m, p, O and D are is said in four_categories.py.
"""

import numpy as np

from phloem.kernels.jit import shift, vector_kernel
from phloem.kernels.lanes import four_at, four_of, least_of, put, repeat_lane, smaller, sum_of
from phloem.kernels.likelihood.four_categories import ALL_STATES, FACTOR, SMALL

ROW = 4  # doubles
MATRIX = 16


@vector_kernel
def tip_rows_one(rows, columns, codes, count):
    """The messages of a tip, one for each code: the sums of P's columns of the states in it."""
    for code in range(count):
        value = four_of(1.0)
        if codes[code] != ALL_STATES:
            value = four_of(0.0)
            for column in range(4):
                if (codes[code] >> column) & 1:
                    value += four_at(columns, 4 * column)
        put(rows, code * ROW, value)


@vector_kernel
def go_up_one(rows, columns, left_rows, right_rows, pairs, count):
    """The messages of a node; returns the smallest sum of one over its states."""
    a, b, c, d = four_at(columns, 0), four_at(columns, 4), four_at(columns, 8), four_at(columns, 12)
    smallest = four_of(1.0)
    for place in range(count):
        left = np.int64(pairs[2 * place]) * ROW
        right = np.int64(pairs[2 * place + 1]) * ROW
        p = four_at(left_rows, left) * four_at(right_rows, right)
        p0, p1, p2, p3 = repeat_lane(p, 0), repeat_lane(p, 1), repeat_lane(p, 2), repeat_lane(p, 3)
        smallest = smaller(smallest, (p0 + p1) + (p2 + p3))
        put(rows, place * ROW, (a * p0 + b * p1) + (c * p2 + d * p3))
    return least_of(smallest)


@vector_kernel
def rescale_one(rows, count, scales, powers):
    """Multiply small messages until they are not; note the factors and count the times."""
    for place in range(count):
        row = four_at(rows, place * ROW)
        scale = 1.0
        size = sum_of(row)
        while 0.0 < size < SMALL:
            size *= FACTOR
            scale *= FACTOR
            powers[place] += 1.0
        put(rows, place * ROW, row * four_of(scale))
        scales[place] = scale


@vector_kernel
def add_powers_one(powers, child_powers, pairs, column, count):
    """Add how often a child's classes were multiplied."""
    for place in range(count):
        powers[place] += child_powers[pairs[2 * place + column]]


@vector_kernel
def scale_outside_one(outside, scales, count):
    """What was multiplied on the way up is multiplied on the way down."""
    for place in range(count):
        put(outside, place * ROW, four_at(outside, place * ROW) * four_of(scales[place]))


@vector_kernel
def go_down_one(outside, matrix, left_rows, right_rows, left_outside, right_outside, pairs, count, derivative):
    """O of the children, and dP by columns."""
    a, b, c, d = four_at(matrix, 0), four_at(matrix, 4), four_at(matrix, 8), four_at(matrix, 12)
    s0, s1, s2, s3 = four_at(derivative, 0), four_at(derivative, 4), four_at(derivative, 8), four_at(derivative, 12)
    for place in range(count):
        left = np.int64(pairs[2 * place]) * ROW
        right = np.int64(pairs[2 * place + 1]) * ROW
        o, x, y = four_at(outside, place * ROW), four_at(left_rows, left), four_at(right_rows, right)
        own = shift(outside, place * ROW)
        down = (a * four_of(own[0]) + b * four_of(own[1])) + (c * four_of(own[2]) + d * four_of(own[3]))
        p = x * y
        s0 += o * repeat_lane(p, 0)
        s1 += o * repeat_lane(p, 1)
        s2 += o * repeat_lane(p, 2)
        s3 += o * repeat_lane(p, 3)
        put(left_outside, left, down * y + four_at(left_outside, left))
        put(right_outside, right, down * x + four_at(right_outside, right))
    put(derivative, 0, s0)
    put(derivative, 4, s1)
    put(derivative, 8, s2)
    put(derivative, 12, s3)


@vector_kernel
def tip_derivative_one(derivative, outside, codes, count):
    """dP of a tip by columns. A gap tells nothing of its branch and is left out."""
    for code in range(count):
        if codes[code] == ALL_STATES:
            continue
        own = four_at(outside, code * ROW)
        for column in range(4):
            if (codes[code] >> column) & 1:
                put(derivative, 4 * column, four_at(derivative, 4 * column) + own)


@vector_kernel
def root_shares_one(shares, frequencies, messages, classes, patterns):
    """The likelihood of every pattern, from the messages of the root's three children."""
    frequency = four_at(frequencies, 0)
    for pattern in range(patterns):
        x = four_at(messages[0], np.int64(classes[0][pattern]) * ROW)
        y = four_at(messages[1], np.int64(classes[1][pattern]) * ROW)
        z = four_at(messages[2], np.int64(classes[2][pattern]) * ROW)
        shares[pattern] = sum_of(frequency * (x * y * z))


@vector_kernel
def weigh_shares_one(likelihoods, shares, weights, patterns):
    """Add the category's share to the patterns' likelihoods."""
    for pattern in range(patterns):
        likelihoods[pattern] += shares[pattern] * weights[0]


@vector_kernel
def make_factors_one(shares, weights, scales, patterns, derivative):
    """From shares to what O begins with: scale · weight; and the derivative for the category's weight."""
    summed = 0.0
    for pattern in range(patterns):
        summed += scales[pattern] * shares[pattern]
        shares[pattern] = scales[pattern] * weights[0]
    derivative[0] += summed


@vector_kernel
def root_outside_one(factors, frequencies, messages, classes, patterns, outsides, derivative):
    """O of the root's children, each pattern times its factor, and the derivative for each frequency."""
    frequency, summed = four_at(frequencies, 0), four_at(derivative, 0)
    for pattern in range(patterns):
        x_row = np.int64(classes[0][pattern]) * ROW
        y_row = np.int64(classes[1][pattern]) * ROW
        z_row = np.int64(classes[2][pattern]) * ROW
        x, y, z = four_at(messages[0], x_row), four_at(messages[1], y_row), four_at(messages[2], z_row)
        factor = four_of(factors[pattern])
        both = x * y
        summed += factor * (both * z)
        weight = factor * frequency
        put(outsides[2], z_row, four_at(outsides[2], z_row) + weight * both)
        weight *= z
        put(outsides[0], x_row, four_at(outsides[0], x_row) + weight * y)
        put(outsides[1], y_row, four_at(outsides[1], y_row) + weight * x)
    put(derivative, 0, summed)
