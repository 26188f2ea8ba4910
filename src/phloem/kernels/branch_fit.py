"""The likelihood as a function of one branch length, and the length that makes it largest.

With the partials x and y at its ends, the likelihood of a pattern along a branch of length t is a sum of exponentials,

    L(t) = sum over categories c and eigenvalues k of  w_c · (L x_c)_k · (L y_c)_k · exp(μ_ck · t)

whose coefficients are computed once. Those of eigenvalue zero are one constant, with the invariant sites; under
Jukes–Cantor there is one exponential beside it.
"""

import math

import numpy as np

from phloem.kernels.jit import vector_kernel, wide_vectors
from phloem.kernels.jukes_cantor import BLOCK, FOURTH, SECOND, STATES, THIRD
from phloem.kernels.logarithm import log_above_zero
from phloem.kernels.partials import FACTOR, LOG_FACTOR
from phloem.kernels.pointers import at, shift

SHORTEST, LONGEST = 1e-8, 100.0
FARTHEST_START = 2.0  # beyond it the curve can be so flat that nothing shows where its peak is
MOST_STEPS = 30
MOST_SCALING = 4  # steps by which a constant is multiplied without leaving the range of numbers


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
            if row[i] > 0:  # partials were multiplied, so it must be, too
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
    """Newton's method between the lengths that are known to be too short and too long.

    It ends when a step can gain about `tolerance` at most. Where Newton's step leads out of the bracket, the length
    changes tenfold or less.
    """
    low, high = SHORTEST, LONGEST
    length = min(max(start, low), FARTHEST_START)
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
            if low <= SHORTEST and not floor_known:  # many branches have no length at all
                floor_known = True
                if _slopes(terms, exponents, weights, SHORTEST)[0] <= 0:
                    return SHORTEST
            following = max(0.1 * length, math.sqrt(low * length))
        length = following
    return length


@vector_kernel
def log_likelihood(terms, exponents, weights, length, steps_x, steps_y, sites):
    """The log-likelihood at a length; each pattern's own goes to `sites` (patterns and those that fill up)."""
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
