"""The evidence of topologies, against probabilities that are known and against integration."""

import math

import numpy as np
import pytest

from phloem.data.patterns import compress
from phloem.errors import BadArgument
from phloem.inference import evidence
from phloem.inference.evidence import topology_evidence
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
