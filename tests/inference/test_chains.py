"""Chains have the posterior: on few sites it is known by weighting draws of the prior."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from phloem.config import ModelConfig
from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.errors import BadArgument
from phloem.inference.chains import ChainStarts, ChainTrees, covariance_factor, run_chains, starts_from
from phloem.inference.draws import Draws
from phloem.random_streams import RandomStream
from phloem.target.free_parameters import FreeParameters
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.target.priors import GammaDirichletPrior, LengthPrior, TreePrior, UniformPrior
from phloem.target.substitution import SiteRates, build_model, gtr, jc69
from phloem.trees.generation import all_topologies
from phloem.trees.topology import TopologyBatch, TopologyIndex
from phloem.variational.families import Lognormal
from support.known_posteriors import known
from support.small_posteriors import evolved, no_parameters

STREAM = RandomStream(3, "chains")
RATE = 10.0
MODELS = {
    "JC": jc69(),
    "GTR+I+G": gtr([1, 3, 0.5, 0.7, 4, 1], [0.3, 0.2, 0.15, 0.35], SiteRates(shape=0.6, invariant=0.2)),
}
INFERRED = "HKY+G2, inferred"
GAMMA_DIRICHLET, UNIFORM = "JC, gamma-Dirichlet", "JC, uniform"
PRIORS = {GAMMA_DIRICHLET: GammaDirichletPrior(2.0, 2.0), UNIFORM: UniformPrior(0.2)}
CHAINS = 3000


def target_of(alignment: Alignment, model: str) -> TreePosterior:
    patterns, prior = compress(alignment), PRIORS.get(model, TreePrior(RATE))
    if model != INFERRED:
        return TreePosterior(TreeLikelihood(patterns, MODELS.get(model, jc69()), threads=1), prior)
    config = ModelConfig("HKY+G2")
    fixed = build_model(config, patterns)
    likelihood = TreeLikelihood(patterns, fixed, threads=1, states_differ=True)
    return TreePosterior(likelihood, prior, FreeParameters.of(config, fixed))


def draw_lengths(random: np.random.Generator, prior: LengthPrior, count: int, branches: int) -> np.ndarray:
    """From a prior."""
    if isinstance(prior, GammaDirichletPrior):
        total = random.gamma(prior.shape, 1 / prior.rate, (count, 1))
        return total * random.dirichlet(np.ones(branches), count)
    if isinstance(prior, UniformPrior):
        return random.uniform(0, prior.longest, (count, branches))
    return random.exponential(1 / RATE, (count, branches))


def draw_theta(random: np.random.Generator, target: TreePosterior, count: int) -> np.ndarray:
    """Coordinates of κ, frequencies and shape from their priors, if they are inferred."""
    if target.parameters is None:
        return no_parameters(count)
    share, frequencies = random.random((count, 1)), random.dirichlet(np.ones(4), count)
    log_ratios = np.log(frequencies[:, :3] / frequencies[:, 3:])
    return np.hstack([np.log(share / (1 - share)), log_ratios, np.log(random.exponential(1, (count, 1)))])


def starts_at(topologies: TopologyBatch, lengths: np.ndarray, distinct: int) -> ChainStarts:
    """Where all parameters of the model are fixed."""
    return ChainStarts(topologies, lengths, distinct, no_parameters(len(topologies)), no_parameters(0))


class Known:
    """A posterior by weighted draws of the prior."""

    def __init__(self, model: str, taxa: int, sites: int) -> None:
        self.target = target_of(evolved(taxa, sites, seed=5), model)
        self.topologies = all_topologies(taxa)
        self.index = TopologyIndex(self.topologies)
        random = np.random.default_rng(8)
        count = 200_000
        self.number = random.integers(0, len(self.topologies), count)
        prior = self.target.prior
        assert isinstance(prior, LengthPrior)
        self.lengths = draw_lengths(random, prior, count, 2 * taxa - 3)
        self.theta = draw_theta(random, self.target, count)
        topologies, theta = self.topologies[self.number], torch.from_numpy(self.theta)
        with torch.no_grad():
            log_weights = self.target.log_likelihood(topologies, torch.from_numpy(self.lengths), theta).numpy()
        self.weights = np.exp(log_weights - log_weights.max())
        self.weights /= self.weights.sum()
        assert 1 / (self.weights**2).sum() > 5000

    def starts(self, count: int) -> ChainStarts:
        """Trees of the posterior."""
        chosen = np.random.default_rng(9).choice(len(self.weights), count, p=self.weights)
        starts = starts_at(self.topologies[self.number[chosen]], self.lengths[chosen], count)
        return starts._replace(theta=self.theta[chosen], factor=covariance_factor(self.theta, self.weights))

    def check(self, trees: ChainTrees) -> None:
        """Whether independent chains' last trees are from the posterior: topologies, and every branch's length."""
        last = trees.by_chain[:, -1]
        number = self.index.find(trees.topologies[last])
        probabilities = np.bincount(self.number, self.weights, minlength=len(self.topologies))
        worth = 1 / (self.weights**2).sum()
        expected = len(last) * probabilities
        surplus = (np.bincount(number, minlength=len(expected)) - expected) ** 2 / expected / (1 + len(last) / worth)
        assert stats.chi2.sf(surplus.sum(), len(expected) - 1) > 1e-3
        columns = [
            (trees.branch_lengths[last, branch] ** power, self.lengths[:, branch] ** power)
            for branch in range(self.lengths.shape[1])
            for power in (0.5, 1.0)
        ]
        columns += zip(trees.theta[last].T, self.theta.T, strict=True)
        columns += zip(np.abs(trees.theta[last]).T, np.abs(self.theta).T, strict=True)
        for mine, theirs in columns:
            mean = self.weights @ theirs
            variance = self.weights @ (theirs - mean) ** 2
            error = math.sqrt(variance * (1 / len(last) + 1 / worth))
            assert abs(mine.mean() - mean) < 4 * error


@cache
def known_posterior(model: str, taxa: int, sites: int) -> Known:
    return Known(model, taxa, sites)


@pytest.mark.parametrize(
    ("model", "taxa"),
    [
        *((model, taxa) for model in MODELS for taxa in (4, 5, 6)),
        *((model, 5) for model in (INFERRED, GAMMA_DIRICHLET, UNIFORM)),
    ],
)
def test_a_round_leaves_the_posterior_as_it_is(model, taxa):
    posterior = known_posterior(model, taxa, 6)
    starts = posterior.starts(CHAINS)
    trees = run_chains(posterior.target, tuple("abcdef"[:taxa]), starts, 1, stream=STREAM)
    assert trees.rounds == 1
    assert (trees.topologies.parent != starts.topologies.parent).any(axis=1).mean() > 0.3
    posterior.check(trees)


@pytest.mark.parametrize("model", [*MODELS, INFERRED, GAMMA_DIRICHLET, UNIFORM])
def test_chains_find_the_posterior_from_anywhere(model):
    posterior = known_posterior(model, 5, 6)
    one = TopologyBatch.concatenate([posterior.topologies[:1]] * CHAINS)
    starts = posterior.starts(CHAINS)._replace(
        topologies=one,
        branch_lengths=np.full((CHAINS, 7), 0.1 if model == UNIFORM else 1.0),
        theta=np.zeros((CHAINS, posterior.target.dimension)),
    )
    posterior.check(run_chains(posterior.target, tuple("abcde"), starts, 40, stream=STREAM))


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


def test_equal_streams_give_equal_trees_on_any_number_of_threads():
    posterior = known_posterior("JC", 6, 6)
    reports: list[float] = []
    runs = [
        run_chains(
            posterior.target,
            tuple("abcdef"),
            posterior.starts(5),
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
    assert (one.branch_lengths != other.branch_lengths).any()
    third = len(reports) // 3
    assert reports[:third] == sorted(reports[:third])
    assert reports[third - 1] == 1.0


def test_a_chain_does_not_depend_on_the_others():
    posterior = known_posterior("JC", 6, 6)
    starts = posterior.starts(4)
    few = starts_at(starts.topologies[:2], starts.branch_lengths[:2], 2)
    four, two = (run_chains(posterior.target, tuple("abcdef"), own, 8, stream=STREAM) for own in (starts, few))
    assert four.by_chain.shape == (4, 6)
    np.testing.assert_array_equal(four.branch_lengths[four.by_chain[:2]], two.branch_lengths[two.by_chain])


def test_what_is_said_of_trees_is_true(monkeypatch):
    posterior = known_posterior("GTR+I+G", 6, 6)
    trees = run_chains(posterior.target, tuple("abcdef"), posterior.starts(3), 40, stream=STREAM)
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
    fewer = run_chains(posterior.target, tuple("abcdef"), posterior.starts(3), 40, stream=STREAM)
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
        run_chains(posterior.target, tuple("abcde"), posterior.starts(2), 0, stream=STREAM)
    _, own_prior = known(5, Lognormal)
    with pytest.raises(BadArgument, match="phloem's own priors on lengths"):
        run_chains(own_prior, tuple("abcde"), posterior.starts(2), 1, stream=STREAM)
