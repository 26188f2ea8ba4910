"""Where a search starts, what it perturbs and moves, and which peaks it keeps."""

from itertools import pairwise
from threading import Event

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
from phloem.search.jobs import Stopped
from phloem.search.resampling import Resampling, Visits
from phloem.search.surface import SearchTree, Surface
from phloem.search.tree_search import (
    CLIMBS_AT_A_TIME,
    FIRST_CLIMBS,
    LEAST_LENGTH,
    POOL,
    SAME,
    Start,
    TreeSearch,
    can_tell_trees_apart,
    first_starts,
    neighbor_joining,
    parsimony_topologies,
)
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.topology import TopologyBatch
from reference import nested
from reference.plain_distances import path_distances
from reference.plain_moves import subtree_moves
from support.search_cases import MODELS, evolved, log_likelihood, random_patterns
from support.strategies import topology_batches

STREAM = RandomStream(3, "test search")
STARTS = RandomStream(1, "test starts")


def search_on(patterns, threads=1, stop=None, name="JC"):
    surface = Surface(patterns, MODELS[name])
    resampling = Resampling(surface.patterns.counts, 20, stream=STREAM)
    visits = Visits(resampling, surface.taxon_count, 10)
    return surface, visits, TreeSearch(surface, visits, stream=STREAM, threads=threads, stop=stop or Event())


def random_starts(taxa, count=12):
    trees = random_topologies(taxa, count, stream=STREAM)
    return [Start(tree, np.full(tree.branch_count, 0.05)) for tree in trees]


def key_of(surface, topology):
    tree = SearchTree(surface)
    tree.place(topology, np.full(topology.branch_count, 0.1))
    return tree.key


def splits_of(topology):
    return nested.nontrivial_splits(nested.from_parent(topology.parent[0].tolist(), topology.taxon_count))


def test_starts_are_distinct_trees_best_first_with_their_lengths_fitted():
    patterns = compress(evolved(25, 60, 1)[0])
    surface = Surface(patterns, MODELS["JC"])
    starts = first_starts(surface, patterns, stream=STREAM, stop=Event())
    assert 1 < len(starts) <= FIRST_CLIMBS
    values = [log_likelihood(surface, start.topology, start.lengths) for start in starts]
    assert values == pytest.approx([start.log_likelihood for start in starts])
    assert values == sorted(values, reverse=True)
    assert len({start.topology.parent.tobytes() for start in starts}) == len(starts)
    plain = [log_likelihood(surface, start.topology, np.full(47, 0.05)) for start in starts]
    assert all(value > other for value, other in zip(values, plain, strict=True))


def test_starts_end_when_told_to():
    stop = Event()
    stop.set()
    patterns = random_patterns(8, 30, 1)
    with pytest.raises(Stopped):
        first_starts(Surface(patterns, MODELS["JC"]), patterns, stream=STREAM, stop=stop)


def test_the_pool_has_the_best_peaks_and_no_two_alike():
    surface, visits, search = search_on(random_patterns(12, 60, 2))
    search.climb_from(random_starts(12, 30))
    values = [peak.log_likelihood for peak in search.pool]
    assert search.climbs == 30
    assert 1 <= len(values) <= POOL
    assert values == sorted(values, reverse=True)
    assert all(first - second >= SAME for first, second in pairwise(values))
    assert search.best is search.pool[0]
    assert values[0] >= max(visits.known.values()) - SAME
    for peak in search.pool:
        assert peak.log_likelihood == pytest.approx(log_likelihood(surface, peak.topology, peak.lengths), rel=1e-6)
        assert key_of(surface, peak.topology) == peak.key


def test_climbs_without_success_are_counted_from_the_last_better_tree():
    _, _, search = search_on(compress(evolved(8, 200, 3)[0]))
    (start, *others) = random_starts(8, 9)
    search.climb_from([start])
    assert search.unsuccessful == 0
    best = Start(search.best.topology, search.best.lengths)
    search.climb_from([best] * 3)
    assert (search.climbs, search.unsuccessful) == (4, 3)
    search.climb_from(others)
    assert search.climbs == 12
    assert search.unsuccessful <= 11


def test_threads_change_nothing():
    found = []
    for threads in (1, 2, 3):
        _, visits, search = search_on(compress(evolved(12, 100, 4)[0]), threads)
        search.climb_from(random_starts(12))
        search.climb_from(search.perturbed())
        found.append((visits.known, [peak.log_likelihood for peak in search.pool], visits.supports()))
    assert found[0] == found[1] == found[2]


def test_perturbed_trees_are_others_and_differ_from_climb_to_climb():
    _, _, search = search_on(compress(evolved(15, 100, 5)[0]))
    search.climb_from(random_starts(15))
    first, again = search.perturbed(), search.perturbed()
    assert len(first) == CLIMBS_AT_A_TIME
    assert all(one.topology.equal(other.topology).all() for one, other in zip(first, again, strict=True))
    rows = {start.topology.parent.tobytes() for start in first}
    assert len(rows) > 1
    assert not rows & {peak.topology.parent.tobytes() for peak in search.pool}
    pool = search.pool
    search.climb_from(first)
    search.pool = pool  # from the same trees others are made, as more climbs have been
    later = {start.topology.parent.tobytes() for start in search.perturbed()}
    assert later != rows
    assert all(TopologyBatch.from_parents(start.topology.parent) for start in first)


