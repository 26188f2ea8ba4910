"""Noise contrastive estimation: its loss, the least that it can be, and its gradient."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from phloem.energy.nce import best_loss, contrast, divergence
from phloem.trees.generation import topology_count
from phloem.trees.reading import read_weighted_table
from reference.plain_nce import loss

ratios = st.floats(0.05, 50)
shares = st.just(0.0) | st.floats(1e-9, 1)


@st.composite
def pairs(draw: st.DrawFn, noise_everywhere: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Data and noise over the same few trees; either may leave some out."""
    size = draw(st.integers(2, 12))
    columns = [
        draw(st.lists(values, min_size=size, max_size=size).filter(any))
        for values in (shares, st.floats(1e-3, 1) if noise_everywhere else shares)
    ]
    data, noise = (np.array(column) / sum(column) for column in columns)
    return data, noise


def logs(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(values)


@given(pairs(), ratios)
def test_the_least_loss_by_divergences_is_that_of_the_target_itself(pair, ratio):
    data, noise = pair
    at_target = contrast(logs(data), logs(noise), data, noise, ratio)
    assert at_target.loss == pytest.approx(best_loss(data, noise, ratio), abs=1e-9)
    np.testing.assert_allclose(at_target.gradient, 0, atol=1e-12)


@given(pairs())
def test_with_as_much_noise_as_data_it_is_the_jensen_shannon_divergence(pair):
    data, noise = pair
    assert best_loss(data, noise) == pytest.approx(2 * math.log(2) - 2 * jensenshannon(data, noise) ** 2, abs=1e-9)


@given(pairs(), ratios, st.integers(0, 2**32), st.floats(1e-3, 5))
def test_no_model_has_a_lower_expected_loss_than_the_target(pair, ratio, seed, size):
    data, noise = pair
    log_model = logs(data) + size * np.random.default_rng(seed).normal(size=len(data))
    assert contrast(log_model, logs(noise), data, noise, ratio).loss >= best_loss(data, noise, ratio) - 1e-12


@given(pairs(noise_everywhere=True), ratios, st.integers(0, 2**32))
def test_the_loss_is_the_formulas(pair, ratio, seed):
    data, noise = pair
    log_model = 3 * np.random.default_rng(seed).normal(size=len(data))
    expected = loss([*torch.from_numpy(log_model)], logs(noise).tolist(), data.tolist(), noise.tolist(), ratio)
    assert contrast(log_model, logs(noise), data, noise, ratio).loss == pytest.approx(float(expected), rel=1e-9)


@given(pairs(noise_everywhere=True), ratios, st.integers(0, 2**32))
def test_the_gradient_is_that_of_finite_differences(pair, ratio, seed):
    data, noise = pair
    log_model = 2 * np.random.default_rng(seed).normal(size=len(data))
    found = contrast(log_model, logs(noise), data, noise, ratio).gradient
    for place in range(len(data)):
        step = 1e-5 * (np.arange(len(data)) == place)
        above, below = (contrast(log_model + sign * step, logs(noise), data, noise, ratio).loss for sign in (1, -1))
        assert (above - below) / 2e-5 == pytest.approx(found[place], abs=1e-6 * (1 + ratio))


def test_the_least_losses_of_the_shared_target(real_data):
    target = read_weighted_table(real_data / "density" / "eight_taxa_target.tsv.gz").normalized()
    assert len(target) == 2_899
    count = topology_count(8)
    everywhere = np.append(target.weights, np.zeros(count - len(target)))
    for data, known, digits in ((everywhere, 0.13477, 5), (target.weights, 0.3099, 4)):
        noise = np.full(len(data), 1 / len(data))
        assert round(best_loss(data, noise), digits) == known
        assert contrast(logs(data), logs(noise), data, noise).loss == pytest.approx(best_loss(data, noise), rel=1e-9)


def test_trees_that_are_far_from_data_or_noise_overflow_nothing():
    found = contrast(np.array([800.0, -800.0]), np.zeros(2), np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    assert found.loss == pytest.approx(800)
    np.testing.assert_allclose(found.gradient, [0.5, -0.5])


def test_a_tree_without_share_counts_for_nothing_whatever_its_logarithms_are():
    one, infinite = np.array([1.0, 0.0]), np.array([0.0, -np.inf])
    found = contrast(infinite, infinite, one, one)
    assert found.loss == pytest.approx(2 * math.log(2))
    np.testing.assert_array_equal(found.gradient, [0, 0])


def test_a_model_that_excludes_data_has_infinite_loss():
    half = np.array([0.5, 0.5])
    assert contrast(np.array([0.0, -np.inf]), logs(half), half, half).loss == math.inf


@given(pairs(noise_everywhere=True))
def test_the_divergence_is_a_sum_over_what_was_seen(pair):
    of, towards = pair
    expected = sum(p * math.log(p / q) for p, q in zip(of.tolist(), towards.tolist(), strict=True) if p > 0)
    assert divergence(of, towards) == pytest.approx(expected, abs=1e-12)
    assert divergence(of, of) == 0


def test_the_divergence_is_infinite_where_there_is_nothing_of_what_was_seen():
    assert divergence(np.array([0.5, 0.5]), np.array([1.0, 0.0])) == math.inf
    assert divergence(np.array([1.0, 0.0]), np.array([0.5, 0.5])) == pytest.approx(math.log(2))
