"""Priors on branch lengths against scipy's densities, and against what they are made of."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from phloem.config.model import parse_length_prior
from phloem.errors import BadArgument, ConfigError
from phloem.target.priors import (
    GammaDirichletPrior,
    TreePrior,
    UniformPrior,
    build_length_prior,
    is_usual,
    length_prior_words,
)
from phloem.trees.generation import all_topologies

BRANCHES = 9  # of six taxa
TOPOLOGIES = 105
PRIORS = [TreePrior(7.0), GammaDirichletPrior(), GammaDirichletPrior(2.5, 0.7), UniformPrior(3.0)]


def log_density(prior, lengths: np.ndarray) -> np.ndarray:
    """Of the lengths alone."""
    topologies = all_topologies(6)[np.arange(len(lengths)) % TOPOLOGIES]
    return prior(topologies, torch.from_numpy(lengths)).numpy() + math.log(TOPOLOGIES)


@pytest.mark.parametrize(("shape", "rate"), [(1.0, 0.1), (2.5, 0.7)])
def test_gamma_dirichlet_is_a_gamma_of_the_sum_divided_uniformly(shape, rate):
    random = np.random.default_rng(1)
    shares = random.dirichlet(np.ones(BRANCHES), 50)
    total = random.gamma(shape, 1 / rate, 50)
    # From (sum, all shares but one) to lengths: the volume grows by the sum for each share.
    expected = stats.gamma.logpdf(total, shape, scale=1 / rate) - (BRANCHES - 1) * np.log(total)
    expected += [stats.dirichlet.logpdf(row, np.ones(BRANCHES)) for row in shares]
    np.testing.assert_allclose(log_density(GammaDirichletPrior(shape, rate), shares * total[:, None]), expected)


def test_the_formula_that_mrbayes_prints_for_its_default():
    lengths = np.random.default_rng(2).exponential(0.1, (5, BRANCHES))
    total = lengths.sum(axis=1)
    expected = math.log(0.1) - 0.1 * total + math.lgamma(BRANCHES) - (BRANCHES - 1) * np.log(total)
    np.testing.assert_allclose(log_density(GammaDirichletPrior(), lengths), expected)


def test_uniform_lengths_have_an_end():
    lengths = np.full((2, BRANCHES), 0.5)
    lengths[1, 3] = 3.1
    np.testing.assert_allclose(log_density(UniformPrior(3.0), lengths), [-BRANCHES * math.log(3), -np.inf])


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.in_words())
def test_slopes_are_those_of_autograd(prior):
    lengths = torch.rand(4, BRANCHES, dtype=torch.float64).requires_grad_()
    prior(all_topologies(6)[:4], lengths).sum().backward()
    slope = prior.slope(lengths.detach()).expand(4, BRANCHES)
    torch.testing.assert_close(slope, lengths.grad)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.in_words())
def test_settings_make_the_prior_again(prior):
    rate = prior.rate if isinstance(prior, TreePrior) else 10.0
    assert build_length_prior(parse_length_prior("--branch-prior", length_prior_words(prior)), rate) == prior


def test_what_texts_mean():
    assert parse_length_prior("--branch-prior", "Gamma-Dirichlet").numbers == (1.0, 0.1)
    assert parse_length_prior("--branch-prior", "uniform:5") == ("uniform", (5.0,))
    for text in (
        "",
        "gamma",
        "exponential:3",
        "uniform:",
        "uniform:0",
        "uniform:a",
        "gamma-dirichlet:1",
        "uniform:nan",
    ):
        with pytest.raises(ConfigError, match=r"^--branch-prior .*: give exponential, whose rate is --prior-rate"):
            parse_length_prior("--branch-prior", text)


def test_a_subclass_is_another_prior():
    class Other(TreePrior):
        pass

    assert is_usual(TreePrior())
    assert not is_usual(Other())


@pytest.mark.parametrize("make", [TreePrior, GammaDirichletPrior, UniformPrior, lambda x: GammaDirichletPrior(1.0, x)])
@pytest.mark.parametrize("number", [0.0, -1.0, math.inf, math.nan])
def test_numbers_must_be_positive(make, number):
    with pytest.raises(BadArgument, match="must be a finite number above 0"):
        make(number)
