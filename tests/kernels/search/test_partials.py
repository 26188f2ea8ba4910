"""Partials of one tree against the likelihood engine; the likelihood along a branch, and fitted branch lengths."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.optimize import minimize_scalar

from phloem.data.patterns import compress
from phloem.kernels.jit import at, kernel
from phloem.kernels.likelihood.blocks import BLOCK
from phloem.kernels.search.partials import (
    LOG_FACTOR,
    LONGEST,
    SHORTEST,
    PatternTables,
    best_length,
    fill_matrices,
    fill_terms,
)
from phloem.kernels.search.partials import log_likelihood as branch_log_likelihood
from phloem.random_streams import RandomStream
from phloem.search.surface import SearchTree, Surface, rate_tables
from phloem.target.estimation import optimize_branch_lengths
from phloem.target.likelihood import TreeLikelihood
from phloem.trees.generation import random_topologies
from phloem.trees.topology import TopologyBatch
from support.search_cases import (
    MODELS,
    evolved,
    log_likelihood,
    pattern_log_likelihoods,
    placed,
    random_lengths,
    random_patterns,
)
from support.strategies import topology_batches

TOLERANCE = 1e-6
GRID = np.geomspace(SHORTEST, LONGEST, 4001)


def caterpillar(taxa: int) -> TopologyBatch:
    """Taxa 0 and 1 at one end, and the others along the tree in order."""
    parent = np.empty(2 * taxa - 2, np.int32)
    parent[:2] = taxa
    parent[2:taxa] = np.minimum(np.arange(taxa + 1, 2 * taxa - 1), 2 * taxa - 3)
    parent[taxa:] = np.arange(taxa + 1, 2 * taxa - 1)
    parent[-1] = -1
    return TopologyBatch.from_parents(parent[None])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [0.0, 1e-8, 0.3, 100.0])
def test_matrices_are_exponentials(name, length):
    model, rates = MODELS[name], rate_tables(MODELS[name])
    filled = np.zeros((len(rates.exponents), 16))
    fill_matrices(filled, rates, length)
    expected = [expm(model.rate_matrix().numpy() * rate * length) for rate in model.site_rates.rates().numpy()]
    if name == "JC":
        change, stay = filled[0, :2]
        filled = (change + stay * np.eye(4)).reshape(1, 16)
    np.testing.assert_allclose(filled.reshape(-1, 4, 4), expected, rtol=1e-9, atol=1e-13)


@given(topology_batches(least=3, most=20, trees=1), st.integers(0, 2**32), st.sampled_from(sorted(MODELS)))
@settings(max_examples=40)
def test_a_placed_tree_has_the_likelihood_of_the_engine(topology, seed, name):
    surface = Surface(random_patterns(topology.taxon_count, 50, seed, "ACGTACGTRYKMSWBDHVN-"), MODELS[name])
    lengths = random_lengths(topology, seed)
    tree = placed(surface, topology, lengths)
    expected = pattern_log_likelihoods(surface, topology, lengths)
    np.testing.assert_allclose(tree.sites[: len(expected)], expected, rtol=1e-10, atol=1e-12)
    value = tree.smooth(0, 1.0)
    assert value == pytest.approx(log_likelihood(surface, topology, lengths), rel=1e-12)
    assert tree.sites @ surface.tables.weights.ravel() == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [1e-8, 1e-4, 2.0])
@pytest.mark.parametrize("shape", ["caterpillar", "random"])
def test_three_hundred_taxa_neither_underflow_nor_lose_digits(name, length, shape):
    taxa = 300
    topology = caterpillar(taxa) if shape == "caterpillar" else random_topologies(taxa, 1, stream=RandomStream(1, "x"))
    surface = Surface(random_patterns(taxa, 40, 5, "ACGT-"), MODELS[name])
    lengths = np.full(topology.branch_count, length)
    tree = placed(surface, topology, lengths)
    expected = pattern_log_likelihoods(surface, topology, lengths)
    np.testing.assert_allclose(tree.sites[: len(expected)], expected, rtol=1e-9, atol=1e-12)
    if length == 1e-8:
        assert expected.min() < -1000  # far outside the range of numbers


@pytest.mark.parametrize("name", MODELS)
def test_hundreds_of_rescaled_taxa_score_their_interchanges(name):
    """Interchanges join partials of both sides: all their counts of rescalings must be right."""
    topology = caterpillar(200)
    surface = Surface(random_patterns(200, 30, 6), MODELS[name])
    lengths = np.full(topology.branch_count, 1e-5)
    tree = placed(surface, topology, lengths)
    branches = tree.inner_branches[::40]
    scored = tree.score(branches, least=np.inf, tolerance=1e-3)
    for place, move in enumerate(scored.moves.tolist()):
        tree.place(topology, lengths)
        tree.interchange(move, scored.lengths[place])
        assert scored.log_likelihoods[place] == pytest.approx(log_likelihood(surface, *tree.current()), rel=1e-10)


@kernel
def terms_of(rates, patterns, x, x_steps, y, y_steps):
    """`fill_terms` for arrays: kernels hand pointers to each other, which Python cannot."""
    terms = np.empty((x.shape[0], len(rates.terms), BLOCK))
    fill_terms(terms, rates, patterns, x.shape[1], at(x, 0), at(x_steps, 0), at(y, 0), at(y_steps, 0))
    return terms


@kernel
def value_of(terms, exponents, weights, length, x_steps, y_steps, sites):
    return branch_log_likelihood(terms, exponents, weights, length, at(x_steps, 0), at(y_steps, 0), sites)


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


def optimum(surface, topology, start=None):
    likelihood = TreeLikelihood(surface.patterns, surface.model, threads=1)
    return optimize_branch_lengths(likelihood, topology, start, tolerance=1e-8).log_likelihoods[0]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("length", [1e-8, 0.1, 1.0])
def test_it_reaches_what_all_lengths_at_once_reach(name, seed, length):
    alignment, topology = evolved(9, 150, seed, MODELS[name])
    surface = Surface(compress(alignment), MODELS[name])
    tree = SearchTree(surface)
    tree.place(topology, np.full(topology.branch_count, length))
    assert tree.smooth(200, 1e-6) == pytest.approx(optimum(surface, topology), abs=1e-3)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [20.0, 100.0])
def test_a_branch_that_is_much_too_long_comes_back(name, length):
    alignment, topology = evolved(7, 150, 5, MODELS[name])
    surface = Surface(compress(alignment), MODELS[name])
    best = optimum(surface, topology)
    tree = SearchTree(surface)
    for branch in range(topology.branch_count):
        lengths = np.full(topology.branch_count, 0.1)
        lengths[branch] = length
        tree.place(topology, lengths)
        assert tree.smooth(50, 1e-4) > best - 0.01


@given(topology_batches(least=3, most=15, trees=1), st.integers(0, 2**32), st.sampled_from(sorted(MODELS)))
@settings(max_examples=25)
def test_passes_never_go_down_and_say_what_they_reached(topology, seed, name):
    surface = Surface(random_patterns(topology.taxon_count, 40, seed, "ACGTACGTRYN-"), MODELS[name])
    tree = placed(surface, topology, random_lengths(topology, seed))
    value = tree.smooth(0, 1.0)
    for _ in range(6):
        following = tree.smooth(1, 1e-4)
        assert following > value - 1e-4
        value = following
        assert value == pytest.approx(log_likelihood(surface, *tree.current()), rel=1e-11)
        assert tree.sites @ surface.tables.weights.ravel() == pytest.approx(value, rel=1e-11)


def test_it_ends_early_where_a_pass_gains_little():
    alignment, topology = evolved(10, 200, 4)
    surface = Surface(compress(alignment), MODELS["JC"])
    rough, fine = SearchTree(surface), SearchTree(surface)
    for tree in (rough, fine):
        tree.place(topology, np.full(topology.branch_count, 0.1))
    one = rough.smooth(1, 1e9)
    rough.place(topology, np.full(topology.branch_count, 0.1))
    assert rough.smooth(100, 1e9) == one
    assert fine.smooth(100, 1e-6) > one


def test_a_tree_of_three_taxa_has_its_star():
    surface = Surface(random_patterns(3, 60, 2, "AAAACGT"), MODELS["HKY"])
    topology = evolved(3, 10, 1)[1]
    tree = SearchTree(surface)
    tree.place(topology, np.full(3, 0.1))
    assert tree.smooth(200, 1e-7) == pytest.approx(optimum(surface, topology), abs=1e-3)


def test_room_that_had_another_tree_gives_the_same():
    surface = Surface(random_patterns(12, 70, 3), MODELS["GTR+G4"])
    first, second = (evolved(12, 10, seed)[1] for seed in (1, 2))
    lengths = np.full(first.branch_count, 0.1)
    used, fresh = SearchTree(surface), SearchTree(surface)
    used.place(first, lengths)
    used.smooth(3, 1e-3)
    used.score(used.inner_branches, least=-np.inf, tolerance=1e-3)
    for tree in (used, fresh):
        tree.place(second, lengths)
    assert used.smooth(3, 1e-3) == fresh.smooth(3, 1e-3)
    np.testing.assert_array_equal(used.sites, fresh.sites)
