"""What is said of chains is true of chains whose trees were drawn independently, or were not."""

import math

import numpy as np
import pytest

from phloem.inference.chain_check import check_run
from phloem.inference.chain_posterior import ChainPosterior
from phloem.inference.chains import ChainTrees
from phloem.inference.convergence import chain_splits, convergence
from phloem.inference.trust import judge_chains
from phloem.trees.generation import all_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitFrequencies, split_frequencies
from phloem.variational.sbn import SubsplitNetwork, support_of
from support.small_posteriors import no_parameters

TAXA = tuple("abcde")
TOPOLOGIES = all_topologies(5)
PROBABILITIES = np.random.default_rng(1).dirichlet(np.ones(15))
EXACT = split_frequencies(TreeSample(TAXA, TOPOLOGIES, PROBABILITIES, None))
CHAINS, KEPT = 80, 100


def chains_of(number: np.ndarray, log_joint: np.ndarray | None = None, *, chains: int = CHAINS) -> ChainTrees:
    random = np.random.default_rng(2)
    lengths = random.exponential(0.1, (number.size, 7))
    values = random.normal(size=number.size) if log_joint is None else log_joint.ravel()
    counts = (chains, 4 * KEPT // 3, 1, chains, 1.0, 0.1)
    return ChainTrees(TAXA, TOPOLOGIES[number.ravel()], lengths, values, *counts, no_parameters(number.size))


def independent(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).choice(15, (CHAINS, KEPT), p=PROBABILITIES)


def converged(trees: ChainTrees):
    return convergence(trees, chain_splits(trees))


def posterior_by(trees: ChainTrees, clades: SplitFrequencies) -> ChainPosterior:
    splits = chain_splits(trees)
    network = SubsplitNetwork(support_of(TAXA, TOPOLOGIES))
    check = check_run(trees, splits, trees.topologies[trees.by_chain[:, 0]], [network], clades)
    return ChainPosterior(trees, splits, convergence(trees, splits), check)


def test_frequencies_of_splits_are_those_of_all_trees_and_their_errors_cover_the_truth():
    truth = {row.tobytes(): share for row, share in zip(EXACT.members, EXACT.frequencies, strict=True)}
    deviations = []
    for seed in range(40):
        trees = chains_of(independent(seed))
        splits = chain_splits(trees)
        plain = split_frequencies(trees.sample())
        np.testing.assert_allclose(splits.frequencies.frequencies, plain.frequencies, atol=1e-12)
        for row, share, error in zip(
            splits.frequencies.members, splits.frequencies.frequencies, splits.errors, strict=True
        ):
            deviations.append((share - truth[row.tobytes()]) / error)
    assert 0.85 < math.sqrt(np.mean(np.square(deviations))) < 1.2


def test_independent_trees_agree_and_are_worth_as_many_as_they_are():
    found = converged(chains_of(independent(3)))
    assert found.shrink < 1.002
    assert max(found.groups.average, found.halves.average) < 0.01
    assert 0.3 * CHAINS * KEPT < found.effective <= CHAINS * KEPT
    assert found.largest_error < 2.5 * math.sqrt(0.25 / (CHAINS * KEPT))
    assert judge_chains(found, CHAINS, 133).level == "good"


def test_chains_that_stay_where_they_are_are_worth_one_tree_each():
    start = np.random.default_rng(5).choice(15, CHAINS, p=PROBABILITIES)
    found = converged(chains_of(np.repeat(start[:, None], KEPT, axis=1)))
    assert 0.25 * CHAINS < found.effective < 1.5 * CHAINS
    assert found.groups.average > 0.01
    assert found.halves.average == 0
    trust = judge_chains(found, CHAINS, 133)
    assert trust.level == "do not trust"
    assert "--chains 160" in trust.advice


def test_chains_that_are_on_the_way_are_too_short():
    number = independent(6)
    number[:, : KEPT // 2] = 0
    trust = judge_chains(converged(chains_of(number)), CHAINS, 133)
    assert trust.level == "do not trust"
    assert "--rounds 266" in trust.advice
    log_joint = np.random.default_rng(7).normal(size=(CHAINS, KEPT))
    log_joint[:, : KEPT // 2] -= 0.5
    found = converged(chains_of(independent(6), log_joint))
    assert found.shrink == pytest.approx(math.sqrt(1 + 8 / 7 * 0.25**2), abs=0.01)
    assert "--rounds 266" in judge_chains(found, CHAINS, 133).advice


def test_a_run_that_is_off_is_called_so():
    trees = chains_of(independent(9))
    wrong = SplitFrequencies(TAXA, EXACT.members, np.zeros(len(EXACT.members)))
    said = posterior_by(trees, wrong)
    assert said.is_run_off
    assert "misses part of the posterior" in str(said)
    right = posterior_by(trees, EXACT)
    assert not right.is_run_off
    assert "misses" not in str(right)
    assert all(len(line) <= 80 for line in right.describe())


def test_few_chains_and_few_trees():
    for chains, kept in ((1, 30), (3, 1), (2, 2)):
        number = np.random.default_rng(1).choice(15, (chains, kept), p=PROBABILITIES)
        trees = chains_of(number, chains=chains)
        found = converged(trees)
        assert found.shrink >= 1
        assert 0 < found.effective <= chains * kept
        assert str(posterior_by(trees, EXACT))


def test_trees_of_a_sample_are_evenly_spaced():
    trees = chains_of(independent(4))
    posterior = posterior_by(trees, EXACT)
    assert posterior.chosen(4).tolist() == [0, 2000, 4000, 6000]
    assert len(posterior.sample()) == 1000
    np.testing.assert_array_equal(posterior.sample(80).topologies.parent, trees.topologies[::100].parent)
    with pytest.raises(Exception, match="the chains have 8,000 trees"):
        posterior.sample(8001)
