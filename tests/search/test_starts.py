"""Starting trees: which patterns matter, random orders, neighbour joining in canonical form, and odd data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.data.reading import find_alignment, read_alignment
from phloem.errors import BadArgument
from phloem.kernels.search.parsimony import parsimony_scores
from phloem.random_streams import RandomStream
from phloem.search.tree_search import LEAST_LENGTH, can_tell_trees_apart, neighbor_joining, parsimony_topologies
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.topology import TopologyBatch
from reference.plain_distances import path_distances
from support.strategies import topology_batches

STREAM = RandomStream(1, "test starts")


def patterns_of(states):
    return compress(Alignment(tuple(f"taxon {taxon}" for taxon in range(len(states))), np.asarray(states, np.uint8)))


def random_patterns(random, taxa, sites):
    return patterns_of(1 << random.integers(0, 4, (taxa, sites)))


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=30)
def test_patterns_that_are_left_out_score_the_same_on_all_trees_and_clear_ones_that_stay_do_not(seed, ambiguous):
    random = np.random.default_rng(seed)
    codes = [1, 2, 4, 8, 15] if not ambiguous else [1, 1, 1, 2, 3, 5, 15]
    patterns = patterns_of(random.choice(codes, (5, 40)))
    trees = all_topologies(5)
    told = can_tell_trees_apart(patterns)
    for place, useful in enumerate(told):
        column = np.ascontiguousarray(patterns.states[:, [place]])
        scores = parsimony_scores(trees.neighbors, column, np.ones(1, np.int64))
        if not useful or not ambiguous:
            assert (len(np.unique(scores)) > 1) == useful


def test_trees_are_the_same_with_patterns_that_say_nothing():
    random = np.random.default_rng(2)
    useful = 1 << random.integers(0, 2, (12, 30))
    constant = np.ones((12, 20), np.int64)
    single = np.ones((12, 12), np.int64) + np.diag(random.integers(1, 8, 12))  # one taxon differs, or is ambiguous
    with_others = parsimony_topologies(patterns_of(np.hstack([constant, useful, single])), 20, stream=STREAM)
    alone = parsimony_topologies(patterns_of(useful), 20, stream=STREAM)
    assert with_others.equal(alone).all()


def test_a_pattern_counts_as_often_as_it_occurs():
    # One site for 01|23, two for 02|13.
    patterns = patterns_of([[1, 1, 1], [1, 2, 2], [2, 1, 1], [2, 2, 2]])
    assert len(patterns) == 2
    trees = parsimony_topologies(patterns, 50, stream=STREAM)
    expected = TopologyBatch.from_parents(np.array([[4, 5, 4, 5, 5, -1]]))
    assert (trees.parent == expected.parent).all()


def test_a_seed_gives_the_same_trees_however_many_are_made():
    patterns = random_patterns(np.random.default_rng(4), 20, 50)
    few = parsimony_topologies(patterns, 3, stream=STREAM)
    many = parsimony_topologies(patterns, 10, stream=STREAM)
    assert few.equal(many[:3]).all()
    assert len(many.distinct()[0]) > 1
    assert not parsimony_topologies(patterns, 3, stream=RandomStream(2, "test starts")).equal(few).all()
    assert not parsimony_topologies(patterns, 3, stream=STREAM.at(1)).equal(few).all()
    assert len(parsimony_topologies(patterns, 0, stream=STREAM)) == 0


def test_trees_of_real_sequences_are_much_better_than_random_ones():
    patterns = compress(read_alignment(find_alignment("primates")))
    trees = parsimony_topologies(patterns, 20, stream=STREAM)
    random = random_topologies(len(patterns.taxa), 20, stream=STREAM)
    weights = patterns.counts.astype(np.int64)
    scores = parsimony_scores(trees.neighbors, patterns.states, weights)
    assert scores.max() < parsimony_scores(random.neighbors, patterns.states, weights).min()


@pytest.mark.parametrize("code", [1, 15])
def test_identical_sequences_and_gaps_alone_give_uniform_trees(code):
    trees = parsimony_topologies(patterns_of(np.full((5, 8), code)), 15 * 100, stream=STREAM)
    _, counts = np.unique(trees.parent, axis=0, return_counts=True)
    assert len(counts) == 15
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_taxon_of_gaps_goes_anywhere_and_does_not_disturb_the_others():
    patterns = patterns_of([[1], [1], [2], [2], [15]])
    trees = parsimony_topologies(patterns, 500, stream=STREAM)
    scores = parsimony_scores(trees.neighbors, patterns.states, np.ones(1, np.int64))
    assert (scores == 1).all()
    assert len(trees.distinct()[0]) == 5


@pytest.mark.parametrize(("taxa", "sites"), [(3, 10), (4, 1), (200, 100), (1000, 1000)])
def test_few_and_many_taxa(taxa, sites):
    trees = parsimony_topologies(random_patterns(np.random.default_rng(6), taxa, sites), 2, stream=STREAM)
    assert TopologyBatch.from_parents(trees.parent).equal(trees).all()
    assert trees.taxon_count == taxa


def test_bad_requests():
    with pytest.raises(BadArgument, match="-1 trees"):
        parsimony_topologies(patterns_of(np.ones((4, 3))), -1, stream=STREAM)
    with pytest.raises(BadArgument, match="2 taxa"):
        parsimony_topologies(patterns_of(np.ones((2, 3))), 1, stream=STREAM)


@given(topology_batches(most=30, trees=1), st.integers(0, 2**32))
@settings(max_examples=30)
def test_distances_along_a_tree_give_the_tree_and_the_lengths_of_its_branches(topologies, seed):
    lengths = np.random.default_rng(seed).uniform(0.01, 1.0, (1, topologies.branch_count))
    distances = path_distances(topologies.parent[0], np.append(lengths[0], np.nan))
    found, found_lengths = neighbor_joining(distances)
    assert found.equal(topologies).all()
    np.testing.assert_allclose(found_lengths, lengths, atol=1e-10)


@pytest.mark.parametrize("taxa", [3, 4, 7])
def test_no_length_is_below_the_least(taxa):
    _, lengths = neighbor_joining(np.zeros((taxa, taxa)))
    assert (lengths == LEAST_LENGTH).all()
    points = np.random.default_rng(taxa).random((taxa, taxa))
    trees, lengths = neighbor_joining(points + points.T)
    assert lengths.shape == (1, trees.branch_count)
    assert lengths.min() >= LEAST_LENGTH


def test_hundreds_of_taxa_are_joined():
    tree = random_topologies(300, 1, stream=STREAM)
    found, _ = neighbor_joining(path_distances(tree.parent[0], np.full(tree.node_count, 0.1)))
    assert found.equal(tree).all()


@pytest.mark.parametrize(
    ("distances", "problem"),
    [
        (np.zeros((2, 2)), "at least 3 taxa"),
        (np.zeros((3, 4)), "square"),
        (np.zeros(9), "square"),
        (np.full((3, 3), np.inf), "not finite"),
        (np.full((3, 3), np.nan), "not finite"),
        (np.full((3, 3), -1.0), "negative"),
        (np.triu(np.ones((3, 3))), "not symmetric"),
    ],
)
def test_distances_that_make_no_sense(distances, problem):
    with pytest.raises(BadArgument, match=problem):
        neighbor_joining(distances)
