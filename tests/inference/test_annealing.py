"""Annealed weights estimate the marginal likelihood without bias, whatever the path, and ever more evenly."""

import math
from functools import cache

import numpy as np
import pytest

from phloem.data.patterns import compress
from phloem.inference.annealing import AnnealingPath, anneal, plan_path
from phloem.inference.diagnostics import effective_sample_size
from phloem.inference.draws import DrawCollector
from phloem.random_streams import RandomStream
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.trees.generation import all_topologies
from phloem.variational.families import Lognormal, Warped
from phloem.variational.joint import GraphModel, JointModel
from phloem.variational.sbn import SubsplitNetwork, support_of
from reference.exact_posterior import exact_posterior
from support.known_posteriors import RATE, KnownPrior, known, shapes
from support.small_posteriors import evolved

STREAM = RandomStream(7, "annealing")


@pytest.mark.parametrize("interchanges", [0, 2])
@pytest.mark.parametrize(("temperatures", "angle"), [(1, 0.5), (5, 0.1), (5, 1.2), (20, 0.5)])
def test_weights_are_unbiased_on_any_path(temperatures, angle, interchanges):
    model, target = known(5, Warped)
    path = AnnealingPath.even(temperatures, angle=angle, interchanges=interchanges)
    kept = DrawCollector()
    log_weights = anneal(model, target, path, 6000, stream=STREAM, keep=kept)
    weights = np.exp(log_weights)
    error = weights.std() / math.sqrt(len(weights))
    assert abs(weights.mean() - 1) < 4 * error
    draws = kept.draws(target.likelihood.patterns.taxa)
    np.testing.assert_array_equal(draws.log_weights, log_weights)
    prior = target.prior
    assert isinstance(prior, KnownPrior)
    own = prior.index.find(draws.topologies)[draws.group]
    for topology, probability in enumerate(prior.probabilities):
        share = weights * (own == topology)
        assert abs(share.mean() - probability) < 4.5 * share.std() / math.sqrt(len(weights)) + 1e-4
    deviation = draws.branch_lengths - shapes(draws.topologies).numpy() / RATE
    for branch in range(draws.branch_lengths.shape[1]):
        share = weights * deviation[:, branch]
        assert abs(share.mean()) < 4.5 * share.std() / math.sqrt(len(weights))


def test_longer_paths_make_weights_even():
    model, target = known(5, Lognormal)
    shares = [
        effective_sample_size(
            anneal(model, target, AnnealingPath.even(steps, angle=0.5, interchanges=2), 100, stream=STREAM)
        )
        / 100
        for steps in (1, 10, 400)
    ]
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > 0.9


@cache
def integrated() -> tuple[np.ndarray, float, float]:
    """Probabilities of topologies, the log marginal likelihood and its error."""
    return exact_posterior(all_topologies(5), compress(evolved(5, 50, seed=3)), samples=20_000, seed=1)


@pytest.mark.parametrize("family", [Lognormal, Warped])
def test_the_marginal_likelihood_is_that_of_integration(family):
    patterns = compress(evolved(5, 50, seed=3))
    topologies = all_topologies(5)
    probabilities, log_marginal, error = integrated()
    support = support_of(patterns.taxa, topologies)
    model = JointModel(SubsplitNetwork(support), GraphModel(5, width=8, family=family))
    target = TreePosterior(TreeLikelihood(patterns))
    path = plan_path(model, target, stream=STREAM.named("pilot"))
    kept = DrawCollector()
    log_weights = anneal(model, target, path, 2000, stream=STREAM, keep=kept)
    weights = np.exp(log_weights - log_marginal)
    own_error = weights.std() / math.sqrt(len(weights))
    assert abs(weights.mean() - 1) < 4 * math.hypot(own_error, error)
    assert own_error < 0.1  # of a model that was never trained
    found = kept.draws(patterns.taxa).weighted()
    rows = [row.tobytes() for row in topologies.parent]
    shares = np.zeros(len(rows))
    for parent, weight in zip(found.topologies.parent, found.topology_weights(), strict=True):
        shares[rows.index(parent.tobytes())] = weight
    assert np.abs(shares - probabilities).max() < 0.06


def test_the_pilot_makes_steps_that_vary_alike():
    model, target = known(5, Lognormal)
    path = plan_path(model, target, stream=STREAM)
    assert path.inverse_temperatures[-1] == 1
    assert len(path.angles) == len(path.inverse_temperatures) - 1
    assert len(path.angles) >= 9
    steps = np.diff([0, *path.inverse_temperatures])
    assert (steps > 0).all()
    assert steps.max() <= 0.1 + 1e-12
    assert all(0 < angle <= 0.8 for angle in path.angles)
    assert path.interchanges == 1
    assert path == plan_path(model, target, stream=STREAM)
    assert path != plan_path(model, target, stream=STREAM.named("other"))
    assert path.weighings == 1 + len(path.angles) * 3


def test_equal_seeds_give_equal_draws_on_one_thread_and_on_two():
    patterns = compress(evolved(6, 60, seed=3))
    support = support_of(patterns.taxa, all_topologies(6))
    model = JointModel(SubsplitNetwork(support), GraphModel(6, width=8, family=Warped))
    path = AnnealingPath.even(6, angle=0.5, interchanges=2)
    found = []
    for threads in (1, 2):
        target = TreePosterior(TreeLikelihood(patterns, threads=threads))
        kept = DrawCollector()
        anneal(model, target, path, 40, stream=STREAM, keep=kept)
        found.append(kept.draws(patterns.taxa))
    assert (found[0].log_weights == found[1].log_weights).all()
    assert found[0].branch_lengths.tobytes() == found[1].branch_lengths.tobytes()
    assert found[0].topologies.equal(found[1].topologies).all()
    other = anneal(model, target, path, 40, stream=STREAM.at(1))
    assert not (other == found[0].log_weights).any()


def test_draws_do_not_depend_on_how_many_there_are():
    model, target = known(5, Warped)
    path = AnnealingPath.even(4, angle=0.5, interchanges=1)
    all_at_once = anneal(model, target, path, 30, stream=STREAM)
    told = []
    fewer = anneal(model, target, path, 20, stream=STREAM, progress=told.append)
    np.testing.assert_allclose(fewer, all_at_once[:20], rtol=1e-12)
    assert told == sorted(told)
    assert told[-1] == 1
