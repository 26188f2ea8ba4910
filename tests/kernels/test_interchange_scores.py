"""Interchanges: every score against the tree that the move leads to, written down as splits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from phloem.search.surface import Surface
from phloem.trees.topology import TopologyBatch
from reference.plain_distances import split_lengths
from reference.plain_moves import clade_of, from_splits
from support.search_cases import (
    MODELS,
    log_likelihood,
    pattern_log_likelihoods,
    placed,
    random_lengths,
    random_patterns,
)
from support.strategies import topology_batches

models = st.sampled_from(sorted(MODELS))
TOLERANCE = 1e-4


def surface_of(topology: TopologyBatch, seed: int, name: str) -> Surface:
    return Surface(random_patterns(topology.taxon_count, 40, seed, "ACGTACGTRN-"), MODELS[name])


def around(topology: TopologyBatch, move: int) -> tuple[int, int, int, int, int]:
    """Branch, sibling, kept and moved child and parent, from the neighbour table of the canonical tree."""
    node = move // 2
    children = topology.neighbors[0, node, 1:].tolist()
    above = int(topology.parent[0, node])
    beside = [other for other in topology.neighbors[0, above, 1:].tolist() if other != node]
    return node, beside[0], children[1 - move % 2], children[move % 2], above


def after(topology: TopologyBatch, lengths: np.ndarray, move: int, own: np.ndarray):
    """The tree after a move with five lengths."""
    parent = topology.parent[0]
    splits = split_lengths(parent, np.append(lengths, np.nan))
    node, sibling, kept, moved, above = (clade_of(parent, place) for place in around(topology, move))
    del splits[node]
    for clade, length in zip((sibling | kept, sibling, kept, moved, above), own, strict=True):
        splits[clade] = length
    return from_splits(splits)


@given(topology_batches(least=4, most=12, trees=1), st.integers(0, 2**32), models, st.booleans())
@settings(max_examples=25)
def test_scores_are_the_likelihoods_of_the_trees_that_moves_lead_to(topology, seed, name, middle_alone):
    surface, lengths = surface_of(topology, seed, name), random_lengths(topology, seed)
    tree = placed(surface, topology, lengths)
    scored = tree.score(tree.inner_branches, least=np.inf if middle_alone else -np.inf, tolerance=TOLERANCE)
    assert len(scored.moves) == len(set(scored.moves.tolist())) == 2 * (topology.taxon_count - 3)
    for place, move in enumerate(scored.moves.tolist()):
        moved, moved_lengths = after(topology, lengths, move, scored.lengths[place])
        expected = log_likelihood(surface, moved, moved_lengths)
        assert scored.log_likelihoods[place] == pytest.approx(expected, rel=1e-11)
        sites = pattern_log_likelihoods(surface, moved, moved_lengths)
        np.testing.assert_allclose(scored.sites[place, : len(sites)], sites, rtol=1e-6, atol=1e-6)
        tree.place(topology, lengths)
        tree.interchange(move, scored.lengths[place])
        found, found_lengths = tree.current()
        assert found.equal(moved).all()
        np.testing.assert_array_equal(found_lengths, moved_lengths)


@given(topology_batches(least=4, most=8, trees=1), st.integers(0, 2**32), models)
@settings(max_examples=6)
def test_below_the_least_only_the_middle_is_fitted_and_above_it_four_more(topology, seed, name):
    surface, lengths = surface_of(topology, seed, name), random_lengths(topology, seed)
    tree = placed(surface, topology, lengths)
    middle = tree.score(tree.inner_branches, least=np.inf, tolerance=TOLERANCE)
    all_five = tree.score(tree.inner_branches, least=-np.inf, tolerance=TOLERANCE)
    least = float(np.median(middle.log_likelihoods))
    some = tree.score(tree.inner_branches, least=least, tolerance=TOLERANCE)
    as_good = []
    for place, move in enumerate(middle.moves.tolist()):
        nodes = np.array(around(topology, move))
        nodes[nodes == topology.root] = 0  # the same branch, by its other end
        np.testing.assert_array_equal(middle.lengths[place, 1:], lengths[nodes[1:]])

        def loss(log_length, move=move, outer=middle.lengths[place, 1:]):
            own = np.append(np.exp(log_length), outer)
            return -log_likelihood(surface, *after(topology, lengths, move, own))

        best = max(
            -minimize_scalar(loss, bounds=bounds, method="bounded").fun
            for bounds in ((np.log(1e-8), np.log(1e-3)), (np.log(1e-3), np.log(100.0)))
        )
        assert middle.log_likelihoods[place] < best + 0.01
        as_good.append(middle.log_likelihoods[place] > best - 0.01)
        assert all_five.log_likelihoods[place] > middle.log_likelihoods[place] - TOLERANCE
        expected = middle if middle.log_likelihoods[place] < least else all_five
        assert some.log_likelihoods[place] == expected.log_likelihoods[place]
        np.testing.assert_array_equal(some.lengths[place], expected.lengths[place])
    assert np.mean(as_good) >= 0.5  # a curve with two peaks is rare, but there are some


@pytest.mark.parametrize("name", MODELS)
def test_scores_do_not_change_the_tree_nor_each_other(name):
    topology = TopologyBatch.from_parents(np.array([[6, 6, 7, 8, 9, 9, 7, 8, 9, -1]]))
    surface, lengths = surface_of(topology, 8, name), random_lengths(topology, 8)
    tree = placed(surface, topology, lengths)
    together = tree.score(tree.inner_branches, least=-np.inf, tolerance=TOLERANCE)
    for place, branch in enumerate(tree.inner_branches):
        alone = tree.score(np.array([branch], np.int32), least=-np.inf, tolerance=TOLERANCE)
        own = slice(2 * place, 2 * place + 2)
        np.testing.assert_array_equal(alone.log_likelihoods, together.log_likelihoods[own])
        np.testing.assert_array_equal(alone.sites, together.sites[own])
    found, found_lengths = tree.current()
    assert found.equal(topology).all()
    np.testing.assert_array_equal(found_lengths, lengths)
