"""Models and patterns as tables, and a tree that changes in place: moves undo themselves, neighbours are all there."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from phloem.kernels.search.branch import LANES, RateTables
from phloem.search.surface import (
    NO_MOVES,
    SearchTree,
    Surface,
    blocks_of,
    pattern_tables,
    rate_tables,
    search_patterns,
    tip_rows,
)
from phloem.trees.generation import nni_neighbors
from phloem.trees.topology import TopologyBatch
from support.search_cases import MODELS, placed, random_lengths, random_patterns
from support.strategies import topology_batches

trees = topology_batches(least=4, most=25, trees=1)
seeds = st.integers(0, 2**32)


def tree_on(topology, lengths):
    tree = SearchTree(Surface(random_patterns(topology.taxon_count, 10, 1), MODELS["JC"]))
    tree.place(topology, lengths)
    return tree


def all_moves(tree):
    return np.concatenate([2 * tree.inner_branches, 2 * tree.inner_branches + 1])


@given(topology_batches(least=3, most=40, trees=1), seeds)
@settings(max_examples=30)
def test_a_tree_comes_out_as_it_went_in(topology, seed):
    lengths = random_lengths(topology, seed)
    found, found_lengths = tree_on(topology, lengths).current()
    assert found.equal(topology).all()
    np.testing.assert_array_equal(found_lengths, lengths)


@given(trees, seeds)
@settings(max_examples=30)
def test_a_move_made_twice_is_undone(topology, seed):
    lengths = random_lengths(topology, seed)
    tree = tree_on(topology, lengths)
    state = tree.copy_state()
    for move in all_moves(tree).tolist():
        tree.interchange(move)
        assert not tree.current()[0].equal(topology).all()
        tree.interchange(move)
        found, found_lengths = tree.current()
        assert found.equal(topology).all()
        np.testing.assert_array_equal(found_lengths, lengths)
        for before, now in zip(state, tree.copy_state(), strict=True):
            np.testing.assert_array_equal(now, before)


@given(trees, seeds)
@settings(max_examples=30)
def test_moves_lead_to_all_neighbours_and_each_once(topology, seed):
    tree = tree_on(topology, random_lengths(topology, seed))
    moves = all_moves(tree)
    assert len(moves) == 2 * (topology.taxon_count - 3)
    made = TopologyBatch.from_parents(tree.parents(moves))
    assert made[0].equal(topology).all()
    expected = {row.tobytes() for row in nni_neighbors(topology).parent}
    assert {row.tobytes() for row in made.parent[1:]} == expected
    for move, row in zip(moves.tolist(), made[1:], strict=True):
        tree.interchange(move)
        assert tree.current()[0].equal(row).all()
        tree.interchange(move)


@given(trees, seeds)
@settings(max_examples=20)
def test_after_any_moves_the_neighbours_are_still_all_there(topology, seed):
    random = np.random.default_rng(seed)
    tree = tree_on(topology, random_lengths(topology, seed))
    for _ in range(15):
        tree.interchange(int(random.choice(all_moves(tree))))
    now = TopologyBatch.from_parents(tree.parents(NO_MOVES))
    assert tree.current()[0].equal(now).all()
    made = TopologyBatch.from_parents(tree.parents(all_moves(tree)))
    assert {row.tobytes() for row in made.parent[1:]} == {row.tobytes() for row in nni_neighbors(now).parent}


@given(trees, seeds)
@settings(max_examples=20)
def test_an_earlier_state_comes_back_whole(topology, seed):
    lengths = random_lengths(topology, seed)
    surface = Surface(random_patterns(topology.taxon_count, 30, 2), MODELS["HKY"])
    tree = placed(surface, topology, lengths)
    value, state = tree.smooth(0, 1.0), tree.copy_state()
    for move in all_moves(tree).tolist():
        tree.interchange(move, np.full(5, 0.7))
    tree.smooth(1, 0.1)
    tree.restore(state)
    assert tree.smooth(0, 1.0) == value
    found, found_lengths = tree.current()
    assert found.equal(topology).all()
    np.testing.assert_array_equal(found_lengths, lengths)


@given(topology_batches(least=3, most=25, trees=1))
@settings(max_examples=20)
def test_neighbours_of_nodes_are_those_of_the_topology(topology):
    tree = tree_on(topology, np.full(topology.branch_count, 0.1))
    for node in range(topology.node_count):
        expected = {other for other in topology.neighbors[0, node].tolist() if other >= 0}
        assert set(tree.neighbors(node)) == expected


@given(topology_batches(least=4, most=25, trees=1))
@settings(max_examples=20)
def test_all_nodes_but_taxon_0_and_its_neighbour_can_move(topology):
    tree = tree_on(topology, np.full(topology.branch_count, 0.1))
    assert set(tree.movable.tolist()) == set(range(1, topology.node_count - 1))
    assert set(tree.inner_branches.tolist()) == set(range(topology.taxon_count, topology.node_count - 1))


@pytest.mark.parametrize("sites", [1, LANES, LANES + 1])
def test_patterns_fill_whole_blocks(sites):
    surface = Surface(random_patterns(5, sites, 3), MODELS["GTR+G4"])
    assert surface.width % LANES == 0
    assert surface.taxon_count == 5
    assert surface.tables.weights.sum() == sites


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [0.0, 0.2, 5.0])
def test_tables_give_transition_probabilities_back(name, length):
    model, rates = MODELS[name], rate_tables(MODELS[name], equal=MODELS[name].is_jukes_cantor)
    spectral, frequencies = rates.spectral[0], rates.frequencies[0]
    for exponents, rate in zip(rates.exponents[0], model.site_rates.rates().numpy(), strict=True):
        joint = spectral.T @ (np.exp(exponents * length)[:, None] * spectral)
        expected = expm(model.rate_matrix().numpy() * rate * length)
        np.testing.assert_allclose(joint / frequencies[:, None], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_the_first_eigenvalue_is_zero_and_its_row_the_frequencies(name):
    tables = rate_tables(MODELS[name], equal=MODELS[name].is_jukes_cantor)
    assert all(len(table) == 1 for table in tables[1:])  # part
    rates = RateTables(tables.equal, *(table[0] for table in tables[1:]))
    assert (rates.exponents[:, 0] == 0).all()
    assert (rates.exponents[:, 1:] < 0).all()
    np.testing.assert_allclose(np.abs(rates.spectral[0]), rates.frequencies, rtol=1e-9)
    assert rates.equal == (name == "JC")
    np.testing.assert_array_equal(rates.terms[1:], rates.exponents[:, 1:].ravel()[: len(rates.terms) - 1])
    assert len(rates.terms) == (2 if name == "JC" else 1 + 3 * len(rates.exponents))
    shares = MODELS[name].site_rates.weights().numpy()[:, None, None]
    np.testing.assert_allclose(rates.one_end[:, 1:], shares * rates.spectral[1:], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(rates.one_end[:, 0], shares[:, 0] * rates.frequencies, rtol=1e-6)
    np.testing.assert_allclose(rates.other_end, rates.spectral, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("sites", [1, LANES, LANES + 1, 100])
@pytest.mark.parametrize("name", MODELS)
def test_blocks_hold_the_patterns_and_what_fills_them_up_weighs_nothing(name, sites):
    model = MODELS[name]
    patterns = search_patterns(random_patterns(5, sites, 3, "ACGTRN-"), model)
    count = len(patterns)
    tables = pattern_tables(patterns, model)
    weights = tables.weights.ravel()
    assert len(weights) % LANES == 0
    assert 0 <= len(weights) - count < LANES
    np.testing.assert_array_equal(weights[:count], patterns.counts)
    assert (weights[count:] == 0).all()
    rows = tip_rows(patterns, blocks_of(patterns, model))
    flat = rows.transpose(0, 1, 3, 2).reshape(5, -1, 4)  # (taxa, patterns, states)
    np.testing.assert_array_equal(flat[:, :count], patterns.tip_partials)
    assert (flat[:, count:] == 1).all()
    share = 0.0 if model.site_rates.invariant is None else model.site_rates.invariant.item()
    common = patterns.tip_partials.all(axis=0) @ model.frequencies.numpy()
    np.testing.assert_allclose(tables.constant.ravel()[:count], share * common, rtol=1e-6)
    assert tables.has_constant == bool((share * common).any())


def test_jukes_cantor_merges_patterns_that_other_models_tell_apart():
    patterns = random_patterns(4, 200, 5)
    assert len(search_patterns(patterns, MODELS["JC"])) < len(patterns)
    assert search_patterns(patterns, MODELS["HKY"]) is patterns
    assert search_patterns(patterns, MODELS["JC"]).counts.sum() == 200
