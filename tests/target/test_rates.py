"""A model's numbers for the kernel, against torch and scipy."""

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from phloem.kernels.likelihood.pruning import Derivatives, Rates
from phloem.target.rates import ModelRates, gamma_of, repeated, stacked
from phloem.target.substitution import SiteRates, SubstitutionModel, gtr, hky85, jc69

FREQUENCIES = [0.35, 0.15, 0.2, 0.3]
EXCHANGEABILITIES = [1.1, 2.7, 0.6, 0.9, 3.3, 1.0]
MODELS = {
    "JC69": jc69(),
    "HKY85+I": hky85(3.0, FREQUENCIES, SiteRates(invariant=0.3)),
    "GTR+I+G6": gtr(EXCHANGEABILITIES, FREQUENCIES, SiteRates(0.7, 6, "median", 0.2)),
}


def rates_of(model: SubstitutionModel) -> ModelRates:
    categories, method = gamma_of([model])
    return ModelRates(repeated(stacked([model]), 1), categories=categories, method=method)


def tables_of(rates: ModelRates) -> Rates:
    """Those of the only model of the only part."""
    assert {array.shape[:2] for array in rates.tables} == {(1, 1)}
    return Rates(*(array[0, 0] for array in rates.tables))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_spectrum_is_that_of_the_rate_matrix(model):
    rates = rates_of(model)
    tables, ((rate_matrix,),) = tables_of(rates), rates.rate_matrix
    np.testing.assert_allclose(rate_matrix, model.rate_matrix().numpy(), atol=1e-15)
    assert (np.diff(tables.values) >= 0).all()
    assert tables.values[-1] == 0
    np.testing.assert_allclose((tables.right * tables.values) @ tables.left, rate_matrix, atol=1e-14)
    matrix = np.eye(4) + np.tensordot(np.expm1(0.3 * tables.values[:3]), tables.coefficients, 1)
    np.testing.assert_allclose(matrix, expm(0.3 * rate_matrix), atol=1e-14)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_categories_are_those_of_the_site_rates_filled_up_with_nothing(model):
    tables, expected = tables_of(rates_of(model)), model.site_rates.rates().numpy()
    np.testing.assert_allclose(tables.rates[: len(expected)], expected, rtol=1e-15)
    np.testing.assert_allclose(tables.weights[: len(expected)], model.site_rates.weights().numpy(), rtol=1e-15)
    assert len(tables.rates) == 1 or len(tables.rates) % 4 == 0
    assert (tables.weights[len(expected) :] == 0).all()
    assert tables.invariant.sum() + tables.weights.sum() == pytest.approx(1.0)


def test_gradients_are_those_of_torch():
    """A random function of all that the kernel takes, differentiated by torch through the model's own tensors."""
    random = np.random.default_rng(1)
    parameters = [torch.tensor(values, dtype=torch.float64, requires_grad=True) for values in (EXCHANGEABILITIES,)]
    shape, invariant = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (0.7, 0.2))
    frequencies = torch.tensor(FREQUENCIES, dtype=torch.float64, requires_grad=True)
    model = gtr(parameters[0], frequencies, SiteRates(shape, 6, "mean", invariant))
    by_matrix, by_rate, by_weight, by_frequency, by_invariant = (
        random.normal(size=size) for size in ((4, 4), 6, 6, 4, 4)
    )
    value = (model.rate_matrix() * torch.tensor(by_matrix)).sum()
    value = value + model.site_rates.rates() @ torch.tensor(by_rate)
    value = value + model.site_rates.weights() @ torch.tensor(by_weight)
    value = value + frequencies @ torch.tensor(by_frequency) + (invariant * frequencies) @ torch.tensor(by_invariant)
    value.backward()
    rates = rates_of(model)
    right, left = tables_of(rates).right, tables_of(rates).left
    inner = np.linalg.inv(left.T) @ by_matrix @ np.linalg.inv(right.T)
    padded = [np.append(values, [5.0, 7.0]) for values in (by_rate, by_weight)]  # of no category
    trees = [array.reshape(1, 1, -1) for array in (np.zeros(1), inner, *padded, by_frequency, by_invariant)]
    found = rates.gradients(
        Derivatives(*(np.concatenate([array, 2 * array]) for array in trees)), np.array([3.0, -1.0])
    )
    for ours, theirs in zip(found[:4], (parameters[0], frequencies, shape, invariant), strict=True):
        np.testing.assert_allclose(ours[0, 0], theirs.grad.numpy(), rtol=1e-9)
