"""Trees of chains stand for what Q cannot generate, with its share of the posterior."""

import math

import numpy as np
import pytest

from phloem.inference.agreement import Measured
from phloem.inference.chains import ChainTrees
from phloem.inference.diagnostics import smooth
from phloem.inference.draws import Draws
from phloem.inference.evaluation import Estimated
from phloem.inference.outside import LEAST_ADDED, MOST_ADDED, is_added, of_both_parts, with_outside
from phloem.trees.generation import all_topologies
from support.small_posteriors import no_parameters

TAXA = tuple("abcde")
TOPOLOGIES = all_topologies(5)
LOG_EVIDENCE = -50.0  # of the support


def draws(log_weights: np.ndarray, *, annealed: bool) -> Draws:
    """Of the first three topologies in turn."""
    count = len(log_weights)
    group = np.arange(count, dtype=np.int32) % 3
    parts = (np.full((count, 7), 0.1, np.float32), log_weights - 3.0, np.full(count, -1.0), np.full(count, -2.0))
    return Draws(TAXA, TOPOLOGIES[:3], group, *parts, log_weights if annealed else None)


def chains(number: np.ndarray) -> ChainTrees:
    count = number.size
    lengths = np.random.default_rng(1).exponential(0.1, (count, 7))
    counts = (*number.shape, 1, len(number), 1.0, 0.1)
    return ChainTrees(TAXA, TOPOLOGIES[number.ravel()], lengths, np.arange(count) - 60.0, *counts, no_parameters(count))


@pytest.mark.parametrize("annealed", [False, True])
def test_both_parts_have_their_shares_and_all_evidence_is_as_it_should_be(annealed):
    random = np.random.default_rng(2)
    log_weights = random.normal(LOG_EVIDENCE, 0.1, 300)
    inside = draws(log_weights, annealed=annealed)
    number = random.integers(0, 6, (10, 20))  # half of them are topologies 3 to 5, outside
    trees, share = chains(number), 0.2
    is_outside = number.ravel() >= 3
    found = with_outside(inside, trees, is_outside, Measured(share, 0.0))
    assert len(found) == 300 + is_outside.sum()
    is_inside = found.group < 3  # in the order of the draws, then of the chains
    np.testing.assert_array_equal(is_inside, np.arange(len(found)) < 300)
    np.testing.assert_array_equal(is_inside, found.is_from_q)
    smoothed = found.weighted().weights
    assert smoothed[~is_inside].sum() == pytest.approx(share)
    expected = np.exp(smooth(log_weights))
    np.testing.assert_allclose(smoothed[is_inside], expected / expected.sum() * (1 - share))
    weights = np.exp(found.log_weights)
    np.testing.assert_array_equal(found.own_log_weights, log_weights)
    assert math.log(weights.sum() / 300) == pytest.approx(math.log(np.exp(log_weights).mean() / (1 - share)), abs=0.01)

    before, after = inside.topology_estimates(), found.topology_estimates()
    evidence = dict(zip((row.tobytes() for row in before.trees.topologies.parent), before.log_evidence, strict=True))
    total = 0.0
    for row, log_evidence in zip(after.trees.topologies.parent, after.log_evidence, strict=True):
        total += math.exp(log_evidence)
        if row.tobytes() in evidence:
            assert log_evidence == pytest.approx(evidence[row.tobytes()])
    assert total == pytest.approx(weights.sum() / 300)
    np.testing.assert_array_equal(found.log_joint[300:], trees.log_joint[is_outside])
    np.testing.assert_array_equal(found.branch_lengths[300:], trees.branch_lengths[is_outside].astype(np.float32))
    assert (found.log_q_topology[300:] == -np.inf).all()
    of_fifth = (number == 5).sum() / is_outside.sum() * share
    place = [row.tobytes() for row in found.topologies.parent].index(TOPOLOGIES.parent[5].tobytes())
    assert smoothed[found.group == place].sum() == pytest.approx(of_fifth)


def test_no_more_trees_join_than_the_share_is_worth():
    """As if the share's error were that of independent trees, some of which are outside."""
    random = np.random.default_rng(3)
    trees = chains(random.integers(3, 6, (10, 100)))
    inside = draws(random.normal(LOG_EVIDENCE, 0.1, 3000), annealed=False)
    share, error = 0.2, 0.02
    found = with_outside(inside, trees, np.ones(1000, np.bool_), Measured(share, error))
    worth = share * (1 - share) / error**2
    assert (~found.is_from_q).sum() == round(share * worth) == 80
    assert len(np.unique((found.log_joint[3000:] + 60) // 100)) == 10  # from every chain
    estimates = found.topology_estimates()
    outside = [
        row.tobytes() not in {r.tobytes() for r in inside.topologies.parent}
        for row in estimates.trees.topologies.parent
    ]
    p = estimates.trees.weights[outside]
    np.testing.assert_allclose(estimates.error[outside], np.sqrt(p * (1 - p) / worth), rtol=0.1)
    assert (estimates.log_evidence_error[outside] > 0.1).all()


def test_own_draws_are_those_from_q_as_they_were():
    inside = draws(np.random.default_rng(4).normal(LOG_EVIDENCE, 0.1, 30), annealed=False)
    assert inside.own is inside
    trees = chains(np.full((2, 5), 7))
    found = with_outside(inside, trees, np.ones(10, np.bool_), Measured(0.1, 0.0)).own
    np.testing.assert_array_equal(found.log_weights, inside.log_weights)
    np.testing.assert_array_equal(found.group, inside.group)
    np.testing.assert_array_equal(found.topologies.parent, inside.topologies.parent)
    np.testing.assert_array_equal(found.branch_lengths, inside.branch_lengths)


def test_the_marginal_likelihood_counts_both_parts_and_their_errors():
    found = of_both_parts(Estimated(-50.0, 0.03), Measured(0.2, 0.032))
    assert found.mean == pytest.approx(-50 - math.log(0.8))
    assert found.std == pytest.approx(0.05)
    assert of_both_parts(Estimated(-50.0, None), Measured(0.2, 0.032)).std is None


def test_little_is_not_added_nor_what_may_be_nothing_nor_more_than_half():
    assert is_added(Measured(0.1, 0.01))
    assert is_added(Measured(MOST_ADDED, 0.01))
    assert not is_added(Measured(MOST_ADDED + 0.01, 0.01))
    assert not is_added(Measured(0.9 * LEAST_ADDED, 0.0))
    assert not is_added(Measured(0.1, 0.035))
