"""Chains have the posterior: on few sites it is known by weighting draws of the prior."""

import numpy as np
import pytest
import torch
from scipy import stats

from phloem.data.alignment import Alignment
from phloem.errors import BadArgument
from phloem.inference.chains import ChainStarts, ChainTrees, covariance_factor, run_chains, starts_from
from phloem.inference.draws import Draws
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies
from phloem.trees.topology import TopologyBatch, TopologyIndex
from phloem.variational.families import Lognormal
from support.known_posteriors import known
from support.small_posteriors import no_parameters
from support.weighted_priors import (
    FROM_EQUAL,
    GAMMA_DIRICHLET,
    INFERRED,
    MODELS,
    PARTS,
    PARTS_INFERRED,
    RATE,
    UNIFORM,
    Known,
    known_posterior,
    target_of,
)

STREAM = RandomStream(3, "chains")
CHAINS = 3000


def starts_at(topologies: TopologyBatch, lengths: np.ndarray, distinct: int) -> ChainStarts:
    """Where all parameters of the model are fixed."""
    return ChainStarts(topologies, lengths, distinct, no_parameters(len(topologies)), no_parameters(0))


def starts_in(posterior: Known, count: int) -> ChainStarts:
    """Trees of the posterior."""
    chosen = np.random.default_rng(9).choice(len(posterior.weights), count, p=posterior.weights)
    starts = starts_at(posterior.topologies[posterior.number[chosen]], posterior.lengths[chosen], count)
    factor = covariance_factor(posterior.theta, posterior.weights)
    return starts._replace(theta=posterior.theta[chosen], factor=factor)


def check(posterior: Known, trees: ChainTrees) -> None:
    """Whether independent chains' last trees are from the posterior: topologies, branches' lengths, parameters."""
    last = trees.by_chain[:, -1]
    number = posterior.index.find(trees.topologies[last])
    probabilities = np.bincount(posterior.number, posterior.weights, minlength=len(posterior.topologies))
    expected, noise = len(last) * probabilities, 1 + len(last) / posterior.worth
    surplus = (np.bincount(number, minlength=len(expected)) - expected) ** 2 / expected / noise
    assert stats.chi2.sf(surplus.sum(), len(expected) - 1) > 1e-3
    mine = np.hstack([trees.branch_lengths[last], trees.theta[last]])
    theirs = np.hstack([posterior.lengths, posterior.theta])
    for power in (0.5, 1.0):
        mean, variance = posterior.mean(np.abs(theirs) ** power)
        error = np.sqrt(variance * (1 / len(last) + 1 / posterior.worth))
        assert (np.abs((np.abs(mine) ** power).mean(axis=0) - mean) < 4 * error).all()
    mean, variance = posterior.mean(posterior.theta)
    error = np.sqrt(variance * (1 / len(last) + 1 / posterior.worth))
    assert (np.abs(trees.theta[last].mean(axis=0) - mean) < 4 * error).all()


@pytest.mark.parametrize(
    ("model", "taxa"),
    [
        *((model, taxa) for model in MODELS for taxa in (4, 5, 6)),
        *((model, 5) for model in (INFERRED, FROM_EQUAL, GAMMA_DIRICHLET, UNIFORM, PARTS, PARTS_INFERRED)),
    ],
)
def test_a_round_leaves_the_posterior_as_it_is(model, taxa):
    posterior = known_posterior(model, taxa, 6)
    starts = starts_in(posterior, CHAINS)
    trees = run_chains(posterior.target, tuple("abcdef"[:taxa]), starts, 1, stream=STREAM)
    assert trees.rounds == 1
    assert (trees.topologies.parent != starts.topologies.parent).any(axis=1).mean() > 0.3
    check(posterior, trees)


@pytest.mark.parametrize("model", [*MODELS, INFERRED, FROM_EQUAL, GAMMA_DIRICHLET, UNIFORM, PARTS, PARTS_INFERRED])
def test_chains_find_the_posterior_from_anywhere(model):
    posterior = known_posterior(model, 5, 6)
    chains, rounds = (800, 160) if model == PARTS_INFERRED else (CHAINS, 40)  # ten parameters take longer
    one = TopologyBatch.concatenate([posterior.topologies[:1]] * chains)
    starts = starts_in(posterior, chains)._replace(
        topologies=one,
        branch_lengths=np.full((chains, 7), 0.1 if model == UNIFORM else 1.0),
        theta=np.zeros((chains, posterior.target.dimension)),
    )
    check(posterior, run_chains(posterior.target, tuple("abcde"), starts, rounds, stream=STREAM))


def test_without_data_chains_have_the_prior():
    alignment = Alignment.from_sequences("abcdef", ["NN"] * 6)
    target, index = target_of(alignment, "JC"), TopologyIndex(all_topologies(6))
    starts = starts_at(TopologyBatch.concatenate([all_topologies(6)[:1]] * CHAINS), np.full((CHAINS, 9), 0.1), 1)
    trees = run_chains(target, tuple("abcdef"), starts, 40, stream=STREAM)
    last = trees.by_chain[:, -1]
    found = np.bincount(index.find(trees.topologies[last]), minlength=105)
    assert stats.chisquare(found).pvalue > 1e-3
    for branch in range(9):
        assert stats.kstest(trees.branch_lengths[last, branch], stats.expon(scale=1 / RATE).cdf).pvalue > 1e-4


