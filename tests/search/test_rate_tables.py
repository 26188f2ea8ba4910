"""Eigenvalues and vectors against matrix exponentials; patterns and tips in blocks against the patterns."""

import numpy as np
import pytest
from scipy.linalg import expm

from phloem.kernels.likelihood.blocks import BLOCK
from phloem.search.surface import pattern_tables, rate_tables, search_patterns, tip_rows
from support.search_cases import MODELS, random_patterns


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [0.0, 0.2, 5.0])
def test_tables_give_transition_probabilities_back(name, length):
    model, rates = MODELS[name], rate_tables(MODELS[name])
    for exponents, rate in zip(rates.exponents, model.site_rates.rates().numpy(), strict=True):
        joint = rates.spectral.T @ (np.exp(exponents * length)[:, None] * rates.spectral)
        expected = expm(model.rate_matrix().numpy() * rate * length)
        np.testing.assert_allclose(joint / rates.frequencies[:, None], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_the_first_eigenvalue_is_zero_and_its_row_the_frequencies(name):
    rates = rate_tables(MODELS[name])
    assert (rates.exponents[:, 0] == 0).all()
    assert (rates.exponents[:, 1:] < 0).all()
    np.testing.assert_allclose(np.abs(rates.spectral[0]), rates.frequencies, rtol=1e-9)
    assert rates.equal == (name == "JC")
    np.testing.assert_array_equal(rates.terms[1:], rates.exponents[:, 1:].ravel()[: len(rates.terms) - 1])
    assert len(rates.terms) == (2 if name == "JC" else 1 + 3 * len(rates.exponents))
    np.testing.assert_allclose(rates.category_weights, MODELS[name].site_rates.weights().numpy())


@pytest.mark.parametrize("sites", [1, BLOCK, BLOCK + 1, 100])
@pytest.mark.parametrize("name", MODELS)
def test_blocks_hold_the_patterns_and_what_fills_them_up_weighs_nothing(name, sites):
    model = MODELS[name]
    patterns = search_patterns(random_patterns(5, sites, 3, "ACGTRN-"), model)
    count = len(patterns)
    tables = pattern_tables(patterns, model)
    weights = tables.weights.ravel()
    assert len(weights) % BLOCK == 0
    assert 0 <= len(weights) - count < BLOCK
    np.testing.assert_array_equal(weights[:count], patterns.counts)
    assert (weights[count:] == 0).all()
    rows = tip_rows(patterns, 3)
    flat = rows.transpose(0, 2, 1, 4, 3).reshape(5, 3, -1, 4)  # (taxa, categories, patterns, states)
    for category in range(3):
        np.testing.assert_array_equal(flat[:, category, :count], patterns.tip_partials)
    assert (flat[:, :, count:] == 1).all()
    share = 0.0 if model.site_rates.invariant is None else model.site_rates.invariant.item()
    common = patterns.tip_partials.all(axis=0) @ model.frequencies.numpy()
    np.testing.assert_allclose(tables.constant.ravel()[:count], share * common)


def test_jukes_cantor_merges_patterns_that_other_models_tell_apart():
    patterns = random_patterns(4, 200, 5)
    assert len(search_patterns(patterns, MODELS["JC"])) < len(patterns)
    assert search_patterns(patterns, MODELS["HKY"]) is patterns
    assert search_patterns(patterns, MODELS["JC"]).counts.sum() == 200
