"""Fitting a network to weighted trees: EM against a dictionary twin, and what it must never do."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.trees.generation import all_topologies
from phloem.trees.reading import read_trees
from phloem.trees.sample import TreeSample, pool
from phloem.trees.topology import TopologyBatch
from phloem.variational.fitting import fit_network, refit
from phloem.variational.sbn import SubsplitNetwork, read_network, support_of, write_network
from reference.dictionary_sbn import em_step
from reference.nested import from_parent
from support.sbn_tables import as_dictionary
from support.strategies import related_topologies


def weighted(topologies: TopologyBatch, seed: int) -> TreeSample:
    weights = np.random.default_rng(seed).exponential(size=len(topologies))
    return TreeSample(tuple(map(str, range(topologies.taxon_count))), topologies, weights, None)


samples = st.builds(weighted, related_topologies(most=7, trees=6), st.integers(0, 2**32))


def assert_same_tables(found, expected, tolerance=1e-10):
    assert found.keys() == expected.keys()
    for parent, table in expected.items():
        assert found[parent] == pytest.approx(table, abs=tolerance)


@given(samples, st.sampled_from([0.0, 1e-3, 0.5]))
@settings(max_examples=20)
def test_every_step_is_that_of_the_dictionary_twin(sample, smoothing):
    trees = [from_parent(parent, len(sample.taxa)) for parent in sample.topologies.parent]
    fit = fit_network(sample, method="average", smoothing=smoothing)
    support = fit.network.support
    entries = as_dictionary(support, np.ones(support.entry_count))
    expected = em_step(trees, sample.weights.tolist(), None, smoothing, entries)
    if len(trees) == 1:  # a single topology has no parameters: its root is uniform either way
        smoothing = 0.0
    assert_same_tables(as_dictionary(support, fit.network.tables().probabilities), expected)
    for steps in (1, 2, 3):
        expected = em_step(trees, sample.weights.tolist(), expected, smoothing, entries)
        fit = fit_network(sample, smoothing=smoothing, tolerance=1e-300, most_iterations=steps)
        if fit.iterations[-1].iteration == steps:
            assert_same_tables(as_dictionary(support, fit.network.tables().probabilities), expected)


@given(samples, st.sampled_from([0.0, 1e-4, 0.1]))
@settings(max_examples=40)
def test_em_never_lowers_its_objective(sample, smoothing):
    fit = fit_network(sample, smoothing=smoothing, tolerance=1e-300, most_iterations=60)
    objectives = np.array([step.objective for step in fit.iterations])
    assert (np.diff(objectives) >= -1e-12).all()
    if smoothing == 0:
        np.testing.assert_array_equal(objectives, [step.log_likelihood for step in fit.iterations])


def test_the_objective_holds_the_logarithm_of_the_dirichlet_prior():
    sample = weighted(all_topologies(5)[[0, 3, 7, 9]], 2)
    fit = fit_network(sample, smoothing=0.01)
    logs = fit.network.log_prob(sample.topologies).detach().numpy()
    likelihood = sample.normalized().weights @ logs
    parameters = fit.network.tables().log_probabilities[: fit.network.support.parameter_count]
    assert fit.iterations[-1].log_likelihood == pytest.approx(likelihood)
    assert fit.iterations[-1].objective == pytest.approx(likelihood + 0.01 * parameters.sum())


def test_em_beats_averaging_and_both_give_weight_to_trees_that_were_not_seen():
    everything = all_topologies(6)
    seen = np.random.default_rng(1).permutation(105)[:40]
    sample = weighted(everything[seen], 5)
    average, em = fit_network(sample, method="average"), fit_network(sample)
    assert len(average.iterations) == 1
    assert em.converged
    assert em.iterations[-1].log_likelihood > average.iterations[0].log_likelihood + 0.01
    unseen = np.setdiff1d(np.arange(105), seen)
    for fit in (average, em, fit_network(sample, smoothing=1e-3)):
        assert fit.network.log_prob(everything[unseen]).exp().sum() > (1e-3 if fit is not em else 0)
        assert abs(fit.network.log_prob(everything).exp().sum().item() - 1) < 1e-12


def test_weights_count_as_shares_and_zero_as_absence():
    topologies = all_topologies(5)
    weights = np.array([3.0, 1, 0, 2])
    once = fit_network(TreeSample(tuple("abcde"), topologies[:4], weights, None), smoothing=0.01)
    repeated = topologies[[0, 0, 1, 3, 0, 3]]
    again = fit_network(TreeSample(tuple("abcde"), repeated, np.full(6, 10.0), None), smoothing=0.01)
    assert once.network.support.topology_count == again.network.support.topology_count == 3
    np.testing.assert_allclose(once.network.tables().probabilities, again.network.tables().probabilities, rtol=1e-9)


def test_progress_is_told_and_iterations_are_bounded():
    told = []
    sample = weighted(all_topologies(6)[::3], 1)
    fit = fit_network(sample, tolerance=1e-30, most_iterations=3, progress=told.append)
    assert told == list(fit.iterations)
    assert [step.iteration for step in told] == [0, 1, 2, 3]
    assert not fit.converged


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "guess"}, "choose one of em, average"),
        ({"smoothing": -1.0}, "smoothing -1: .* from 0 to 1"),
        ({"smoothing": float("inf")}, "smoothing inf"),
        ({"smoothing": float("nan")}, "smoothing nan"),
        ({"tolerance": 0.0}, "tolerance 0"),
        ({"most_iterations": 0}, "0 iterations"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(BadArgument, match=message):
        fit_network(weighted(all_topologies(5)[:3], 1), **options)


def test_huge_weights_are_shares_like_others():
    topologies = all_topologies(5)[:3]
    huge = TreeSample(tuple("abcde"), topologies, np.array([1e308, 1e308, 1e307]), None)
    plain = TreeSample(tuple("abcde"), topologies, np.array([10.0, 10, 1]), None)
    one, other = fit_network(huge), fit_network(plain)
    np.testing.assert_allclose(one.network.tables().probabilities, other.network.tables().probabilities, rtol=1e-9)


def test_unsmoothed_fits_of_runs_of_ds1_stay_finite_and_can_be_written(real_data, tmp_path):
    """Rare tables underflow to nothing at all here."""
    for path in sorted((real_data / "mrbayes" / "DS1").glob("*.gz"))[::4]:
        fit = fit_network(read_trees(path), tolerance=1e-7)
        objectives = np.array([step.objective for step in fit.iterations])
        assert np.isfinite(objectives).all()
        assert (np.diff(objectives) >= -1e-12).all()
        write_network(fit.network, tmp_path / "network.npz")
        read_network(tmp_path / "network.npz")


def test_one_run_of_ds1_predicts_all_ten(real_data):
    runs = [read_trees(path) for path in sorted((real_data / "mrbayes" / "DS1").glob("*.gz"))]
    reference = pool(runs).distinct().with_taxa(runs[0].taxa)

    def divergence(**options) -> float:
        logs = fit_network(runs[0], **options).network.log_prob(reference.topologies).detach().numpy()
        inside = np.isfinite(logs)
        assert reference.weights[inside].sum() > 0.9999
        return float(reference.weights[inside] @ (np.log(reference.weights[inside]) - logs[inside]))

    average, em, smoothed = divergence(method="average"), divergence(), divergence(smoothing=1e-6)
    assert smoothed < 0.005 < em < 0.02 < average < 0.08


def network_on(topologies: TopologyBatch, seed: int) -> SubsplitNetwork:
    support = support_of(tuple(map(str, range(topologies.taxon_count))), topologies)
    logits = torch.from_numpy(np.random.default_rng(seed).normal(size=support.parameter_count))
    return SubsplitNetwork(support, logits)


def refit_objective(network: SubsplitNetwork, old: SubsplitNetwork, sample: TreeSample, prior: float) -> torch.Tensor:
    """Mean log-likelihood plus log Dirichlet prior, table by table, differentiable in the network's logits."""
    starts = network.support.free_starts.tolist()
    weights = torch.tensor(sample.normalized().weights)
    total = weights @ network.log_prob(sample.topologies)
    for first, end in pairwise(starts):
        own = torch.log_softmax(network.logits[first:end], 0)
        total = total + prior * torch.softmax(old.logits.detach()[first:end], 0) @ own
    return total


