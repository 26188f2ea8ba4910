"""Partials of placed trees against the likelihood engine, many taxa and very short branches included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from phloem.kernels.search.partials import fill_matrices
from phloem.random_streams import RandomStream
from phloem.search.surface import Surface, rate_tables
from phloem.trees.generation import random_topologies
from phloem.trees.topology import TopologyBatch
from support.search_cases import (
    MODELS,
    log_likelihood,
    pattern_log_likelihoods,
    placed,
    random_lengths,
    random_patterns,
)
from support.strategies import topology_batches


def caterpillar(taxa: int) -> TopologyBatch:
    """Taxa 0 and 1 at one end, and the others along the tree in order."""
    parent = np.empty(2 * taxa - 2, np.int32)
    parent[:2] = taxa
    parent[2:taxa] = np.minimum(np.arange(taxa + 1, 2 * taxa - 1), 2 * taxa - 3)
    parent[taxa:] = np.arange(taxa + 1, 2 * taxa - 1)
    parent[-1] = -1
    return TopologyBatch.from_parents(parent[None])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [0.0, 1e-8, 0.3, 100.0])
def test_matrices_are_exponentials(name, length):
    model, rates = MODELS[name], rate_tables(MODELS[name])
    filled = np.zeros((len(rates.exponents), 16))
    fill_matrices(filled, rates, length)
    expected = [expm(model.rate_matrix().numpy() * rate * length) for rate in model.site_rates.rates().numpy()]
    if name == "JC":
        change, stay = filled[0, :2]
        filled = (change + stay * np.eye(4)).reshape(1, 16)
    np.testing.assert_allclose(filled.reshape(-1, 4, 4), expected, rtol=1e-9, atol=1e-13)


@given(topology_batches(least=3, most=20, trees=1), st.integers(0, 2**32), st.sampled_from(sorted(MODELS)))
@settings(max_examples=40)
def test_a_placed_tree_has_the_likelihood_of_the_engine(topology, seed, name):
    surface = Surface(random_patterns(topology.taxon_count, 50, seed, "ACGTACGTRYKMSWBDHVN-"), MODELS[name])
    lengths = random_lengths(topology, seed)
    tree = placed(surface, topology, lengths)
    expected = pattern_log_likelihoods(surface, topology, lengths)
    np.testing.assert_allclose(tree.sites[: len(expected)], expected, rtol=1e-10, atol=1e-12)
    value = tree.smooth(0, 1.0)
    assert value == pytest.approx(log_likelihood(surface, topology, lengths), rel=1e-12)
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
    np.testing.assert_allclose(tree.sites[: len(expected)], expected, rtol=1e-9, atol=1e-12)
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
        assert scored.log_likelihoods[place] == pytest.approx(log_likelihood(surface, *tree.current()), rel=1e-10)
