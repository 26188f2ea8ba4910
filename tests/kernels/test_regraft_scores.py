"""Subtrees put elsewhere: scores against the trees written down as splits, and which trees they are."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from phloem.search.surface import SearchTree, Surface
from reference import nested
from reference.plain_distances import split_lengths
from reference.plain_moves import clade_of, from_splits, regrafted, subtree_moves
from support.search_cases import MODELS, log_likelihood, placed, random_lengths, random_patterns
from support.strategies import topology_batches

models = st.sampled_from(sorted(MODELS))
TOLERANCE = 1e-4
ENDS = (1e-8, 1e-3, 0.1, 1.0, 100.0)  # of lengths among which there is one peak


def surface_of(topology, seed, name):
    return Surface(random_patterns(topology.taxon_count, 40, seed, "ACGTACGTRN-"), MODELS[name])


def splits_of(topology):
    return nested.nontrivial_splits(nested.from_parent(topology.parent[0].tolist(), topology.taxon_count))


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

            best = max(-minimize_scalar(loss, bounds=np.log(ends), method="bounded").fun for ends in pairwise(ENDS))
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
    tables = {}
    for name, table in tree._tables._asdict().items():
        room = np.full(table.size + 2 * edge, mark, table.dtype)
        tables[name] = room[edge:-edge].reshape(table.shape)
        tables[name][...] = table
        guarded.append(room)
    tree._tables = tree._tables._replace(**tables)
    tree.place(topology, lengths)
    tree.smooth(2, 0.01)
    tree.score(tree.inner_branches, least=-np.inf, tolerance=0.1)
    for node in tree.movable.tolist():
        tree.score_regrafts(node, tolerance=0.1)
    assert all((room[:edge] == mark).all() and (room[-edge:] == mark).all() for room in guarded)
