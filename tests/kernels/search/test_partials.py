"""Partials of one tree against the likelihood engine, in single precision, and passes that fit all branch lengths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phloem.data.patterns import compress
from phloem.random_streams import RandomStream
from phloem.search.surface import SearchTree, Surface
from phloem.target.estimation import optimize_branch_lengths
from phloem.target.likelihood import TreeLikelihood
from phloem.trees.generation import random_topologies
from phloem.trees.topology import TopologyBatch
from support.search_cases import (
    MODELS,
    evolved,
    log_likelihood,
    pattern_log_likelihoods,
    placed,
    random_lengths,
    random_patterns,
)
from support.strategies import topology_batches

# Of log-likelihoods: what rounding in single precision does to a pattern, and to the tree.
OF_PATTERN, OF_TREE = 1e-5, 1e-6


def caterpillar(taxa: int) -> TopologyBatch:
    """Taxa 0 and 1 at one end, and the others along the tree in order."""
    parent = np.empty(2 * taxa - 2, np.int32)
    parent[:2] = taxa
    parent[2:taxa] = np.minimum(np.arange(taxa + 1, 2 * taxa - 1), 2 * taxa - 3)
    parent[taxa:] = np.arange(taxa + 1, 2 * taxa - 1)
    parent[-1] = -1
    return TopologyBatch.from_parents(parent[None])


@given(topology_batches(least=3, most=20, trees=1), st.integers(0, 2**32), st.sampled_from(sorted(MODELS)))
@settings(max_examples=40)
def test_a_placed_tree_has_the_likelihood_of_the_engine(topology, seed, name):
    surface = Surface(random_patterns(topology.taxon_count, 50, seed, "ACGTACGTRYKMSWBDHVN-"), MODELS[name])
    lengths = random_lengths(topology, seed)
    tree = placed(surface, topology, lengths)
    expected = pattern_log_likelihoods(surface, topology, lengths)
    np.testing.assert_allclose(tree.sites[: len(expected)], expected, rtol=OF_PATTERN, atol=OF_PATTERN)
    value = tree.smooth(0, 1.0)
    assert value == pytest.approx(log_likelihood(surface, topology, lengths), rel=OF_TREE)
    assert tree.sites @ surface.tables.weights.ravel() == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [1e-8, 1e-4, 2.0])
@pytest.mark.parametrize("shape", ["caterpillar", "random"])
def test_three_hundred_taxa_neither_underflow_nor_lose_digits(name, length, shape):
    taxa = 300
    topology = caterpillar(taxa) if shape == "caterpillar" else random_topologies(taxa, 1, stream=RandomStream(1, "x"))
    surface = Surface(random_patterns(taxa, 40, 5, "ACGT-"), MODELS[name])
    lengths = np.full(topology.branch_count, length)
    tree = placed(surface, topology, lengths)
    expected = pattern_log_likelihoods(surface, topology, lengths)
    np.testing.assert_allclose(tree.sites[: len(expected)], expected, rtol=OF_PATTERN, atol=OF_PATTERN)
    if length == 1e-8:
        assert expected.min() < -1000  # far outside the range of numbers


@pytest.mark.parametrize("name", MODELS)
def test_hundreds_of_rescaled_taxa_score_their_interchanges(name):
    """Interchanges join partials of both sides: all their counts of rescalings must be right."""
    topology = caterpillar(200)
    surface = Surface(random_patterns(200, 30, 6), MODELS[name])
    lengths = np.full(topology.branch_count, 1e-5)
    tree = placed(surface, topology, lengths)
    branches = tree.inner_branches[::40]
    scored = tree.score(branches, least=np.inf, tolerance=1e-3)
    for place, move in enumerate(scored.moves.tolist()):
        tree.place(topology, lengths)
        tree.interchange(move, scored.lengths[place])
        assert scored.log_likelihoods[place] == pytest.approx(log_likelihood(surface, *tree.current()), rel=OF_TREE)


def optimum(surface, topology, start=None):
    likelihood = TreeLikelihood(surface.patterns, surface.model, threads=1)
    return optimize_branch_lengths(likelihood, topology, start, tolerance=1e-8).log_likelihoods[0]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("length", [1e-8, 0.1, 1.0])
def test_it_reaches_what_all_lengths_at_once_reach(name, seed, length):
    alignment, topology = evolved(9, 150, seed, MODELS[name])
    surface = Surface(compress(alignment), MODELS[name])
    tree = SearchTree(surface)
    tree.place(topology, np.full(topology.branch_count, length))
    assert tree.smooth(200, 1e-6) == pytest.approx(optimum(surface, topology), abs=1e-3)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [20.0, 100.0])
def test_a_branch_that_is_much_too_long_comes_back(name, length):
    alignment, topology = evolved(7, 150, 5, MODELS[name])
    surface = Surface(compress(alignment), MODELS[name])
    best = optimum(surface, topology)
    tree = SearchTree(surface)
    for branch in range(topology.branch_count):
        lengths = np.full(topology.branch_count, 0.1)
        lengths[branch] = length
        tree.place(topology, lengths)
        assert tree.smooth(50, 1e-4) > best - 0.01


@given(topology_batches(least=3, most=15, trees=1), st.integers(0, 2**32), st.sampled_from(sorted(MODELS)))
@settings(max_examples=25)
def test_passes_never_go_down_and_say_what_they_reached(topology, seed, name):
    surface = Surface(random_patterns(topology.taxon_count, 40, seed, "ACGTACGTRYN-"), MODELS[name])
    tree = placed(surface, topology, random_lengths(topology, seed))
    value = tree.smooth(0, 1.0)
    for _ in range(6):
        following = tree.smooth(1, 1e-4)
        assert following > value - 1e-4
        value = following
        assert value == pytest.approx(log_likelihood(surface, *tree.current()), rel=OF_TREE)
        assert tree.sites @ surface.tables.weights.ravel() == pytest.approx(value, rel=1e-11)


def test_it_ends_early_where_a_pass_gains_little():
    alignment, topology = evolved(10, 200, 4)
    surface = Surface(compress(alignment), MODELS["JC"])
    rough, fine = SearchTree(surface), SearchTree(surface)
    for tree in (rough, fine):
        tree.place(topology, np.full(topology.branch_count, 0.1))
    one = rough.smooth(1, 1e9)
    rough.place(topology, np.full(topology.branch_count, 0.1))
    assert rough.smooth(100, 1e9) == one
    assert fine.smooth(100, 1e-6) > one


def test_a_tree_of_three_taxa_has_its_star():
    surface = Surface(random_patterns(3, 60, 2, "AAAACGT"), MODELS["HKY"])
    topology = evolved(3, 10, 1)[1]
    tree = SearchTree(surface)
    tree.place(topology, np.full(3, 0.1))
    assert tree.smooth(200, 1e-7) == pytest.approx(optimum(surface, topology), abs=1e-3)


def test_room_that_had_another_tree_gives_the_same():
    surface = Surface(random_patterns(12, 70, 3), MODELS["GTR+G4"])
    first, second = (evolved(12, 10, seed)[1] for seed in (1, 2))
    lengths = np.full(first.branch_count, 0.1)
    used, fresh = SearchTree(surface), SearchTree(surface)
    used.place(first, lengths)
    used.smooth(3, 1e-3)
    used.score(used.inner_branches, least=-np.inf, tolerance=1e-3)
    for tree in (used, fresh):
        tree.place(second, lengths)
    assert used.smooth(3, 1e-3) == fresh.smooth(3, 1e-3)
    np.testing.assert_array_equal(used.sites, fresh.sites)
