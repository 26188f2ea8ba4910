"""Keys of topologies: the same for the same tree however it came about, and different otherwise."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from phloem.random_streams import RandomStream
from phloem.search.surface import SearchTree, Surface
from phloem.trees.generation import all_topologies, random_topologies
from support.search_cases import MODELS, random_patterns
from support.strategies import topology_batches


def tree_on(topology):
    tree = SearchTree(Surface(random_patterns(topology.taxon_count, 5, 1), MODELS["JC"]))
    tree.place(topology, np.full(topology.branch_count, 0.1))
    return tree


def test_all_topologies_of_seven_taxa_have_different_keys():
    topologies = all_topologies(7)
    tree = tree_on(topologies[0])
    lengths = np.full(topologies.branch_count, 0.1)
    keys = set()
    for topology in topologies:
        tree.place(topology, lengths)
        keys.add(tree.key)
    assert len(keys) == 945


@given(topology_batches(least=4, most=40, trees=1), st.integers(0, 2**32))
@settings(max_examples=30)
def test_keys_of_neighbours_are_those_of_the_trees_after_the_moves(topology, seed):
    tree = tree_on(topology)
    moves = np.concatenate([2 * tree.inner_branches, 2 * tree.inner_branches + 1])
    own, *others = tree.keys(moves).tolist()
    assert own == tree.key
    assert len({own, *others}) == 1 + len(moves)
    for move, key in zip(moves.tolist(), others, strict=True):
        tree.interchange(move)
        assert tree.key == key
        tree.interchange(move)
    assert tree.key == own


@given(topology_batches(least=4, most=25, trees=1), st.integers(0, 2**32))
@settings(max_examples=30)
def test_a_tree_has_one_key_however_it_was_reached(topology, seed):
    random = np.random.default_rng(seed)
    tree, fresh = tree_on(topology), tree_on(topology)
    for _ in range(20):
        tree.interchange(2 * int(random.choice(tree.inner_branches)) + int(random.integers(2)))
        if len(tree.movable):
            node = int(random.choice(tree.movable))
            places, _ = tree.score_regrafts(node, tolerance=0.1)
            if len(places):
                tree.regraft(node, int(random.choice(places)))
    found, lengths = tree.current()
    fresh.place(found, lengths)
    assert fresh.key == tree.key


def test_many_large_trees_have_different_keys():
    topologies = random_topologies(100, 500, stream=RandomStream(1, "x"))
    tree = tree_on(topologies[0])
    keys = set()
    for topology in topologies:
        tree.place(topology, np.full(topology.branch_count, 0.1))
        keys.add(tree.key)
    assert len(keys) == 500
