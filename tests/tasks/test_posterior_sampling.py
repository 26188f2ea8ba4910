"""Posterior trees: as often as their weights say, or with them."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import phloem
from phloem.errors import BadArgument
from phloem.inference.draws import resample, shortest_decimals
from phloem.target.likelihood import TreeLikelihood
from phloem.target.priors import GammaDirichletPrior
from phloem.target.substitution import hky85
from phloem.tasks.posterior import sample_posterior


@pytest.fixture(scope="module")
def posterior(finished_runs):
    return phloem.load_posterior(finished_runs)


@given(st.integers(1, 200), st.integers(1, 300), st.floats(0, 0.999999), st.integers(0, 2**32 - 1))
def test_every_draw_comes_as_often_as_its_weight_says_to_the_next_whole_number(draws, count, offset, seed):
    weights = np.random.default_rng(seed).dirichlet(np.full(draws, 0.3))
    weights /= weights.sum()
    chosen = resample(weights, count, offset)
    assert len(chosen) == count
    times = np.bincount(chosen, minlength=draws)
    assert (np.abs(times - count * weights) < 1 + 1e-6).all()
    assert not times[weights == 0].any()


def test_what_has_no_weight_never_comes():
    assert resample(np.array([0.0, 0.5, 0.0, 0.5]), 2, 0.0).tolist() == [1, 3]
    assert resample(np.array([0.25, 0.0, 0.75, 0.0]), 4, 0.999).tolist() == [0, 2, 2, 2]


def test_resampled_trees_are_draws_of_the_run_with_their_numbers(posterior):
    found = sample_posterior(posterior, 500, seed=3)
    draws = posterior.draws
    rows = {
        (draws.topologies.parent[number].tobytes(), lengths.tobytes()): place
        for place, (number, lengths) in enumerate(zip(draws.group, draws.branch_lengths, strict=True))
    }
    lengths = found.trees.branch_lengths
    places = [
        rows[parent.tobytes(), row.astype(np.float32).tobytes()]
        for parent, row in zip(found.trees.topologies.parent, lengths, strict=True)
    ]
    np.testing.assert_allclose(found.log_likelihood + found.log_prior, draws.log_joint[places], rtol=1e-12)
    np.testing.assert_array_equal(found.log_q, (draws.log_q_topology + draws.log_q_branches)[places])
    with torch.no_grad():
        likelihood = posterior.target.likelihood(found.trees.topologies, torch.from_numpy(lengths.copy())).numpy()
    np.testing.assert_allclose(found.log_likelihood, likelihood, atol=2e-3)  # lengths are kept in single precision
    np.testing.assert_allclose(found.trees.weights, 1 / 500)
    times = np.bincount(places, minlength=len(draws))
    assert (np.abs(times - 500 * posterior.trees.weights) < 1 + 1e-9).all()
    assert (np.diff(places) < 0).any(), "in no order: a trace shows no steps"


def test_where_parameters_are_inferred_each_tree_has_its_own_and_the_likelihood_is_of_them(inferred_run):
    posterior = phloem.load_posterior(inferred_run)
    for found in (sample_posterior(posterior, 200, seed=3), sample_posterior(posterior, 200, weighted=True)):
        assert list(found.parameters) == ["kappa", "pi(A)", "pi(C)", "pi(G)", "pi(T)", "alpha"]
        columns = [found.parameters[name] for name in found.parameters]
        rates = posterior.target.likelihood.model.site_rates
        likelihoods = []
        for row, (kappa, *frequencies, alpha) in enumerate(np.stack(columns, axis=1)[:20].tolist()):
            sites = replace(rates, shape=torch.tensor(alpha, dtype=torch.float64))
            likelihood = TreeLikelihood(posterior.target.likelihood.patterns, hky85(kappa, frequencies, sites))
            lengths = torch.from_numpy(found.trees.branch_lengths[row : row + 1].copy())
            likelihoods.append(likelihood(found.trees.topologies[row : row + 1], lengths).item())
        np.testing.assert_allclose(found.log_likelihood[:20], likelihoods, atol=1e-3, rtol=0)
        # log of: kappa/(1 + kappa)^2, Γ(4) times all frequencies, alpha exp(-alpha)
        kappa, *frequencies, alpha = columns
        of_parameters = np.log(kappa) - 2 * np.log1p(kappa) + np.log(6 * np.prod(frequencies, axis=0))
        of_parameters += np.log(alpha) - alpha
        with torch.no_grad():
            lengths = torch.from_numpy(found.trees.branch_lengths.copy())
            of_trees = posterior.target.prior(found.trees.topologies, lengths)
        np.testing.assert_allclose(found.log_prior, of_trees.numpy() + of_parameters, rtol=1e-9)


def test_parameters_of_the_posterior_are_those_of_all_draws_by_weight(inferred_run, finished_run):
    posterior = phloem.load_posterior(inferred_run)
    values, weights = posterior.parameter_values, posterior.trees.weights
    assert list(values) == list(posterior.parameters)
    assert len(posterior.draws) == len(values["kappa"]) == sum(len(run.draws) for run in posterior.runs)
    for name, estimate in posterior.parameters.items():
        assert estimate.name == name
        assert estimate.mean == pytest.approx(np.average(values[name], weights=weights))
        assert (estimate.lower, estimate.upper) == pytest.approx(phloem.trees.shortest_interval(values[name], weights))
    for run in posterior.runs:
        own = run.parameter_values["kappa"]
        assert run.parameters["kappa"].mean == pytest.approx(np.average(own, weights=run.trees.weights))
    fixed = phloem.load_posterior(finished_run)
    assert fixed.parameters == fixed.parameter_values == sample_posterior(fixed, 5).parameters == {}


def test_the_prior_is_that_of_the_runs_settings(posterior):
    lengths = posterior.sample(30).branch_lengths
    for rate in (10.0, 3.0):
        found = sample_posterior(replace(posterior, config=replace(posterior.config, prior_rate=rate)), 30)
        count = lengths.shape[1]
        trees = math.prod(range(3, 2 * len(posterior.taxa) - 4, 2))  # topologies: (2n-5)!!
        expected = count * math.log(rate) - rate * lengths.sum(axis=1) - math.log(trees)
        np.testing.assert_allclose(found.log_prior, expected, rtol=1e-9)
    other = replace(posterior, config=replace(posterior.config, branch_prior="gamma-dirichlet:2,3"))
    found, trees = sample_posterior(other, 30), posterior.sample(30)
    expected = GammaDirichletPrior(2, 3)(trees.topologies, torch.tensor(trees.branch_lengths)).numpy()
    np.testing.assert_allclose(found.log_prior, expected, rtol=1e-9)


def test_weighted_trees_are_different_draws_with_their_weights(posterior):
    whole = sample_posterior(posterior, len(posterior.draws), weighted=True)
    assert whole.is_weighted
    assert whole.effective_size == pytest.approx(posterior.summary.draws.effective_sample_size)
    assert whole.trees.weights.sum() == pytest.approx(1)
    frequencies = phloem.trees.split_frequencies(whole.trees)
    own = {m.tobytes(): f for m, f in zip(posterior.clades.members, posterior.clades.frequencies, strict=True)}
    for members, share in zip(frequencies.members, frequencies.frequencies, strict=True):
        assert own[members.tobytes()] == pytest.approx(share, abs=1e-9)
    few = sample_posterior(posterior, 50, weighted=True, seed=2)
    assert len(np.unique(few.trees.branch_lengths[:, 0])) == 50
    others = sample_posterior(posterior, 50, weighted=True, seed=3)
    assert (few.trees.branch_lengths != others.trees.branch_lengths).any(), "some of all, not the first"


def test_ranks_are_those_of_the_table_of_topologies(posterior):
    found = sample_posterior(posterior, len(posterior.draws), weighted=True)
    assert len(np.unique(found.topology)) == len(posterior.topologies)
    table = posterior.topologies.topologies.parent
    numbers = {parent.tobytes(): number for number, parent in enumerate(posterior.draws.topologies.parent, 1)}
    assert [numbers[parent.tobytes()] for parent in table] != list(range(1, len(table) + 1)), "not as they first appear"
    for rank, parent in zip(found.topology, found.trees.topologies.parent, strict=True):
        assert (table[rank - 1] == parent).all()


def test_the_same_seed_gives_the_same_trees(posterior):
    one, two, other = (sample_posterior(posterior, 20, seed=seed).trees for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.branch_lengths, two.branch_lengths)
    assert (one.branch_lengths != other.branch_lengths).any()


def test_lengths_have_no_more_digits_than_they_need():
    values = np.array([0.1, 1e-30, 12.5, 1 / 3], np.float32)
    found = shortest_decimals(values)
    np.testing.assert_array_equal(found.astype(np.float32), values)
    assert [repr(value) for value in found.tolist()] == ["0.1", "1e-30", "12.5", "0.33333334"]


def test_no_more_trees_than_draws(posterior):
    with pytest.raises(BadArgument, match="2,000 draws"):
        sample_posterior(posterior, 2001)
    with pytest.raises(BadArgument, match="at least one"):
        sample_posterior(posterior, 0)


def test_the_effective_size_is_that_of_the_draws_and_never_more_than_there_are_trees(posterior):
    everything = 1 / (posterior.trees.weights**2).sum()
    found = sample_posterior(posterior, len(posterior.draws))
    assert found.effective_size == pytest.approx(everything, rel=0.1)
    assert found.effective_size <= everything
    few = sample_posterior(posterior, 20, weighted=True)
    assert few.effective_size == pytest.approx(1 / (few.trees.weights**2).sum())
    assert few.effective_size <= 20
    assert sample_posterior(posterior, 20).effective_size <= 20


def test_repeats_are_counted(posterior):
    found = sample_posterior(posterior, 2000)
    lengths, times = np.unique(found.trees.branch_lengths, axis=0, return_counts=True)
    assert (found.distinct, found.most_repeats) == (len(lengths), times.max())
    assert found.most_repeats > 1
    weighted = sample_posterior(posterior, 2000, weighted=True)
    assert (weighted.distinct, weighted.most_repeats) == (2000, 1)


def test_without_a_number_there_are_as_many_as_there_can_be_up_to_a_thousand(posterior):
    assert len(sample_posterior(posterior).trees) == 1000
    assert len(sample_posterior(posterior.runs[0], weighted=True).trees) == 1000
