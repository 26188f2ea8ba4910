"""Importance weights: their effective number and their tail, against ArviZ and the definitions."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.inference.diagnostics import (
    effective_sample_size,
    fit_tail,
    log_mean_error,
    pareto_shape,
    smooth,
    unseen_share,
)


def arviz_psis(log_weights):
    """Normalised smoothed log weights and k̂, as ArviZ has them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a refactoring to come, at import
        import arviz

        smoothed, shape = arviz.psislw(log_weights.copy())
    return np.asarray(smoothed), float(shape)


def normalized(log_weights):
    return log_weights - np.logaddexp.reduce(log_weights)


@pytest.mark.parametrize("count", [21, 26, 100, 1000, 30_000])
@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 2.0, 4.0])
def test_shape_and_smoothed_weights_are_those_of_arviz(count, scale):
    log_weights = np.random.default_rng([count, int(10 * scale)]).normal(-7000, scale, count)
    expected, shape = arviz_psis(log_weights)
    assert pareto_shape(log_weights) == pytest.approx(shape, abs=1e-10)
    np.testing.assert_allclose(normalized(smooth(log_weights)), expected, rtol=0, atol=1e-10)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["normal", "standard_t", "pareto", "exponential"]))
def test_shapes_of_other_distributions_are_those_of_arviz(seed, name):
    random = np.random.default_rng(seed)
    log_weights = {
        "normal": lambda: random.normal(0, 3, 200),
        "standard_t": lambda: random.standard_t(2, 200),
        "pareto": lambda: np.log(random.pareto(0.8, 200)),
        "exponential": lambda: random.exponential(1.0, 200),
    }[name]()
    expected, shape = arviz_psis(log_weights)
    assert pareto_shape(log_weights) == pytest.approx(shape, abs=1e-9)
    np.testing.assert_allclose(normalized(smooth(log_weights)), expected, rtol=0, atol=1e-9)


def test_weights_that_are_too_small_for_numbers_are_in_no_tail():
    """Next to the forty largest the others vanish: some to numbers that have no inverse, some to nothing."""
    random = np.random.default_rng(6)
    log_weights = random.permutation(np.concatenate([random.normal(0, 1, 40), random.normal(-738, 3, 960)]))
    expected, shape = arviz_psis(log_weights)
    tail = fit_tail(log_weights)
    assert tail is not None
    assert tail.size == 40
    assert pareto_shape(log_weights) == pytest.approx(shape, abs=1e-9)
    np.testing.assert_allclose(normalized(smooth(log_weights)), expected, rtol=0, atol=1e-9)


def test_a_tail_of_known_shape_is_found():
    random = np.random.default_rng(1)
    for shape in (0.2, 0.5, 1.0):
        weights = 1 + random.pareto(1 / shape, 200_000)
        assert pareto_shape(np.log(weights)) == pytest.approx(shape, abs=0.08)


def test_smoothing_touches_the_tail_alone_keeps_its_order_and_makes_nothing_larger_than_the_largest():
    log_weights = np.random.default_rng(2).normal(0, 3, 1000)
    tail = fit_tail(log_weights)
    assert tail is not None
    smoothed = smooth(log_weights)
    order = np.argsort(log_weights)
    np.testing.assert_array_equal(smoothed[order[: -tail.size]], log_weights[order[: -tail.size]])
    assert (np.diff(smoothed[order[-tail.size :]]) >= 0).all()
    assert smoothed.max() <= log_weights.max()
    assert (smoothed != log_weights).sum() > 0.9 * tail.size
    assert effective_sample_size(smoothed) != effective_sample_size(log_weights)


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_few_draws_have_no_tail(count):
    log_weights = np.random.default_rng(3).normal(size=count)
    assert pareto_shape(log_weights) is None
    np.testing.assert_array_equal(smooth(log_weights), log_weights)


def test_equal_weights_are_perfect():
    log_weights = np.full(500, -7108.4)
    assert pareto_shape(log_weights) == 0
    assert effective_sample_size(log_weights) == pytest.approx(500)
    assert log_mean_error(log_weights) == pytest.approx(0, abs=1e-7)
    np.testing.assert_array_equal(smooth(log_weights), log_weights)


def test_impossible_draws_count_for_nothing():
    log_weights = np.array([0.0, -math.inf, 0.0, -math.inf])
    assert effective_sample_size(log_weights) == pytest.approx(2)
    many = np.where(np.arange(400) % 2, np.random.default_rng(4).normal(size=400), -math.inf)
    assert math.isfinite(pareto_shape(many))
    assert (smooth(many)[::2] == -math.inf).all()
    for nothing in (np.full(3, -math.inf), np.empty(0)):
        with pytest.raises(BadArgument, match="at least one"):
            effective_sample_size(nothing)


def test_the_effective_size_is_the_square_of_the_sum_over_the_sum_of_squares():
    weights = np.array([1.0, 2.0, 3.0, 0.5])
    assert effective_sample_size(np.log(weights) - 9000) == pytest.approx(6.5**2 / (1 + 4 + 9 + 0.25))


def test_the_error_is_how_much_estimates_scatter():
    random = np.random.default_rng(5)
    rows = random.normal(0, 0.7, (2000, 400))
    estimates = np.log(np.exp(rows).mean(axis=1))
    errors = np.array([log_mean_error(row) for row in rows])
    assert errors.mean() == pytest.approx(estimates.std(), rel=0.1)


@pytest.mark.parametrize("larger", range(95, 130, 5))
def test_weights_of_two_values_have_a_shape(larger):
    """With 100 to 120 in the tail a point of the grid is 0, where the likelihood is a limit."""
    log_weights = np.zeros(10_000)
    log_weights[:larger] = 0.5
    assert pareto_shape(log_weights) < 0.7


@pytest.mark.parametrize("shape", [0.2, 0.4, 0.55])
def test_the_unseen_share_is_that_of_a_pareto_distribution(shape):
    """Above the largest weight m it is m^(1 - 1/k), whatever the scale; the median of many samples is near it."""
    ratios = []
    for seed in range(30):
        weights = 1 + np.random.default_rng(seed).pareto(1 / shape, 20_000)
        expected = weights.max() ** (1 - 1 / shape)
        found = unseen_share(np.log(weights) - 7000)
        assert found == pytest.approx(unseen_share(np.log(weights)), rel=1e-6)
        ratios.append(found / expected)
    assert 0.7 < np.median(ratios) < 1.5


def test_the_more_draws_the_less_is_unseen_and_of_even_weights_nothing():
    random = np.random.default_rng(1)
    shares = [np.median([unseen_share(random.normal(0, 1, count)) for _ in range(20)]) for count in (300, 3000, 30_000)]
    assert shares[0] > 3 * shares[1] > 9 * shares[2] > 0
    assert unseen_share(np.zeros(100)) == 0
    assert unseen_share(np.zeros(3)) is None
    assert unseen_share(np.log(1 + random.pareto(0.8, 10_000))) == math.inf
