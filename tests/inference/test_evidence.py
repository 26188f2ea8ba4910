"""The evidence of topologies, against probabilities that are known and against integration."""

import math

import numpy as np
import pytest

from phloem.data.patterns import compress
from phloem.errors import BadArgument
from phloem.inference import evidence
from phloem.inference.evidence import TopologyEvidence, evidence_shares, known_by, topology_evidence
from phloem.random_streams import RandomStream
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.trees.generation import all_topologies, topology_count
from phloem.variational.families import Warped
from reference.exact_posterior import log_marginal
from support.known_posteriors import KnownPrior, known
from support.small_posteriors import evolved

STREAM = RandomStream(4, "evidence")


def test_it_is_the_probability_of_a_topology_where_the_data_say_nothing():
    _, target = known(5, Warped)
    prior = target.prior
    assert isinstance(prior, KnownPrior)
    told = []
    found = topology_evidence(target, prior.topologies, stream=STREAM, progress=told.append)
    deviation = (found.log_evidence - np.log(prior.probabilities)) / found.error
    assert np.abs(deviation).max() < 4
    assert 0.4 < math.sqrt((deviation**2).mean()) < 1.7, "errors are as large as they are said to be"
    assert (found.error <= 0.02).all()
    assert (found.draws >= 200).all()
    assert (found.effective_draws > 0.5 * found.draws).all()
    assert told == sorted(told)
    assert told[-1] == 1


def test_it_is_that_of_integration():
    patterns = compress(evolved(5, 50, seed=3))
    topologies = all_topologies(5)[:2]
    target = TreePosterior(TreeLikelihood(patterns))
    found = topology_evidence(target, topologies, stream=STREAM)
    for tree, parent in enumerate(topologies.parent):
        expected, error = log_marginal(parent.tolist(), patterns, 20_000)
        expected -= math.log(topology_count(5))
        assert abs(found.log_evidence[tree] - expected) < 4 * math.hypot(found.error[tree], error) + 0.003


def test_a_smaller_error_takes_more_draws_up_to_a_limit():
    _, target = known(5, Warped)
    some = all_topologies(5)[:3]
    usual, precise, limited = (
        topology_evidence(target, some, stream=STREAM, error=error, most_draws=most)
        for error, most in ((0.02, 10_000), (0.004, 100_000), (0.0001, 700))
    )
    assert (precise.error <= 0.004).all()
    assert (precise.draws > usual.draws).all()
    assert limited.draws.tolist() == [700, 700, 700]
    assert (limited.error > 0.0001).all()


def test_topologies_of_all_blocks_have_their_own(monkeypatch):
    _, target = known(5, Warped)
    some = all_topologies(5)[:5]
    together = topology_evidence(target, some, stream=STREAM)
    monkeypatch.setattr(evidence, "AT_ONCE", 2)
    apart = topology_evidence(target, some, stream=STREAM)
    assert len(apart.error) == 5
    errors = np.hypot(together.error, apart.error)
    assert (np.abs(together.log_evidence - apart.log_evidence) < 4 * errors).all()
    again = topology_evidence(target, some, stream=STREAM)
    np.testing.assert_array_equal(apart.log_evidence, again.log_evidence)


def test_it_is_annealed_from_a_trained_model_where_there_is_one(monkeypatch):
    model, target = known(5, Warped)
    prior = target.prior
    assert isinstance(prior, KnownPrior)
    monkeypatch.setattr(evidence, "fit_lengths", None)
    told = []
    found = topology_evidence(
        target, prior.topologies, branches=model.branches, stream=STREAM, error=0.03, progress=told.append
    )
    deviation = (found.log_evidence - np.log(prior.probabilities)) / found.error
    assert np.abs(deviation).max() < 4
    assert 0.4 < math.sqrt((deviation**2).mean()) < 1.7, "errors are as large as they are said to be"
    assert (found.error <= 0.03).all()
    assert told == sorted(told)
    assert told[-1] == 1


def test_topologies_that_a_model_does_not_know_are_fitted(monkeypatch):
    model, target = known(5, Warped)
    prior = target.prior
    assert isinstance(prior, KnownPrior)
    some, fitted = prior.topologies[:6], []
    monkeypatch.setattr(model.branches, "knows", lambda topologies: np.arange(len(topologies)) % 3 != 1)
    fit = evidence.fit_lengths
    monkeypatch.setattr(evidence, "fit_lengths", lambda *given, **how: (fitted.append(given[1]), fit(*given, **how))[1])
    found = topology_evidence(target, some, branches=model.branches, stream=STREAM)
    assert [block.parent.tolist() for block in fitted] == [some.parent[[1, 4]].tolist()]
    assert (np.abs(found.log_evidence - np.log(prior.probabilities[:6])) < 4 * found.error).all()
    assert known_by(model.branches, some).tolist() == [True, False, True, True, False, True]
    monkeypatch.setattr(evidence, "is_made_of_noise", lambda family: False)
    assert not known_by(model.branches, some).any()
    assert not known_by(None, some).any()


def test_probabilities_by_evidence_spread_as_their_errors_say():
    random = np.random.default_rng(2)
    probability, errors = np.array([0.5, 0.25, 0.15, 0.1]), np.array([0.02, 0.04, 0.01, 0.2])
    logarithms = -50 + np.log(probability) + random.normal(size=(20_000, 4)) * errors
    found = [
        evidence_shares(TopologyEvidence(row[:3], errors[:3], np.ones(3), np.ones(3)), row[3], errors[3])
        for row in logarithms
    ]
    shares = np.array([[*one.probability, one.others] for one in found])
    stated = np.array([[*one.error, one.others_error] for one in found])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares.mean(axis=0), probability, rtol=0.02)
    np.testing.assert_allclose(stated.mean(axis=0), shares.std(axis=0), rtol=0.05)


def test_without_others_all_probability_is_on_those_that_are_there():
    found = TopologyEvidence(np.log([0.3, 0.1]) - 9, np.array([0.1, 0.1]), np.ones(2), np.ones(2))
    shares = evidence_shares(found, -math.inf, 0.0)
    assert shares.probability == pytest.approx([0.75, 0.25])
    assert (shares.others, shares.others_error) == (0.0, 0.0)


def test_what_cannot_be_done_is_said_in_a_line():
    _, target = known(5, Warped)
    some = all_topologies(5)[:3]
    with pytest.raises(BadArgument, match="each once"):
        topology_evidence(target, some[[0, 1, 0]], stream=STREAM)
    with pytest.raises(BadArgument, match="one or more"):
        topology_evidence(target, some[:0], stream=STREAM)
    with pytest.raises(BadArgument, match="above 0"):
        topology_evidence(target, some, stream=STREAM, error=0.0)
    with pytest.raises(BadArgument, match="at least 200"):
        topology_evidence(target, some, stream=STREAM, most_draws=100)
