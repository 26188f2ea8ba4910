"""The likelihood along one branch, between the partials at its two ends, and the length that makes it largest.

With the partials x and y at the ends, the likelihood of a pattern along a branch of length t is a sum of exponentials.
Written as what the length adds to that of no length,

    L(t) = sum over categories c of w_c · (sum over states s of π_s · x_cs · y_cs)
         + sum over c and eigenvalues k of w_c · (L x_c)_k · (L y_c)_k · (exp(μ_ck · t) - 1)

it keeps its digits in single precision: a pattern whose ends differ has the first sum zero, and the others as small
as the length. The coefficients, the terms, are computed once; the eigenvalue zero has none. Under Jukes–Cantor there is
one exponential.

Patterns go in blocks of `LANES`; a block of partials is laid out (category, state, pattern). The parts of an alignment
have a model each, and whole blocks: `bounds[p]` up to `bounds[p + 1]` are those of part p. Tables have the address of
these bounds: each array in a tuple has references to count wherever the tuple goes. Where the partials of a
pattern become small they are multiplied by a power of two, which is exact; `steps` counts these rescalings, so that any
number of taxa is possible. An end is a tuple: a pointer to its partials, how many elements it is from one category to
the next (0 for tips, which are the same in all), and a pointer to its steps.
"""

import math
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, IntArray, RealArray
from phloem.kernels.elementary import log_above_zero
from phloem.kernels.jit import at, from_address, shift, vector_kernel, wide_vectors
from phloem.kernels.lanes import in_double, larger, put, sixteen_at, sixteen_of, sum_of

LANES = 16  # patterns of a block
STATES = 4 * LANES  # entries of a block, in one category
MATRIX = 16  # entries of a transition matrix
# Patterns whose partials sum to less than the first are multiplied by the second until they do not.
SMALL, FACTOR = np.float32(2.0**-40), np.float32(2.0**40)
LOG_FACTOR = math.log(FACTOR)
MOST_SCALING = 2  # rescalings that a likelihood at invariant sites takes; after more there is nothing beside it
LEAST_VALUE = np.float32(2.0**-120)  # rounding may make a likelihood zero or less
ZERO = np.float32(0.0)
SHORTEST, LONGEST = 1e-8, 100.0
LONGEST_START = 2.0  # beyond it the curve can be too flat to show where its peak is
MOST_STEPS = 30


class RateTables(NamedTuple):
    """The parts' models by the eigenvalues and eigenvectors of their rate matrices:
    diag(π) P(t) = Lᵀ exp(exponents[c] · t) L.

    equal: 1 for Jukes–Cantor in all parts, whose P is a + b·I.
    """

    equal: int
    frequencies: FloatArray  # (parts, 4)
    spectral: FloatArray  # (parts, 4, 4)  L: one row an eigenvalue, the first is that of zero
    exponents: FloatArray  # (parts, categories, 4)
    terms: FloatArray  # (parts, terms)  exponents of the likelihood along a branch, the first is zero
    one_end: RealArray  # (parts, categories, 4, 4)  w_c · π, then the other rows of w_c · L
    other_end: RealArray  # (parts, 4, 4)  L


class PatternTables(NamedTuple):
    """How often each pattern occurs, and its likelihood at invariant sites, if there are any."""

    weights: RealArray  # (blocks, LANES)
    constant: RealArray  # (blocks, LANES)
    has_constant: int


class BranchTables(NamedTuple):
    """The terms of a branch, how often each pattern's were rescaled, and room to evaluate them."""

    bounds: int  # address of those of the parts' blocks, (parts + 1,)
    terms: RealArray  # (blocks, terms, LANES)
    steps: IntArray  # (blocks, LANES)
    growth: RealArray  # (3, terms)  exp(μt) - 1 and the first two derivatives
    logarithms: FloatArray  # (blocks, LANES)


