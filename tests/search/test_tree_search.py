"""The search's parts: where it starts, what it perturbs and moves, and which peaks it keeps."""

from itertools import pairwise
from threading import Event

import numpy as np
import pytest

from phloem.data.patterns import compress
from phloem.random_streams import RandomStream
from phloem.search.jobs import Stopped
from phloem.search.resampling import Resampling, Visits
from phloem.search.surface import SearchTree, Surface
from phloem.search.tree_search import CLIMBS_AT_A_TIME, FIRST_CLIMBS, POOL, SAME, Start, TreeSearch, first_starts
from phloem.trees.generation import random_topologies
from phloem.trees.topology import TopologyBatch
from reference import nested
from reference.plain_moves import subtree_moves
from support.search_cases import MODELS, evolved, log_likelihood, random_patterns

STREAM = RandomStream(3, "test search")


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
        assert peak.log_likelihood == pytest.approx(log_likelihood(surface, peak.topology, peak.lengths), rel=1e-10)
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