@given(samples, st.sampled_from([1e-3, 0.1, 3.0]), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_a_refit_is_the_mode_under_priors_at_the_old_tables(sample, prior, seed):
    sample = sample.normalized().distinct()
    old = network_on(sample.topologies, seed)
    new = refit(old, sample.topologies, sample.weights, prior=prior)
    at_old, at_new = (refit_objective(network, old, sample, prior) for network in (old, new))
    assert at_new >= at_old - 1e-12
    if new.support.parameter_count:
        (slope,) = torch.autograd.grad(at_new, new.logits)
        assert slope.abs().max() < 2e-2
    assert torch.isfinite(new.logits).all()


@given(related_topologies(most=7, trees=6), st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_a_refit_to_what_the_network_says_changes_nothing(topologies, seed):
    network = network_on(topologies, seed)
    everything = all_topologies(topologies.taxon_count)
    generated = everything[network.support.generates(everything)]
    before = network.log_prob(generated).detach()
    again = refit(network, generated, before.exp().numpy(), prior=1e-6)
    torch.testing.assert_close(again.log_prob(generated).detach(), before, rtol=0, atol=1e-4)


def test_tables_that_no_tree_uses_stay_and_nothing_becomes_impossible():
    everything = all_topologies(6)
    network = network_on(everything, 3)
    support = network.support
    one = everything[5:6]
    new = refit(network, one, np.ones(1), prior=1e-3)
    assert new.log_prob(one) > np.log(0.9) > network.log_prob(one)
    assert torch.isfinite(new.log_prob(everything)).all()
    used = np.zeros(support.entry_count, bool)
    entries = support.indices(one).entries
    used[entries[entries >= 0]] = True
    used[: len(support.splits)] = True
    free, starts = np.arange(support.parameter_count), support.free_starts
    untouched = ~np.maximum.reduceat(used[: support.parameter_count], starts[:-1])
    kept = np.repeat(untouched, np.diff(starts))
    assert 0 < kept.sum() < len(kept)
    before, after = network.tables().probabilities[free], new.tables().probabilities[free]
    np.testing.assert_allclose(after[kept], before[kept], rtol=1e-12)
    assert np.abs(after - before)[~kept].max() > 0.1


@pytest.mark.parametrize(
    ("weights", "prior", "what"),
    [
        ([0.5, 0.6], 1.0, "with a sum of 1"),
        ([1.5, -0.5], 1.0, "of 0 or more"),
        ([1.0], 1.0, "each topology a weight"),
        ([np.nan, 1.0], 1.0, "with a sum of 1"),
        ([0.5, 0.5], 0.0, "a prior of 0"),
    ],
)
def test_what_a_refit_refuses(weights, prior, what):
    everything = all_topologies(5)
    with pytest.raises(BadArgument, match=what):
        refit(network_on(everything[:4], 1), everything[:2], np.array(weights), prior=prior)
    with pytest.raises(BadArgument, match="outside the network's support"):
        refit(network_on(everything[:1], 1), everything[5:6], np.ones(1), prior=1.0)