@vector_kernel
def fill_matrices(matrices, rates, length):
    """P of every part and category for one branch; under Jukes–Cantor only a and b, the probabilities to change and to
    stay."""
    parts, categories = rates.exponents.shape[:2]
    for part in range(parts):
        if rates.equal:
            exponent = rates.exponents[part, 0, 1] * length
            matrices[part, 0] = -0.25 * math.expm1(exponent)
            matrices[part, 1] = math.exp(exponent)
            continue
        for category in range(categories):
            g1 = math.expm1(rates.exponents[part, category, 1] * length)
            g2 = math.expm1(rates.exponents[part, category, 2] * length)
            g3 = math.expm1(rates.exponents[part, category, 3] * length)
            spectral = rates.spectral[part]
            for row in range(4):
                inverse = 1.0 / rates.frequencies[part, row]
                s1 = g1 * spectral[1, row] * inverse
                s2 = g2 * spectral[2, row] * inverse
                s3 = g3 * spectral[3, row] * inverse
                for column in range(4):
                    change = s1 * spectral[1, column] + s2 * spectral[2, column] + s3 * spectral[3, column]
                    matrices[part * categories + category, 4 * row + column] = (row == column) + change


@vector_kernel
def four_lanes(pointer):
    """The partials of one category."""
    return (
        sixteen_at(pointer, 0),
        sixteen_at(pointer, LANES),
        sixteen_at(pointer, 2 * LANES),
        sixteen_at(pointer, 3 * LANES),
    )


@vector_kernel
def product(coefficients, values):
    """The sum of four products, one after the other: two sums at a time need more registers than there are."""
    total = coefficients[0] * values[0]
    total = coefficients[1] * values[1] + total
    total = coefficients[2] * values[2] + total
    return coefficients[3] * values[3] + total


@vector_kernel
def _fill_equal(terms, x, y):
    """Jukes–Cantor: x·y / 4, and that less S_x·S_y / 16."""
    x0, x1, x2, x3 = four_lanes(x)
    y0, y1, y2, y3 = four_lanes(y)
    same = 0.25 * ((x0 * y0 + x1 * y1) + (x2 * y2 + x3 * y3))
    put(terms, 0, same)
    put(terms, LANES, same - 0.0625 * ((x0 + x1) + (x2 + x3)) * ((y0 + y1) + (y2 + y3)))


@vector_kernel
def _fill_any(terms, categories, one, other, x, x_stride, y, y_stride):
    """The terms of all categories."""
    none = sixteen_of(ZERO)
    for category in range(categories):
        of_x, of_y = four_lanes(shift(x, category * x_stride)), four_lanes(shift(y, category * y_stride))
        own = shift(one, category * MATRIX)
        none = (own[0] * of_x[0]) * of_y[0] + none
        none = (own[1] * of_x[1]) * of_y[1] + none
        none = (own[2] * of_x[2]) * of_y[2] + none
        none = (own[3] * of_x[3]) * of_y[3] + none
        for k in range(1, 4):
            place = (3 * category + k) * LANES
            put(terms, place, product(shift(own, 4 * k), of_x) * product(shift(other, 4 * k), of_y))
    put(terms, 0, none)


@vector_kernel
def _add_constant(terms, count, steps, constant):
    """Add the likelihoods at invariant sites to a block; they must be rescaled as the partials were."""
    for i in range(LANES):
        own = constant[i]
        if own > 0 and steps[i] <= MOST_SCALING:
            for _ in range(steps[i]):
                own *= FACTOR
            terms[i] += own
        elif own > 0:
            terms[i] = own
            steps[i] = 0
            for k in range(1, count):
                terms[k * LANES + i] = ZERO


@vector_kernel
def fill_terms(branch, rates, patterns, categories, x, y):
    """The coefficients of a branch between two ends."""
    wide_vectors()
    (of_x, x_stride, x_steps), (of_y, y_stride, y_steps) = x, y
    x_size, y_size = STATES + (categories - 1) * x_stride, STATES + (categories - 1) * y_stride
    parts, count = rates.terms.shape
    equal, has_constant, bounds = rates.equal, patterns.has_constant, from_address(x_steps, branch.bounds)
    all_terms, all_steps, constants = at(branch.terms, 0), at(branch.steps, 0), at(patterns.constant, 0)
    ones, others = at(rates.one_end, 0), at(rates.other_end, 0)
    for part in range(parts):
        one, other = shift(ones, part * categories * MATRIX), shift(others, part * MATRIX)
        for block in range(bounds[part], bounds[part + 1]):
            terms, place = shift(all_terms, block * count * LANES), block * LANES
            put(all_steps, place, sixteen_at(x_steps, place) + sixteen_at(y_steps, place))
            first, second = shift(of_x, block * x_size), shift(of_y, block * y_size)
            if equal:
                _fill_equal(terms, first, second)
            else:
                _fill_any(terms, categories, one, other, first, x_stride, second, y_stride)
            if has_constant:
                _add_constant(terms, count, shift(all_steps, place), shift(constants, place))


