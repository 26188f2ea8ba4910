"""The likelihood along a branch against matrix exponentials, and its best length against a fine grid."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.optimize import minimize_scalar

from phloem.kernels.jit import at, kernel
from phloem.kernels.likelihood.blocks import BLOCK
from phloem.kernels.search.partials import (
    LOG_FACTOR,
    LONGEST,
    SHORTEST,
    PatternTables,
    best_length,
    fill_terms,
    log_likelihood,
)
from phloem.search.surface import rate_tables
from support.search_cases import MODELS

TOLERANCE = 1e-6
GRID = np.geomspace(SHORTEST, LONGEST, 4001)


@kernel
def terms_of(rates, patterns, x, x_steps, y, y_steps):
    """`fill_terms` for arrays: kernels hand pointers to each other, which Python cannot."""
    terms = np.empty((x.shape[0], len(rates.terms), BLOCK))
    fill_terms(terms, rates, patterns, x.shape[1], at(x, 0), at(x_steps, 0), at(y, 0), at(y_steps, 0))
    return terms


@kernel
def value_of(terms, exponents, weights, length, x_steps, y_steps, sites):
    return log_likelihood(terms, exponents, weights, length, at(x_steps, 0), at(y_steps, 0), sites)


def random_ends(random, blocks, categories):
    """Partials at both ends of a branch: often alike, so that short lengths are good."""
    x = random.dirichlet(np.full(4, 0.2), (blocks, categories, BLOCK)).transpose(0, 1, 3, 2) + 1e-9
    other = random.dirichlet(np.full(4, 0.2), (blocks, categories, BLOCK)).transpose(0, 1, 3, 2) + 1e-9
    y = np.where(random.random((blocks, 1, 1, BLOCK)) < random.random(), x, other)
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


def no_steps(x):
    return np.zeros((len(x), BLOCK), np.int32)


def curve(terms, exponents, weights, lengths):
    """The log-likelihood at every length, as a sum of exponentials."""
    growth = np.exp(np.outer(np.atleast_1d(lengths), exponents))  # (lengths, terms)
    values = np.einsum("lt,btp->lbp", growth, terms)
    return (weights * np.log(values)).sum(axis=(1, 2))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [0.0, 1e-8, 0.1, 3.0])
def test_terms_are_the_likelihood_by_matrix_exponentials(name, length):
    model, rates = MODELS[name], rate_tables(MODELS[name])
    random = np.random.default_rng(3)
    x, y = random_ends(random, 2, len(rates.exponents))
    constant = random.random((2, BLOCK)) * (random.random((2, BLOCK)) < 0.5)
    patterns = PatternTables(np.ones((2, BLOCK)), constant)
    matrix, frequencies = model.rate_matrix().numpy(), model.frequencies.numpy()
    expected = constant.copy()
    category_rates, shares = model.site_rates.rates().numpy(), model.site_rates.weights().numpy()
    for category, (rate, share) in enumerate(zip(category_rates, shares, strict=True)):
        joint = frequencies[:, None] * expm(matrix * rate * length)
        expected += share * np.einsum("bsp,st,btp->bp", x[:, category], joint, y[:, category])
    terms = terms_of(rates, patterns, x, no_steps(x), y, no_steps(y))
    sites = np.empty(2 * BLOCK)
    total = value_of(terms, rates.terms, patterns.weights, length, no_steps(x), no_steps(y), sites)
    np.testing.assert_allclose(sites, np.log(expected).ravel(), rtol=1e-10, atol=1e-12)
    assert total == pytest.approx(np.log(expected).sum(), rel=1e-12)


def test_rescaled_ends_and_constants_are_the_same_likelihood():
    rates = rate_tables(MODELS["GTR+I+G4"])
    random = np.random.default_rng(4)
    x, y = random_ends(random, 1, 4)
    patterns = PatternTables(np.ones((1, BLOCK)), np.full((1, BLOCK), 1e-60))
    plain, rescaled = np.empty(BLOCK), np.empty(BLOCK)
    x *= 2.0**-200
    terms = terms_of(rates, patterns, x, no_steps(x), y, no_steps(y))
    value_of(terms, rates.terms, patterns.weights, 0.1, no_steps(x), no_steps(y), plain)
    one_step = no_steps(x) + np.int32(1)
    terms = terms_of(rates, patterns, x * 2.0**200, one_step, y, no_steps(y))
    value_of(terms, rates.terms, patterns.weights, 0.1, one_step, no_steps(y), rescaled)
    assert plain.max() < -0.9 * LOG_FACTOR
    np.testing.assert_allclose(rescaled, plain, rtol=1e-12)


@given(st.integers(0, 2**32), st.sampled_from(sorted(MODELS)), st.floats(-9.0, 2.5))
@settings(max_examples=60)
def test_the_best_length_is_that_of_a_fine_grid(seed, name, log_start):
    random = np.random.default_rng(seed)
    rates = rate_tables(MODELS[name])
    x, y = random_ends(random, 2, len(rates.exponents))
    weights = random.integers(0, 9, (2, BLOCK)).astype(float)
    terms = terms_of(rates, PatternTables(weights, np.zeros((2, BLOCK))), x, no_steps(x), y, no_steps(y))
    values = curve(terms, rates.terms, weights, GRID)
    rising = np.diff(values) > 0
    assume((np.diff(rising.astype(int)) > 0).sum() == 0)  # one peak
    found = best_length(terms, rates.terms, weights, 10.0**log_start, TOLERANCE)
    assert SHORTEST <= found <= LONGEST
    near = GRID[max(values.argmax() - 1, 0)], GRID[min(values.argmax() + 1, len(GRID) - 1)]
    fine = minimize_scalar(
        lambda length: -curve(terms, rates.terms, weights, length)[0],
        bounds=near,
        method="bounded",
        options={"xatol": 1e-12},
    )
    best = max(values.max(), -fine.fun)
    assert curve(terms, rates.terms, weights, found)[0] > best - 2 * TOLERANCE


def letters_at_ends(categories, offset):
    """A state at each end of a branch, those of the second end `offset` letters further on."""
    x, y = np.zeros((2, 1, categories, 4, BLOCK))
    patterns = np.arange(BLOCK)
    x[..., patterns % 4, patterns] = 1.0
    y[..., (patterns + offset) % 4, patterns] = 1.0
    return x, y


@pytest.mark.parametrize("start", [1e-8, 1e-6, 0.001, 0.1, 5.0, 100.0])
@pytest.mark.parametrize("name", MODELS)
def test_ends_that_are_alike_want_no_branch(name, start):
    rates, weights = rate_tables(MODELS[name]), np.ones((1, BLOCK))
    x, y = letters_at_ends(len(rates.exponents), 0)
    terms = terms_of(rates, PatternTables(weights, np.zeros((1, BLOCK))), x, no_steps(x), y, no_steps(y))
    assert best_length(terms, rates.terms, weights, start, TOLERANCE) == SHORTEST


@pytest.mark.parametrize("start", [0.001, 0.1, 5.0, 100.0])
@pytest.mark.parametrize("name", MODELS)
def test_ends_that_always_differ_want_the_longest_or_one_that_is_as_good(name, start):
    rates, weights = rate_tables(MODELS[name]), np.ones((1, BLOCK))
    x, y = letters_at_ends(len(rates.exponents), 1)
    terms = terms_of(rates, PatternTables(weights, np.zeros((1, BLOCK))), x, no_steps(x), y, no_steps(y))
    found = best_length(terms, rates.terms, weights, start, TOLERANCE)
    values = curve(terms, rates.terms, weights, np.array([found, LONGEST]))
    # Where the curve rises for ever, the last steps are many and gain little.
    assert values[0] > values[1] - (1e-3 if len(rates.exponents) > 1 else 2 * TOLERANCE)


@pytest.mark.parametrize(("start", "expected"), [(0.0, 1e-8), (1e-8, 1e-8), (0.1, 0.1), (2.0, 2.0), (1e9, 2.0)])
def test_where_all_lengths_are_alike_the_start_stays_if_it_is_not_far_out(start, expected):
    terms = np.zeros((1, 2, BLOCK))
    terms[:, 0] = 0.25
    assert best_length(terms, np.array([0.0, -4 / 3]), np.ones((1, BLOCK)), start, TOLERANCE) == expected


def test_under_jukes_cantor_it_is_the_distance_in_closed_form():
    same, differ = 70, 30
    weights = np.zeros((1, BLOCK))
    weights[0, :2] = same, differ
    terms = np.full((1, 2, BLOCK), 0.0)
    terms[:, 0] = 1 / 16
    terms[0, 1, 0], terms[0, 1, 1] = 3 / 16, -1 / 16
    terms[0, 1, 2:] = 0.0
    found = best_length(terms, np.array([0.0, -4 / 3]), weights, 0.1, 1e-10)
    assert found == pytest.approx(-0.75 * math.log(1 - 4 / 3 * differ / (same + differ)), rel=1e-6)
