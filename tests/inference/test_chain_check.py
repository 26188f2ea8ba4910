"""Chains tell what a run lacks, and are silent of a run that lacks nothing."""

import math

import numpy as np
import pytest

from phloem.inference.chain_check import ERRORS, ChainCheck, check_run
from phloem.inference.chains import ChainTrees
from phloem.inference.convergence import chain_splits
from phloem.trees.generation import all_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitFrequencies, split_frequencies
from phloem.variational.sbn import SubsplitNetwork, support_of
from support.small_posteriors import no_parameters

TAXA = tuple("abcde")
TOPOLOGIES = all_topologies(5)
PROBABILITIES = np.random.default_rng(1).dirichlet(np.ones(15))
EVERYTHING = SubsplitNetwork(support_of(TAXA, TOPOLOGIES))
CHAINS, KEPT = 100, 75


def clades_of(probabilities: np.ndarray) -> SplitFrequencies:
    return split_frequencies(TreeSample(TAXA, TOPOLOGIES, probabilities / probabilities.sum(), None))


def check(
    number: np.ndarray, starts: np.ndarray, probabilities: np.ndarray = PROBABILITIES, networks=(EVERYTHING,)
) -> ChainCheck:
    """Of chains with these topologies, from these, and a run with these probabilities."""
    chains, kept = number.shape
    lengths = np.full((number.size, 7), 0.1)
    counts = (chains, kept, 1, chains, 1.0, 0.1)
    trees = ChainTrees(
        TAXA, TOPOLOGIES[number.ravel()], lengths, np.zeros(number.size), *counts, no_parameters(number.size)
    )
    return check_run(trees, chain_splits(trees), TOPOLOGIES[starts], list(networks), clades_of(probabilities))


def walk(random: np.random.Generator, starts: np.ndarray, probabilities: np.ndarray, rate: float) -> np.ndarray:
    """Chains that draw a new topology now and then."""
    number = np.empty((len(starts), KEPT), np.int64)
    state = starts.copy()
    for round_ in range(KEPT):
        is_new = random.random(len(starts)) < rate
        state[is_new] = random.choice(15, int(is_new.sum()), p=probabilities)
        number[:, round_] = state
    return number


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.1, 1.0])
def test_a_run_that_is_right_is_within_errors_however_fast_chains_are(rate):
    beyond, shares = [], []
    for seed in range(60):
        random = np.random.default_rng(seed)
        starts = random.choice(15, CHAINS, p=PROBABILITIES)
        found = check(walk(random, starts, PROBABILITIES, rate), starts)
        beyond.append(found.difference.beyond_errors)
        shares.append(found.difference.value / (found.difference.chains.error or 1.0))
        assert found.outside == (0, 0)
    assert np.mean(np.array(beyond) > 0.005) <= 0.05
    if rate == 0:  # chains that stay say nothing of a run, and do not pretend to
        assert max(beyond) == 0
    else:
        assert 0.5 < np.median(shares) < ERRORS


def test_slow_chains_make_less_noise_than_their_starts():
    exact = clades_of(PROBABILITIES).frequencies
    by_starts, plain = [], []
    for seed in range(20):
        random = np.random.default_rng(seed)
        starts = random.choice(15, CHAINS, p=PROBABILITIES)
        number = walk(random, starts, PROBABILITIES, 0.001)
        by_starts.append(check(number, starts).difference.value)
        seen = clades_of(np.bincount(number.ravel(), minlength=15) + 1e-9)  # all clades, and in the same order
        plain.append(np.abs(np.sort(seen.frequencies) - np.sort(exact)).max())
    assert np.mean(by_starts) < 0.6 * np.mean(plain)


@pytest.mark.parametrize("rate", [0.03, 0.3])
def test_a_run_that_is_off_is_found_out(rate):
    random = np.random.default_rng(4)
    wrong = np.where(np.arange(15) == np.argmax(PROBABILITIES), PROBABILITIES + 0.4, PROBABILITIES)
    wrong /= wrong.sum()
    starts = random.choice(15, CHAINS, p=wrong)
    found = check(walk(random, starts, PROBABILITIES, rate), starts, wrong).difference
    mistake = np.abs(clades_of(wrong).frequencies - clades_of(PROBABILITIES).frequencies)
    assert found.beyond_errors > 0.02
    assert found.value == pytest.approx(abs(found.run - found.chains.value))
    assert 0.5 * mistake.max() < found.value < mistake.max() + 0.25


def test_a_clade_that_chains_never_have_and_one_that_the_run_never_has():
    starts = np.repeat([0, 1], 50)
    run = np.array([0.5, 0.5, *[0.0] * 13])
    gone = check(np.repeat(np.full((100, 1), 1), KEPT, axis=1), starts, run)
    assert gone.difference.value == pytest.approx(0.5)
    assert gone.difference.beyond_errors == pytest.approx(0.5)
    new = check(np.repeat(np.full((100, 1), 7), KEPT, axis=1), starts, run)
    assert {new.difference.run, new.difference.chains.value} <= {0.0, 0.5, 1.0}
    assert new.difference.beyond_errors >= 0.5


def test_what_no_network_can_generate_is_outside():
    random = np.random.default_rng(8)
    number = random.choice(15, (CHAINS, KEPT), p=PROBABILITIES)
    support = support_of(TAXA, TOPOLOGIES[:6])
    found = check(number, number[:, 0], networks=[SubsplitNetwork(support)])
    share = (~support.generates(TOPOLOGIES))[number].mean()
    assert 0.1 < share < 0.99
    assert found.outside.value == pytest.approx(share)
    assert found.outside.error == pytest.approx(math.sqrt(share * (1 - share) / number.size), rel=0.5)
    assert found.outside_beyond_errors == pytest.approx(share - ERRORS * found.outside.error)
    other = SubsplitNetwork(support_of(TAXA, TOPOLOGIES[6:]))
    assert check(number, number[:, 0], networks=[SubsplitNetwork(support), other]).outside.value < share