@pytest.mark.parametrize("model", ["JC", PARTS_INFERRED])
def test_equal_streams_give_equal_trees_on_any_number_of_threads(model):
    posterior = known_posterior(model, 5, 6)
    reports: list[float] = []
    runs = [
        run_chains(
            posterior.target,
            tuple("abcde"),
            starts_in(posterior, 5),
            30,
            stream=stream,
            threads=threads,
            progress=reports.append,
        )
        for stream, threads in ((STREAM, 1), (STREAM, 2), (RandomStream(4, "chains"), 1))
    ]
    one, two, other = runs
    np.testing.assert_array_equal(one.topologies.parent, two.topologies.parent)
    np.testing.assert_array_equal(one.branch_lengths, two.branch_lengths)
    np.testing.assert_array_equal(one.theta, two.theta)
    assert (one.branch_lengths != other.branch_lengths).any()
    third = len(reports) // 3
    assert reports[:third] == sorted(reports[:third])
    assert reports[third - 1] == 1.0


@pytest.mark.parametrize("model", ["JC", INFERRED, PARTS, PARTS_INFERRED])
def test_a_chain_does_not_depend_on_the_others(model):
    posterior = known_posterior(model, 5, 6)
    starts = starts_in(posterior, 40)
    few = ChainStarts(starts.topologies[:2], starts.branch_lengths[:2], 2, starts.theta[:2], starts.factor)
    many, two = (run_chains(posterior.target, tuple("abcde"), own, 40, stream=STREAM) for own in (starts, few))
    assert many.by_chain.shape == (40, 30)
    np.testing.assert_array_equal(many.branch_lengths[many.by_chain[:2]], two.branch_lengths[two.by_chain])
    np.testing.assert_array_equal(many.theta[many.by_chain[:2]], two.theta[two.by_chain])


def test_what_is_said_of_trees_is_true(monkeypatch):
    posterior = known_posterior("GTR+I+G", 6, 6)
    trees = run_chains(posterior.target, tuple("abcdef"), starts_in(posterior, 3), 40, stream=STREAM)
    assert (trees.chains, trees.rounds, trees.every, len(trees)) == (3, 40, 1, 90)
    with torch.no_grad():
        again = posterior.target.log_joint(trees.topologies, torch.from_numpy(trees.branch_lengths)).numpy()
    np.testing.assert_allclose(trees.log_joint, again, rtol=1e-12)
    assert 0 < trees.interchanges < 6
    assert 0 < trees.regrafts < 1
    sample = trees.sample()
    assert len(sample) == 90
    np.testing.assert_allclose(sample.weights, 1 / 90)
    monkeypatch.setattr("phloem.inference.chains.MOST_NODES", 10 * 3 * 9)
    fewer = run_chains(posterior.target, tuple("abcdef"), starts_in(posterior, 3), 40, stream=STREAM)
    assert (fewer.every, len(fewer)) == (4, 21)
    np.testing.assert_array_equal(fewer.topologies.parent[0], trees.topologies.parent[3])
    np.testing.assert_allclose(fewer.branch_lengths[0], trees.branch_lengths[3], rtol=1e-5)


def test_starts_are_draws_by_their_weights():
    topologies = all_topologies(5)[:3]
    group = np.array([0, 1, 2, 1, 0], np.int32)
    log_joint = np.log([0.1, 0.2, 0.3, 0.2, 0.2])
    lengths = np.arange(5.0, dtype=np.float32)[:, None] * np.ones((5, 7), np.float32)
    draws = Draws(tuple("abcde"), topologies, group, lengths, log_joint, np.zeros(5), np.zeros(5))
    starts = starts_from(draws, 1000, stream=STREAM)
    times = np.bincount(starts.branch_lengths[:, 0].astype(int))
    np.testing.assert_allclose(times, [100, 200, 300, 200, 200], atol=1)
    assert starts.distinct == 5
    with pytest.raises(BadArgument, match="--chains 1: ask for two or more"):
        starts_from(draws, 1, stream=STREAM)
    first = starts.branch_lengths[:, 0].astype(int)
    assert starts.topologies.equal(topologies[group[first]]).all()


def test_what_chains_cannot_do_is_a_line():
    posterior = known_posterior("JC", 5, 6)
    with pytest.raises(BadArgument, match="0 rounds: ask for at least one"):
        run_chains(posterior.target, tuple("abcde"), starts_in(posterior, 2), 0, stream=STREAM)
    _, own_prior = known(5, Lognormal)
    with pytest.raises(BadArgument, match="phloem's own priors on lengths"):
        run_chains(own_prior, tuple("abcde"), starts_in(posterior, 2), 1, stream=STREAM)
