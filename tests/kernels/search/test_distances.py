"""Distances of two sequences, in closed form and by scipy; neighbour joining against Biopython."""

import math
from dataclasses import replace

import numpy as np
import pytest
from Bio.Phylo.TreeConstruction import DistanceMatrix, DistanceTreeConstructor
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.optimize import minimize_scalar

from phloem.data.patterns import compress
from phloem.kernels.search.branch import SHORTEST
from phloem.kernels.search.distances import join_neighbors, pair_distances
from phloem.search.surface import Surface
from phloem.trees.topology import TopologyBatch
from reference.plain_distances import path_distances, split_lengths
from support.search_cases import MODELS, evolved, random_patterns
from support.strategies import topology_batches

seeds = st.integers(0, 2**32)


def distances_of(surface, tolerance=1e-8):
    return pair_distances(surface.rates, surface.tables, surface.branch_tables(), surface.tips, tolerance)


def only(patterns, kept):
    """Some of the patterns."""
    return replace(patterns, states=patterns.states[:, kept], counts=patterns.counts[kept])


def test_under_jukes_cantor_they_are_those_of_the_formula():
    alignment, _ = evolved(8, 300, 1)
    found = distances_of(Surface(compress(alignment), MODELS["JC"]))
    for first in range(8):
        for second in range(8):
            share = (alignment.states[first] != alignment.states[second]).mean()
            if first == second:
                assert found[first, second] == 0
            else:
                assert found[first, second] == pytest.approx(-0.75 * math.log(1 - 4 * share / 3), rel=1e-4)


@pytest.mark.parametrize("name", ["HKY", "GTR+G4", "GTR+I+G4"])
def test_under_other_models_they_are_the_most_likely_lengths(name):
    model = MODELS[name]
    patterns = compress(evolved(5, 300, 2, model)[0])
    found = distances_of(Surface(patterns, model))
    np.testing.assert_array_equal(found, found.T)
    tips, frequencies, matrix = patterns.tip_partials, model.frequencies.numpy(), model.rate_matrix().numpy()
    rates, shares = model.site_rates.rates().numpy(), model.site_rates.weights().numpy()
    constant = np.zeros(len(patterns))
    if model.site_rates.invariant is not None:
        constant = model.site_rates.invariant.item() * (tips.all(axis=0) @ frequencies)
    for first in range(5):
        for second in range(first):

            def loss(length, first=first, second=second):
                mixed = sum(share * expm(matrix * rate * length) for rate, share in zip(rates, shares, strict=True))
                likelihoods = np.einsum("ps,s,st,pt->p", tips[first], frequencies, mixed, tips[second])
                return -patterns.counts @ np.log(likelihoods + constant)

            best = minimize_scalar(loss, bounds=(1e-8, 20.0), method="bounded", options={"xatol": 1e-9}).x
            assert found[first, second] == pytest.approx(best, rel=1e-3, abs=1e-5)


def test_equal_sequences_have_none_and_gaps_say_nothing():
    patterns = random_patterns(4, 50, 3)
    states = patterns.states.copy()
    states[1] = states[0]
    states[3] = 15
    found = distances_of(Surface(replace(patterns, states=states), MODELS["JC"]))
    assert found[0, 1] == SHORTEST
    assert np.isfinite(found).all()
    with_gaps = random_patterns(3, 200, 4, "AAAACGT-")
    known = (with_gaps.states[:2] != 15).all(axis=0)
    without = only(with_gaps, known)
    values = [distances_of(Surface(part, MODELS["HKY"]))[0, 1] for part in (with_gaps, without)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)


def biopythons(distances):
    """Lengths by split of Biopython's tree."""
    names = [str(taxon) for taxon in range(len(distances))]
    rows = [distances[taxon, : taxon + 1].tolist() for taxon in range(len(distances))]
    tree = DistanceTreeConstructor().nj(DistanceMatrix(names, rows))
    everything = frozenset(range(len(distances)))
    lengths: dict[frozenset[int], float] = {}
    for clade in tree.find_clades():
        if clade is not tree.root:
            leaves = frozenset(int(leaf.name) for leaf in clade.get_terminals())
            split = leaves if 0 not in leaves else everything - leaves
            lengths[split] = lengths.get(split, 0.0) + clade.branch_length
    return lengths


def assert_same_lengths(one, other, tolerance):
    assert one.keys() == other.keys()
    for split, length in one.items():
        assert length == pytest.approx(other[split], abs=tolerance)


def test_any_distances_give_biopythons_tree_with_its_lengths_negative_ones_too():
    random = np.random.default_rng(1)
    negative = 0
    for taxa in (4, 4, 5, 5, 6, 8, 13, 20, 30, 30):
        points = random.random((taxa, taxa))
        distances = points + points.T
        np.fill_diagonal(distances, 0.0)
        parents, lengths = join_neighbors(distances)
        assert_same_lengths(split_lengths(parents, lengths), biopythons(distances), 1e-10)
        negative += (lengths < 0).sum()
    assert negative


@given(topology_batches(most=40, trees=1), seeds)
@settings(max_examples=50)
def test_distances_along_a_tree_give_the_tree_back(topologies, seed):
    lengths = np.random.default_rng(seed).uniform(0.01, 1.0, topologies.node_count)
    expected = split_lengths(topologies.parent[0], lengths)
    parents, joined = join_neighbors(path_distances(topologies.parent[0], lengths))
    assert_same_lengths(split_lengths(parents, joined), expected, 1e-10)
    assert TopologyBatch.from_parents(parents).equal(topologies).all()


@pytest.mark.parametrize("taxa", [3, 4, 5, 20])
@pytest.mark.parametrize("distance", [0.0, 1.0])
def test_equal_distances_give_a_star_as_a_binary_tree(taxa, distance):
    distances = np.full((taxa, taxa), distance)
    np.fill_diagonal(distances, 0.0)
    parents, lengths = join_neighbors(distances)
    TopologyBatch.from_parents(parents)
    np.testing.assert_allclose(lengths[:taxa], distance / 2, atol=1e-12)
    np.testing.assert_allclose(lengths[taxa:-1], 0.0, atol=1e-12)


def test_of_equally_good_pairs_the_lowest_is_joined():
    parents, _ = join_neighbors(np.ones((4, 4)))
    assert parents.tolist() == [4, 4, 5, 5, 5, -1]


def test_the_diagonal_is_not_read_and_distances_are_left_alone():
    random = np.random.default_rng(1)
    points = random.random((9, 9))
    distances = points + points.T
    with_zeros = distances.copy()
    np.fill_diagonal(with_zeros, 0.0)
    given_distances = distances.copy()
    for one, other in zip(join_neighbors(distances), join_neighbors(with_zeros), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(distances, given_distances)