@vector_kernel
def _slopes(branch, exponents, weights, length):
    """First and second derivative of the log-likelihood with respect to the length."""
    wide_vectors()
    (parts, count), bounds = exponents.shape, from_address(branch.steps, branch.bounds)
    growth, rate, square = at(branch.growth, 0), at(branch.growth, count), at(branch.growth, 2 * count)
    terms, weight_at = at(branch.terms, 0), at(weights, 0)
    first, second = sixteen_of(ZERO), sixteen_of(ZERO)
    for part in range(parts):
        for k in range(1, count):
            exponent = exponents[part, k]
            factor = math.exp(exponent * length)
            growth[k] = math.expm1(exponent * length)
            rate[k] = exponent * factor
            square[k] = exponent * exponent * factor
        for block in range(bounds[part], bounds[part + 1]):
            row = shift(terms, block * count * LANES)
            value, slope, curve = sixteen_at(row, 0), sixteen_of(ZERO), sixteen_of(ZERO)
            for k in range(1, count):
                term = sixteen_at(row, k * LANES)
                value = value + growth[k] * term
                slope = slope + rate[k] * term
                curve = curve + square[k] * term
            inverse = 1.0 / larger(value, LEAST_VALUE)
            ratio = slope * inverse
            weight = sixteen_at(weight_at, block * LANES)
            first = first + weight * ratio
            second = second + weight * (curve * inverse - ratio * ratio)
    return sum_of(first), sum_of(second)


@vector_kernel
def best_length(branch, exponents, weights, start, tolerance):
    """Newton's method within a bracket of lengths known to be too short and too long.

    It ends when a step can gain about `tolerance` at most. Where Newton's step leaves the bracket, the length changes
    at most tenfold.
    """
    low, high = SHORTEST, LONGEST
    length = min(max(start, low), LONGEST_START)
    floor_known = False
    for _ in range(MOST_STEPS):
        slope, curve = _slopes(branch, exponents, weights, length)
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
                if _slopes(branch, exponents, weights, SHORTEST)[0] <= 0:
                    return SHORTEST
            following = max(0.1 * length, math.sqrt(low * length))
        length = following
    return length


@vector_kernel
def log_likelihood(branch, exponents, weights, length, sites):
    """The log-likelihood at a length; that of each pattern, padding included, goes to `sites`."""
    wide_vectors()
    logarithms, growth, steps = at(branch.logarithms, 0), at(branch.growth, 0), at(branch.steps, 0)
    (parts, count), bounds, terms = exponents.shape, from_address(steps, branch.bounds), at(branch.terms, 0)
    for part in range(parts):
        for k in range(1, count):
            growth[k] = math.expm1(exponents[part, k] * length)
        for block in range(bounds[part], bounds[part + 1]):
            row = shift(terms, block * count * LANES)
            value = sixteen_at(row, 0)
            for k in range(1, count):
                value = value + growth[k] * sixteen_at(row, k * LANES)
            put(logarithms, block * LANES, in_double(larger(value, LEAST_VALUE)))
    for i in range(weights.size):
        logarithms[i] = log_above_zero(logarithms[i]) - LOG_FACTOR * steps[i]
    total = sixteen_of(0.0)
    for place in range(0, weights.size, LANES):
        total = total + in_double(sixteen_at(at(weights, place), 0)) * sixteen_at(logarithms, place)
    own = at(sites, 0)
    for i in range(weights.size):
        own[i] = logarithms[i]
    return sum_of(total)
