"""The prior under constraints: uniform on topologies that satisfy them, zero elsewhere, and nothing else changes."""

from dataclasses import replace

import numpy as np
import torch

from phloem.trees.constraints import TopologyConstraints
from phloem.trees.generation import all_topologies
from support.weighted_priors import INFERRED, known_posterior


def test_the_prior_is_that_of_satisfying_trees_alone():
    constraints = TopologyConstraints.of(tuple("abcdef"), [("one", ("c", "d")), ("two", ("c", "d", "e"))])
    topologies = all_topologies(6)
    holds = constraints.hold(topologies)
    free = known_posterior("JC", 6, 6).target
    target = replace(free, constraints=constraints)
    lengths = torch.full((105, 9), 0.1, dtype=torch.float64)
    before, after = (one.log_joint(topologies, lengths).numpy() for one in (free, target))
    assert (after[~holds] == -np.inf).all()
    np.testing.assert_allclose(after[holds] - before[holds], np.log(105 / holds.sum()))
    by_hand, slopes = target.log_joint_by_hand(topologies, lengths, 1.0)
    np.testing.assert_allclose(by_hand.numpy(), after)
    np.testing.assert_allclose(slopes.lengths, free.log_joint_by_hand(topologies, lengths, 1.0)[1].lengths)
    np.testing.assert_allclose(
        target.log_prior(topologies, lengths, None),
        after - (before - free.log_prior(topologies, lengths, None).numpy()),
    )
    assert target.priors_in_words()["topologies"] == "alike if they have one (2 taxa), two (3 taxa)"
    tempered = target.log_joint(topologies, lengths, 0.0).numpy()
    np.testing.assert_allclose(tempered[holds], target.log_prior(topologies, lengths, None).numpy()[holds])


def test_parameters_of_the_model_have_their_prior_besides():
    constraints = TopologyConstraints.of(tuple("abcde"), [("one", ("c", "d"))])
    topologies = all_topologies(5)
    holds = constraints.hold(topologies)
    free = known_posterior(INFERRED, 5, 6).target
    target = replace(free, constraints=constraints)
    lengths, theta = torch.full((15, 7), 0.1, dtype=torch.float64), torch.zeros(15, free.dimension, dtype=torch.float64)
    before, after = (one.log_joint(topologies, lengths, theta=theta).numpy() for one in (free, target))
    np.testing.assert_allclose(after[holds] - before[holds], np.log(15 / holds.sum()))
    by_hand, _ = target.log_joint_by_hand(topologies, lengths, 0.5, theta=theta)
    np.testing.assert_allclose(by_hand, target.log_joint(topologies, lengths, 0.5, theta=theta))
