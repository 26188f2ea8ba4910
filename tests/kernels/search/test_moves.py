"""Rearrangements: every score against the tree that the move leads to, written down as splits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from phloem.search.surface import SearchTree, Surface
from phloem.trees.topology import TopologyBatch
from reference import nested
from reference.plain_distances import split_lengths
from reference.plain_moves import clade_of, from_splits, regrafted, subtree_moves
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
ENDS = (1e-8, 1e-3, 0.1, 1.0, 100.0)  # of lengths among which there is one peak


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
        assert scored.log_likelihoods[place] == pytest.approx(expected, rel=1e-6)
        sites = pattern_log_likelihoods(surface, moved, moved_lengths)
        np.testing.assert_allclose(scored.sites[place, : len(sites)], sites, rtol=1e-5, atol=1e-5)
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


def splits_of(topology):
    return nested.nontrivial_splits(nested.from_parent(topology.parent[0].tolist(), topology.taxon_count))


def least(loss):
    """The least loss of a length, searched for beside the best of a grid, as there may be several peaks."""
    grid = np.linspace(np.log(ENDS[0]), np.log(ENDS[-1]), 60)
    place = int(np.argmin([loss(point) for point in grid]))
    bounds = grid[max(0, place - 1)], grid[min(len(grid) - 1, place + 1)]
    return min(minimize_scalar(loss, bounds=bounds, method="bounded").fun, loss(grid[place]))


@given(topology_batches(least=4, most=7, trees=1), st.integers(0, 2**32), models)
@settings(max_examples=6)
def test_scores_are_the_likelihoods_of_the_trees_with_one_branch_fitted(topology, seed, name):
    surface, lengths = surface_of(topology, seed, name), random_lengths(topology, seed)
    tree = placed(surface, topology, lengths)
    parent = topology.parent[0]
    splits = split_lengths(parent, np.append(lengths, np.nan))
    random = np.random.default_rng(seed)
    found = []
    for node in random.choice(tree.movable, min(3, len(tree.movable)), replace=False).tolist():
        moved = clade_of(parent, node)
        for place, value in zip(*tree.score_regrafts(node, tolerance=TOLERANCE), strict=True):
            target = clade_of(parent, int(place)) - moved

            def loss(log_length, moved=moved, target=target):
                after = regrafted(splits, moved, target, float(np.exp(log_length)))
                return -log_likelihood(surface, *from_splits(after))

            best = -least(loss)
            assert value < best + 2e-3
            found.append(value > best - 2e-3)
    # On sequences without a history the likelihood along a branch may have two peaks, and a few end on the lower one.
    assert np.mean(found) > 0.8


@given(topology_batches(least=4, most=9, trees=1), st.integers(0, 2**32))
@settings(max_examples=20)
def test_every_subtree_without_taxon_0_goes_to_every_other_branch(topology, seed):
    surface, lengths = surface_of(topology, seed, "JC"), random_lengths(topology, seed)
    tree = placed(surface, topology, lengths)
    expected = {clade: trees for clade, trees in subtree_moves(topology).items() if 0 not in clade}
    del expected[frozenset(range(1, topology.taxon_count))]  # the neighbour of taxon 0 has nowhere to go
    found = {}
    for node in tree.movable.tolist():
        reached = []
        for place in tree.score_regrafts(node, tolerance=0.1)[0].tolist():
            tree.place(topology, lengths)
            tree.regraft(node, place)
            reached.append(splits_of(tree.current()[0]))
        tree.place(topology, lengths)
        assert len(set(reached)) == len(reached)
        found[clade_of(topology.parent[0], node)] = set(reached)
    assert found == expected


@given(topology_batches(least=5, most=9, trees=1), st.integers(0, 2**32))
@settings(max_examples=20)
def test_a_subtree_takes_its_joint_along_and_stands_in_the_middle_of_the_branch(topology, seed):
    surface, lengths = surface_of(topology, seed, "JC"), random_lengths(topology, seed)
    tree = placed(surface, topology, lengths)
    parent = topology.parent[0]
    splits = split_lengths(parent, np.append(lengths, np.nan))
    for node in tree.movable.tolist():
        moved = clade_of(parent, node)
        for place in tree.score_regrafts(node, tolerance=0.1)[0].tolist():
            tree.place(topology, lengths)
            tree.regraft(node, place)
            after = regrafted(splits, moved, clade_of(parent, place) - moved, splits[moved])
            expected, expected_lengths = from_splits(after)
            found, found_lengths = tree.current()
            assert found.equal(expected).all()
            np.testing.assert_allclose(found_lengths, expected_lengths, rtol=1e-12)
        tree.place(topology, lengths)


@given(topology_batches(least=4, most=40, trees=1), st.integers(0, 2**32), models)
@settings(max_examples=15)
def test_the_tree_is_as_before_however_often_its_subtrees_are_scored(topology, seed, name):
    surface, lengths = surface_of(topology, seed, name), random_lengths(topology, seed)
    tree = placed(surface, topology, lengths)
    value, state = tree.smooth(0, 1.0), tree.copy_state()
    first = {}
    for round_ in range(2):
        for node in tree.movable.tolist():
            places, values = tree.score_regrafts(node, tolerance=0.1)
            known = first.setdefault(node, (places, values))
            np.testing.assert_array_equal(places, known[0])
            np.testing.assert_array_equal(values, known[1])
        assert len(first) == 2 * topology.taxon_count - 4, round_
    for before, now in zip(state, tree.copy_state(), strict=True):
        np.testing.assert_array_equal(now, before)
    assert tree.smooth(0, 1.0) == value


@given(topology_batches(least=4, most=40, trees=1), st.integers(0, 2**32))
@settings(max_examples=20)
def test_nothing_is_written_outside_the_tables(topology, seed):
    """Kernels check no bounds: every table here is a part of a larger array, whose other numbers must stay."""
    surface, lengths = surface_of(topology, seed, "HKY"), random_lengths(topology, seed)
    tree = SearchTree(surface)
    edge, mark, guarded = 64, 77, []

    def surrounded(tables):
        parts = {}
        for name, table in tables._asdict().items():
            if isinstance(table, int):
                continue
            room = np.full(table.size + 2 * edge, mark, table.dtype)
            parts[name] = room[edge:-edge].reshape(table.shape)
            parts[name][...] = table
            guarded.append(room)
        return tables._replace(**parts)

    tree._tables, tree._branch = surrounded(tree._tables), surrounded(tree._branch)
    tree.place(topology, lengths)
    tree.smooth(2, 0.01)
    tree.score(tree.inner_branches, least=-np.inf, tolerance=0.1)
    for node in tree.movable.tolist():
        tree.score_regrafts(node, tolerance=0.1)
    assert all((room[:edge] == mark).all() and (room[-edge:] == mark).all() for room in guarded)