def test_regrafted_trees_have_one_subtree_elsewhere_and_were_never_seen():
    surface, visits, search = search_on(random_patterns(12, 40, 6))
    search.climb_from(random_starts(12))
    starts = search.regrafted()
    assert 0 < len(starts) <= CLIMBS_AT_A_TIME
    moves = subtree_moves(search.best.topology)
    possible = {splits for clade, trees in moves.items() if 0 not in clade for splits in trees}
    seen = set(visits.known)
    for start in starts:
        assert splits_of(start.topology) in possible
        assert key_of(surface, start.topology) not in seen
        assert start.lengths.shape == (21,)
        assert (start.lengths > 0).all()
    keys = [key_of(surface, start.topology) for start in starts]
    assert len(set(keys)) == len(keys)


def test_every_part_of_a_search_ends_when_told_to():
    stop = Event()
    _, _, search = search_on(random_patterns(10, 40, 7), threads=2, stop=stop)
    search.climb_from(random_starts(10))
    stop.set()
    for step in (lambda: search.climb_from(random_starts(10)), search.regrafted):
        with pytest.raises(Stopped):
            step()


def patterns_of(states):
    return compress(Alignment(tuple(f"taxon {taxon}" for taxon in range(len(states))), np.asarray(states, np.uint8)))


def random_columns(random, taxa, sites):
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
    with_others = parsimony_topologies(patterns_of(np.hstack([constant, useful, single])), 20, stream=STARTS)
    alone = parsimony_topologies(patterns_of(useful), 20, stream=STARTS)
    assert with_others.equal(alone).all()


def test_a_pattern_counts_as_often_as_it_occurs():
    # One site for 01|23, two for 02|13.
    patterns = patterns_of([[1, 1, 1], [1, 2, 2], [2, 1, 1], [2, 2, 2]])
    assert len(patterns) == 2
    trees = parsimony_topologies(patterns, 50, stream=STARTS)
    expected = TopologyBatch.from_parents(np.array([[4, 5, 4, 5, 5, -1]]))
    assert (trees.parent == expected.parent).all()


def test_a_seed_gives_the_same_trees_however_many_are_made():
    patterns = random_columns(np.random.default_rng(4), 20, 50)
    few = parsimony_topologies(patterns, 3, stream=STARTS)
    many = parsimony_topologies(patterns, 10, stream=STARTS)
    assert few.equal(many[:3]).all()
    assert len(many.distinct()[0]) > 1
    assert not parsimony_topologies(patterns, 3, stream=RandomStream(2, "test starts")).equal(few).all()
    assert not parsimony_topologies(patterns, 3, stream=STARTS.at(1)).equal(few).all()
    assert len(parsimony_topologies(patterns, 0, stream=STARTS)) == 0


def test_trees_of_real_sequences_are_much_better_than_random_ones():
    patterns = compress(read_alignment(find_alignment("primates")))
    trees = parsimony_topologies(patterns, 20, stream=STARTS)
    random = random_topologies(len(patterns.taxa), 20, stream=STARTS)
    weights = patterns.counts.astype(np.int64)
    scores = parsimony_scores(trees.neighbors, patterns.states, weights)
    assert scores.max() < parsimony_scores(random.neighbors, patterns.states, weights).min()


@pytest.mark.parametrize("code", [1, 15])
def test_identical_sequences_and_gaps_alone_give_uniform_trees(code):
    trees = parsimony_topologies(patterns_of(np.full((5, 8), code)), 15 * 100, stream=STARTS)
    _, counts = np.unique(trees.parent, axis=0, return_counts=True)
    assert len(counts) == 15
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_taxon_of_gaps_goes_anywhere_and_does_not_disturb_the_others():
    patterns = patterns_of([[1], [1], [2], [2], [15]])
    trees = parsimony_topologies(patterns, 500, stream=STARTS)
    scores = parsimony_scores(trees.neighbors, patterns.states, np.ones(1, np.int64))
    assert (scores == 1).all()
    assert len(trees.distinct()[0]) == 5


@pytest.mark.parametrize(("taxa", "sites"), [(3, 10), (4, 1), (200, 100), (1000, 1000)])
def test_few_and_many_taxa(taxa, sites):
    trees = parsimony_topologies(random_columns(np.random.default_rng(6), taxa, sites), 2, stream=STARTS)
    assert TopologyBatch.from_parents(trees.parent).equal(trees).all()
    assert trees.taxon_count == taxa


def test_bad_requests():
    with pytest.raises(BadArgument, match="-1"):
        parsimony_topologies(patterns_of(np.ones((4, 3))), -1, stream=STARTS)
    with pytest.raises(BadArgument, match="2 taxa"):
        parsimony_topologies(patterns_of(np.ones((2, 3))), 1, stream=STARTS)


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
    tree = random_topologies(300, 1, stream=STARTS)
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
