"""Parsimony trees whose subtrees were moved, against trying every move."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phloem.kernels.search.parsimony import parsimony_scores, regraft_subtrees
from phloem.trees.generation import all_topologies
from phloem.trees.topology import TopologyBatch
from reference import nested, plain_parsimony
from reference.plain_moves import from_splits, subtree_moves
from support.strategies import topology_batches

seeds = st.integers(0, 2**32)


def random_data(random, taxa, patterns):
    """Columns with a side of the taxa marked, some of them blurred."""
    codes = np.where(random.random((taxa, patterns)) < random.uniform(0.2, 0.5, patterns), 1, 2)
    codes[random.random(codes.shape) < 0.1] = 15
    return codes.astype(np.uint8), random.integers(1, 5, patterns)


def scores_of(topologies, states, weights):
    return parsimony_scores(topologies.neighbors, states, weights)


def moved(topology, states, weights, rounds=50):
    return TopologyBatch.from_parents(regraft_subtrees(states, weights, topology.parent[0], rounds)[None])


def as_topology(splits, taxa):
    trivial = [frozenset([leaf]) for leaf in range(1, taxa)] + [frozenset(range(1, taxa))]
    return from_splits(dict.fromkeys([*splits, *trivial], 0.1))[0]


@given(topology_batches(least=4, most=9, trees=1), seeds, st.integers(1, 80))
@settings(max_examples=20)
def test_no_move_of_a_subtree_without_taxon_0_is_left_that_improves(topology, seed, patterns):
    taxa = topology.taxon_count
    states, weights = random_data(np.random.default_rng(seed), taxa, patterns)
    found = moved(topology, states, weights)
    (score,) = scores_of(found, states, weights)
    others = {tree for clade, trees in subtree_moves(found).items() if 0 not in clade for tree in trees}
    batch = TopologyBatch.concatenate([as_topology(splits, taxa) for splits in others])
    assert scores_of(batch, states, weights).min() >= score


@given(topology_batches(least=4, most=40, trees=1), seeds, st.integers(1, 150), st.integers(0, 3))
@settings(max_examples=40)
def test_the_score_never_rises_and_more_rounds_never_hurt(topology, seed, patterns, rounds):
    states, weights = random_data(np.random.default_rng(seed), topology.taxon_count, patterns)
    (before,) = scores_of(topology, states, weights)
    (some,) = scores_of(moved(topology, states, weights, rounds), states, weights)
    (more,) = scores_of(moved(topology, states, weights, rounds + 1), states, weights)
    assert more <= some <= before
    if rounds == 0:
        assert some == before


@pytest.mark.parametrize("start", range(3))
def test_four_taxa_find_the_best_of_three_trees(start):
    states = np.array([[1, 1, 1], [1, 2, 2], [2, 1, 1], [2, 2, 2]], np.uint8)
    found = moved(all_topologies(4)[start], states, np.ones(3, np.int64))
    (score,) = scores_of(found, states, np.ones(3, np.int64))
    assert score == scores_of(all_topologies(4), states, np.ones(3, np.int64)).min() == 4


@given(topology_batches(least=3, most=30, trees=1))
@settings(max_examples=20)
def test_where_nothing_is_better_the_tree_stays(topology):
    states = np.full((topology.taxon_count, 3), 15, np.uint8)
    assert moved(topology, states, np.ones(3, np.int64)).equal(topology).all()


@given(topology_batches(least=4, most=10, trees=1), seeds)
@settings(max_examples=20)
def test_columns_along_a_tree_lead_back_to_it_from_one_move_away(topology, seed):
    """Every split of the tree is a column, so each move away from it costs at least one change."""
    taxa = topology.taxon_count
    random = np.random.default_rng(seed)
    moves = {clade: sorted(trees, key=str) for clade, trees in subtree_moves(topology).items() if trees}
    clade = sorted((clade for clade in moves if 0 not in clade), key=sorted)[0]
    away = as_topology(moves[clade][int(random.integers(len(moves[clade])))], taxa)
    splits = sorted(as_splits(topology), key=sorted)
    states = np.array([[2 if taxon in split else 1 for split in splits] for taxon in range(taxa)], np.uint8)
    weights = np.ones(len(splits), np.int64)
    nested_score = plain_parsimony.score(as_nested(topology), states, weights)
    assert nested_score == len(splits)
    (score,) = scores_of(moved(away, states, weights), states, weights)
    assert score == nested_score


def as_nested(topology):
    return nested.from_parent(topology.parent[0].tolist(), topology.taxon_count)


def as_splits(topology):
    return nested.nontrivial_splits(as_nested(topology))
