"""Substitution models, their transition matrices and site rates; models from settings."""

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats
from scipy.linalg import expm

from phloem.config import ModelConfig
from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.errors import BadArgument
from phloem.target.substitution import (
    SiteRates,
    build_model,
    count_states,
    discrete_gamma,
    empirical_frequencies,
    f81,
    gtr,
    hky85,
    jc69,
    k80,
    sym,
    tn93,
)
from reference.brute_force import rate_matrix

FREQUENCIES = [0.4, 0.1, 0.2, 0.3]
RATES = [0.7, 2.1, 1.3, 0.9, 4.0, 1.0]
MODELS = {
    "JC69": jc69(),
    "K80": k80(2.5),
    "F81": f81(FREQUENCIES),
    "HKY85": hky85(3.0, FREQUENCIES),
    "TN93": tn93(2.0, 5.0, FREQUENCIES),
    "SYM": sym(RATES),
    "GTR": gtr(RATES, FREQUENCIES),
}
PATTERNS = compress(Alignment.from_sequences("abc", ["AACCG", "AACRN", "A-GTT"]))


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize("name", MODELS)
def test_rate_matrix_is_reversible_and_of_unit_rate(name):
    model = MODELS[name]
    matrix, frequencies = model.rate_matrix().numpy(), model.frequencies.numpy()
    np.testing.assert_allclose(matrix.sum(axis=1), 0, atol=1e-14)
    np.testing.assert_allclose(frequencies[:, None] * matrix, (frequencies[:, None] * matrix).T, atol=1e-14)
    np.testing.assert_allclose(-(frequencies * np.diag(matrix)).sum(), 1)
    np.testing.assert_allclose(matrix, rate_matrix(model.exchangeabilities.numpy(), frequencies), atol=1e-14)
    assert model.name == name


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("time", [0.0, 1e-12, 1e-9, 1e-4, 0.1, 3.0, 100.0])
def test_transition_matrices_are_matrix_exponentials(name, time):
    model = MODELS[name]
    found = model.transition_matrices(scalar(time)).numpy()
    assert found.shape == (1, 4, 4)
    exact = expm(model.rate_matrix().numpy() * time)
    np.testing.assert_allclose(found[0], exact, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-14)
    if 0 < time < 1e-3:  # short branches keep the digits of rare changes
        np.testing.assert_allclose(found[0] - np.diag(np.diag(found[0])), exact - np.diag(np.diag(exact)), rtol=1e-9)


def test_transitions_are_kappa_times_as_fast_and_tn93_tells_them_apart():
    matrix = k80(3.0).rate_matrix()
    assert matrix[0, 2] / matrix[0, 1] == pytest.approx(3)
    assert matrix[1, 3] / matrix[1, 0] == pytest.approx(3)
    exchangeabilities = tn93(2.0, 5.0, FREQUENCIES).exchangeabilities.tolist()
    assert exchangeabilities == [1, 2, 1, 1, 5, 1]


@pytest.mark.parametrize("time", [1e-6, 0.1, 3.0, 40.0])
def test_gradients_of_rates_are_those_of_the_matrix_exponential(time):
    weights = torch.arange(16.0, dtype=torch.float64).reshape(4, 4)
    ours, theirs = (torch.tensor(RATES, dtype=torch.float64, requires_grad=True) for _ in range(2))
    (gtr(ours, FREQUENCIES).transition_matrices(scalar(time))[0] * weights).sum().backward()
    (torch.linalg.matrix_exp(gtr(theirs, FREQUENCIES).rate_matrix() * time) * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-7, atol=1e-13)


@pytest.mark.parametrize("kappa", [1e-4, 0.5, 1.0, 3.0, 1e4])
def test_gradients_vanish_on_very_long_branches(kappa):
    parameter = torch.tensor(kappa, dtype=torch.float64, requires_grad=True)
    weights = torch.arange(16.0, dtype=torch.float64).reshape(4, 4)
    (hky85(parameter, FREQUENCIES).transition_matrices(scalar(1e6)) * weights).sum().backward()
    assert parameter.grad.item() == pytest.approx(0, abs=1e-7)


