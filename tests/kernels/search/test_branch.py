"""The likelihood along a branch, in single precision, against matrix exponentials; fitted lengths against a grid."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.optimize import minimize_scalar

from phloem.kernels.jit import at, kernel
from phloem.kernels.search.branch import (
    LANES,
    LOG_FACTOR,
    LONGEST,
    MOST_SCALING,
    SHORTEST,
    STATES,
    BranchTables,
    PatternTables,
    best_length,
    fill_matrices,
    fill_terms,
    log_likelihood,
)
from phloem.search.surface import rate_tables
from support.search_cases import MODELS

TOLERANCE = 1e-6
GRID = np.geomspace(SHORTEST, LONGEST, 4001)
OF_PATTERN, OF_ALL = 1e-5, 1e-6  # relative errors of a pattern's log-likelihood and of their sum


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [0.0, 1e-8, 0.3, 100.0])
def test_matrices_are_exponentials(name, length):
    model, rates = MODELS[name], rate_tables(MODELS[name], equal=MODELS[name].is_jukes_cantor)
    filled = np.zeros((rates.exponents.shape[1], 16), np.float32)
    fill_matrices(filled, rates, length)
    expected = [expm(model.rate_matrix().numpy() * rate * length) for rate in model.site_rates.rates().numpy()]
    if name == "JC":
        change, stay = filled[0, :2]
        filled = (change + stay * np.eye(4)).reshape(1, 16)
    np.testing.assert_allclose(filled.reshape(-1, 4, 4), expected, rtol=1e-6, atol=1e-13)


@kernel
def fill_between(branch, rates, patterns, x, x_steps, y, y_steps):
    """`fill_terms` for arrays: kernels hand pointers to each other, which Python cannot."""
    fill_terms(
        branch, rates, patterns, x.shape[1], (at(x, 0), STATES, at(x_steps, 0)), (at(y, 0), STATES, at(y_steps, 0))
    )


ALL_BLOCKS = np.array([[0, blocks] for blocks in range(3)], np.int32)  # as bounds of one part


def room_for(blocks, terms):
    return BranchTables(
        ALL_BLOCKS[blocks].ctypes.data,
        np.empty((blocks, terms, LANES), np.float32),
        np.zeros((blocks, LANES), np.int32),
        np.empty((3, terms), np.float32),
        np.empty((blocks, LANES)),
    )


def branch_between(rates, patterns, x, x_steps, y, y_steps):
    branch = room_for(len(x), rates.terms.shape[1])
    fill_between(branch, rates, patterns, x, x_steps, y, y_steps)
    return branch


def table_of(weights, constant=None):
    constant = np.zeros(weights.shape) if constant is None else constant
    return PatternTables(weights.astype(np.float32), constant.astype(np.float32), int(constant.any()))


def random_ends(random, blocks, categories):
    """Partials at both ends of a branch: often alike, so that short lengths are good."""
    x = random.dirichlet(np.full(4, 0.2), (blocks, categories, LANES)).transpose(0, 1, 3, 2) + 1e-9
    other = random.dirichlet(np.full(4, 0.2), (blocks, categories, LANES)).transpose(0, 1, 3, 2) + 1e-9
    y = np.where(random.random((blocks, 1, 1, LANES)) < random.random(), x, other)
    return np.ascontiguousarray(x, np.float32), np.ascontiguousarray(y, np.float32)


def no_steps(x):
    return np.zeros((len(x), LANES), np.int32)


def curve(branch, exponents, weights, lengths):
    """The log-likelihood at every length, as a sum of exponentials, in double precision."""
    growth = np.expm1(np.outer(np.atleast_1d(lengths), exponents[0]))  # (lengths, terms)
    growth[:, 0] = 1.0
    values = np.einsum("lt,btp->lbp", growth, branch.terms.astype(float))
    return (weights * np.log(values)).sum(axis=(1, 2))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [0.0, 1e-8, 0.1, 3.0])
def test_terms_are_the_likelihood_by_matrix_exponentials(name, length):
    model, rates = MODELS[name], rate_tables(MODELS[name], equal=MODELS[name].is_jukes_cantor)
    random = np.random.default_rng(3)
    x, y = random_ends(random, 2, rates.exponents.shape[1])
    constant = random.random((2, LANES)) * (random.random((2, LANES)) < 0.5)
    patterns = table_of(np.ones((2, LANES)), constant)
    matrix, frequencies = model.rate_matrix().numpy(), model.frequencies.numpy()
    expected = constant.copy()
    category_rates, shares = model.site_rates.rates().numpy(), model.site_rates.weights().numpy()
    for category, (rate, share) in enumerate(zip(category_rates, shares, strict=True)):
        joint = frequencies[:, None] * expm(matrix * rate * length)
        expected += share * np.einsum("bsp,st,btp->bp", x[:, category], joint, y[:, category])
    branch = branch_between(rates, patterns, x, no_steps(x), y, no_steps(y))
    sites = np.empty(2 * LANES)
    total = log_likelihood(branch, rates.terms, patterns.weights, length, sites)
    np.testing.assert_allclose(sites, np.log(expected).ravel(), rtol=OF_PATTERN, atol=OF_PATTERN)
    assert total == pytest.approx(np.log(expected).sum(), rel=OF_ALL)


@pytest.mark.parametrize("steps", range(MOST_SCALING + 3))
@pytest.mark.parametrize("constant", [0.0, 1e-12, 0.1])
def test_rescaled_ends_and_constants_are_the_same_likelihood(steps, constant):
    rates = rate_tables(MODELS["GTR+I+G4"], equal=MODELS["GTR+I+G4"].is_jukes_cantor)
    x, y = random_ends(np.random.default_rng(4), 1, 4)
    constants = np.where(np.arange(LANES) % 2, constant, 0.0)[None]
    patterns = table_of(np.ones((1, LANES)), constants)
    alone, rescaled = np.empty(LANES), np.empty(LANES)
    log_likelihood(
        branch_between(rates, table_of(np.ones((1, LANES))), x, no_steps(x), y, no_steps(y)),
        rates.terms,
        patterns.weights,
        0.1,
        alone,
    )
    given_steps = no_steps(x) + np.int32(steps)
    branch = branch_between(rates, patterns, x, given_steps, y, no_steps(y))
    log_likelihood(branch, rates.terms, patterns.weights, 0.1, rescaled)
    with np.errstate(divide="ignore"):
        expected = np.logaddexp(alone - steps * LOG_FACTOR, np.log(constants[0]))
    np.testing.assert_allclose(rescaled, expected, rtol=OF_PATTERN, atol=OF_PATTERN)


@given(st.integers(0, 2**32), st.sampled_from(sorted(MODELS)), st.floats(-9.0, 2.5))
@settings(max_examples=60)
def test_the_best_length_is_that_of_a_fine_grid(seed, name, log_start):
    random = np.random.default_rng(seed)
    rates = rate_tables(MODELS[name], equal=MODELS[name].is_jukes_cantor)
    x, y = random_ends(random, 2, rates.exponents.shape[1])
    weights = random.integers(0, 9, (2, LANES)).astype(np.float32)
    branch = branch_between(rates, table_of(weights), x, no_steps(x), y, no_steps(y))
    values = curve(branch, rates.terms, weights, GRID)
    rising = np.diff(values) > 0
    assume((np.diff(rising.astype(int)) > 0).sum() == 0)  # one peak
    found = best_length(branch, rates.terms, weights, 10.0**log_start, TOLERANCE)
    assert SHORTEST <= found <= LONGEST
    near = GRID[max(values.argmax() - 1, 0)], GRID[min(values.argmax() + 1, len(GRID) - 1)]
    fine = minimize_scalar(
        lambda length: -curve(branch, rates.terms, weights, length)[0],
        bounds=near,
        method="bounded",
        options={"xatol": 1e-12},
    )
    best = max(values.max(), -fine.fun)
    assert curve(branch, rates.terms, weights, found)[0] > best - 2 * TOLERANCE


def letters_at_ends(categories, offset):
    """A state at each end of a branch, those of the second end `offset` letters further on."""
    x, y = np.zeros((2, 1, categories, 4, LANES), np.float32)
    patterns = np.arange(LANES)
    x[..., patterns % 4, patterns] = 1.0
    y[..., (patterns + offset) % 4, patterns] = 1.0
    return x, y


@pytest.mark.parametrize("start", [1e-8, 1e-6, 0.001, 0.1, 5.0, 100.0])
@pytest.mark.parametrize("name", MODELS)
def test_ends_that_are_alike_want_no_branch(name, start):
    rates, weights = rate_tables(MODELS[name], equal=MODELS[name].is_jukes_cantor), np.ones((1, LANES), np.float32)
    x, y = letters_at_ends(rates.exponents.shape[1], 0)
    branch = branch_between(rates, table_of(weights), x, no_steps(x), y, no_steps(y))
    assert best_length(branch, rates.terms, weights, start, TOLERANCE) == SHORTEST


@pytest.mark.parametrize("start", [0.001, 0.1, 5.0, 100.0])
@pytest.mark.parametrize("name", MODELS)
def test_ends_that_always_differ_want_the_longest_or_one_that_is_as_good(name, start):
    rates, weights = rate_tables(MODELS[name], equal=MODELS[name].is_jukes_cantor), np.ones((1, LANES), np.float32)
    x, y = letters_at_ends(rates.exponents.shape[1], 1)
    branch = branch_between(rates, table_of(weights), x, no_steps(x), y, no_steps(y))
    found = best_length(branch, rates.terms, weights, start, TOLERANCE)
    values = curve(branch, rates.terms, weights, np.array([found, LONGEST]))
    # Where the curve rises for ever, the last steps are many and gain little.
    assert values[0] > values[1] - (1e-3 if rates.exponents.shape[1] > 1 else 2 * TOLERANCE)


@pytest.mark.parametrize(("start", "expected"), [(0.0, 1e-8), (1e-8, 1e-8), (0.1, 0.1), (2.0, 2.0), (1e9, 2.0)])
def test_where_all_lengths_are_alike_the_start_stays_if_it_is_not_far_out(start, expected):
    branch = room_for(1, 2)
    branch.terms[:, 0], branch.terms[:, 1] = 0.25, 0.0
    weights = np.ones((1, LANES), np.float32)
    assert best_length(branch, np.array([[0.0, -4 / 3]]), weights, start, TOLERANCE) == expected


def test_under_jukes_cantor_it_is_the_distance_in_closed_form():
    same, differ = 70, 30
    weights = np.zeros((1, LANES), np.float32)
    weights[0, :2] = same, differ
    branch = room_for(1, 2)
    branch.terms[:, 0], branch.terms[:, 1] = 1 / 16, 0.0
    branch.terms[0, :, 0] = 1 / 4, 3 / 16
    branch.terms[0, :, 1] = 0.0, -1 / 16
    found = best_length(branch, np.array([[0.0, -4 / 3]]), weights, 0.1, 1e-10)
    assert found == pytest.approx(-0.75 * math.log(1 - 4 / 3 * differ / (same + differ)), rel=1e-6)