def test_jukes_cantor_is_recognised_only_where_it_is_the_whole_model():
    assert jc69().is_jukes_cantor
    assert k80(1.0).is_jukes_cantor
    assert f81([0.25] * 4).is_jukes_cantor
    assert not jc69(SiteRates(scalar(0.5))).is_jukes_cantor
    assert not jc69(SiteRates(invariant=scalar(0.1))).is_jukes_cantor
    assert not hky85(1.0, FREQUENCIES).is_jukes_cantor
    assert not k80(torch.tensor(1.0, dtype=torch.float64, requires_grad=True)).is_jukes_cantor


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("categories", [1, 2, 4, 10])
def test_gamma_categories_are_means_of_equal_slices(shape, categories):
    rates = discrete_gamma(shape, categories, "mean")
    assert rates.mean() == pytest.approx(1)
    assert (np.diff(rates) > 0).all()
    bounds = stats.gamma.ppf(np.linspace(0, 1, categories + 1), shape, scale=1 / shape)
    for low, high, rate in zip(bounds[:-1], bounds[1:], rates, strict=True):
        mean, _ = integrate.quad(
            lambda p: stats.gamma.ppf(p, shape, scale=1 / shape),
            *stats.gamma.cdf([low, high], shape, scale=1 / shape),
            limit=200,
        )
        assert rate == pytest.approx(mean * categories, rel=1e-4, abs=1e-9)


def test_gamma_medians_are_scaled_to_mean_one():
    rates = discrete_gamma(0.5, 4, "median")
    medians = special.gammaincinv(0.5, [0.125, 0.375, 0.625, 0.875])
    np.testing.assert_allclose(rates / rates[0], medians / medians[0])
    assert rates.mean() == pytest.approx(1)


@pytest.mark.parametrize("method", ["mean", "median"])
@pytest.mark.parametrize("shape", [0.1, 0.7, 5.0])
def test_gamma_rates_have_a_derivative(method, shape):
    parameter = torch.tensor(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: SiteRates(x, 4, method).rates(), parameter, atol=1e-7)


def test_the_mean_rate_over_all_sites_is_one():
    rates = SiteRates(scalar(0.5), 4, "mean", scalar(0.25))
    assert rates.weights().sum().item() == pytest.approx(0.75)
    assert (rates.rates() * rates.weights()).sum().item() == pytest.approx(1)
    assert SiteRates().rates().tolist() == [1]


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda: k80(-1.0), "above 0"),
        (lambda: k80(float("nan")), "above 0"),
        (lambda: f81([0.5, 0.5, 0.0, 0.0]), "above 0"),
        (lambda: f81([0.3, 0.3, 0.3, 0.3]), "must sum to 1"),
        (lambda: f81([0.5, 0.25, 0.25]), "4 finite numbers"),
        (lambda: gtr([1.0] * 5, FREQUENCIES), "6 finite numbers"),
        (lambda: SiteRates(scalar(0.0)), "gamma shape 0"),
        (lambda: SiteRates(scalar(float("inf"))), "gamma shape inf"),
        (lambda: SiteRates(scalar(1.0), 0), "0 rate categories"),
        (lambda: SiteRates(scalar(1.0), 4, "mode"), "'mean' or 'median'"),
        (lambda: SiteRates(invariant=scalar(1.0)), "invariant sites 1"),
        (lambda: SiteRates(invariant=scalar(-0.1)), "invariant sites -0.1"),
    ],
)
def test_parameters_outside_their_range_are_refused(build, what):
    with pytest.raises(BadArgument, match=what):
        build()


def test_states_are_counted_where_they_are_known():
    assert count_states(PATTERNS).tolist() == [5, 3, 2, 2]
    assert empirical_frequencies(PATTERNS) == pytest.approx([5 / 12, 3 / 12, 2 / 12, 2 / 12])


def test_a_model_has_the_frequencies_that_are_given_or_else_those_that_are_counted():
    counted = build_model(ModelConfig("HKY", kappa=(3.0,)), PATTERNS)
    assert counted.frequencies.tolist() == pytest.approx([5 / 12, 3 / 12, 2 / 12, 2 / 12])
    assert counted.exchangeabilities.tolist() == [1, 3, 1, 1, 3, 1]
    given = build_model(ModelConfig("F81", frequencies=(0.4, 0.3, 0.2, 0.1)), PATTERNS)
    assert given.frequencies.tolist() == [0.4, 0.3, 0.2, 0.1]
