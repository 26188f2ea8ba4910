"""What a search has seen: supports, best trees and correlations against the plain ways."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phloem.random_streams import RandomStream
from phloem.search.climbing import VisitedTrees
from phloem.search.resampling import Resampling, Visits, correlation
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.splits import pack_members, split_frequencies
from phloem.trees.topology import taxon_keys

COUNTS = np.array([2.0, 3.0, 5.0])
STREAM = RandomStream(1, "test visits")


def part_of(topologies, numbers, values, sites=None):
    """Trees with keys of their own; their sites sum to the values."""
    values = np.asarray(values, np.float64)
    if sites is None:
        sites = np.repeat(values[:, None] / COUNTS.sum(), len(COUNTS), axis=1).astype(np.float32)
    numbers = np.asarray(numbers)
    return VisitedTrees(1000 + numbers.astype(np.uint64), topologies.parent[numbers], values, sites)


def visits_of(taxa=6, keep=0, replicates=50, **others):
    resampling = Resampling(COUNTS, replicates, stream=STREAM, **others)
    return Visits(resampling, taxa, keep), resampling


def split_hash(members):
    """The XOR of the taxa's keys."""
    return int(np.bitwise_xor.reduce(taxon_keys(len(members))[members, 0]))


@given(st.integers(0, 2**32), st.integers(4, 12))
@settings(max_examples=30)
def test_supports_are_the_frequencies_of_splits(seed, taxa):
    random = np.random.default_rng(seed)
    topologies = random_topologies(taxa, 8, stream=RandomStream(seed, "trees"))
    visits, resampling = visits_of(taxa)
    visits.add([part_of(topologies, np.arange(8), np.full(8, -20.0), random.normal(-2, 0.5, (8, 3)).astype("f4"))])
    trees = visits.topologies(resampling.choices)
    assert trees.equal(topologies.take(resampling.choices)).all()
    sample = TreeSample(tuple(map(str, range(taxa))), trees, np.ones(len(trees)), None)
    expected = split_frequencies(sample)
    supports = visits.supports()
    assert len(supports) == len(expected.members)
    for members, share in zip(expected.members, expected.frequencies, strict=True):
        assert supports[split_hash(members)] == pytest.approx(share)
    assert pack_members(expected.members).shape[0] == len(supports)


def test_the_best_trees_come_best_first_and_none_is_too_far_behind():
    topologies = all_topologies(6)
    values = -20.0 - np.random.default_rng(1).permutation(30) / 10
    visits, _ = visits_of(keep=12)
    for start in range(0, 30, 7):
        numbers = np.arange(start, min(start + 7, 30))
        visits.add([part_of(topologies, numbers, values[numbers])])
    order = np.argsort(-values)
    assert visits.topologies(visits.best(100.0)).equal(topologies.take(order[:12])).all()
    assert visits.topologies(visits.best(0.55)).equal(topologies.take(order[:6])).all()
    assert visits.topologies(visits.best(0.0)).equal(topologies.take(order[:1])).all()


def test_without_keeping_there_are_no_best_trees():
    visits, _ = visits_of(keep=0)
    visits.add([part_of(all_topologies(6), [0, 1], [-20.0, -21.0])])
    assert len(visits.best(100.0)) == 0
    assert len(visits.topologies(visits.best(100.0))) == 0


def test_a_tree_seen_again_counts_with_its_better_fit():
    topologies = all_topologies(6)
    visits, resampling = visits_of(keep=5)
    visits.add([part_of(topologies, [0, 1, 2], [-20.0, -21.0, -22.0])])
    visits.add([part_of(topologies, [2], [-23.0])])
    assert visits.known == {1000: -20.0, 1001: -21.0, 1002: -22.0}
    assert visits.best(100.0).tolist() == [0, 1, 2]
    visits.add([part_of(topologies, [2], [-10.0]), part_of(topologies, [2, 1], [-11.0, -20.5])])
    assert visits.known == {1000: -20.0, 1001: -20.5, 1002: -10.0}
    assert visits.best(100.0).tolist() == [2, 0, 1]
    assert (resampling.choices == 2).all()
    assert visits.topologies(resampling.choose()).equal(topologies.take(np.full(50, 2))).all()


def test_the_better_of_two_climbs_counts_whatever_their_order():
    topologies = all_topologies(6)
    for parts in ([[-20.0], [-15.0]], [[-15.0], [-20.0]]):
        visits, _ = visits_of()
        visits.add([part_of(topologies, [4], values) for values in parts])
        assert visits.known == {1004: -15.0}


def test_topologies_that_nothing_needs_are_forgotten_and_all_others_are_there():
    topologies = all_topologies(7)
    random = np.random.default_rng(3)
    visits, resampling = visits_of(7, keep=5)
    for start in range(0, 900, 100):
        numbers = np.arange(start, start + 100)
        sites = random.normal(-2 + start / 1000, 0.3, (100, 3)).astype(np.float32)
        visits.add([part_of(topologies, numbers, sites @ COUNTS, sites)])
    assert len(visits.known) == 900
    assert len(visits._parents) < 400
    for numbers in (resampling.choices, resampling.choose(), visits.best(100.0)):
        assert visits.topologies(numbers).equal(topologies.take(numbers)).all()


def test_nothing_new_changes_nothing():
    visits, resampling = visits_of()
    visits.add([part_of(all_topologies(6), [3], [-20.0])])
    before = resampling.choices.copy()
    visits.add([])
    visits.add([part_of(all_topologies(6), [3], [-20.0])])
    np.testing.assert_array_equal(resampling.choices, before)
    assert len(resampling.numbers) == 1


@given(st.integers(0, 2**32), st.integers(2, 30))
@settings(max_examples=50)
def test_correlations_are_numpys(seed, splits):
    random = np.random.default_rng(seed)
    first, second = random.random((2, splits))
    tables = [dict(enumerate(values.tolist())) for values in (first, second)]
    assert correlation(*tables) == pytest.approx(np.corrcoef(first, second)[0, 1], abs=1e-9)


def test_a_split_that_only_one_has_counts_as_zero_in_the_other():
    first, second = {1: 0.9, 2: 0.4}, {2: 0.5, 3: 0.2}
    expected = np.corrcoef([0.9, 0.4, 0.0], [0.0, 0.5, 0.2])[0, 1]
    assert correlation(first, second) == pytest.approx(expected)
    assert correlation(second, first) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({}, {}, 1.0),
        ({1: 1.0}, {1: 1.0}, 1.0),
        ({1: 1.0, 2: 1.0}, {1: 1.0, 2: 1.0}, 1.0),
        ({1: 1.0, 2: 1.0}, {1: 1.0, 2: 0.5}, 0.0),
        ({1: 1.0}, {2: 1.0}, -1.0),
        ({1: 0.3, 2: 0.6}, {1: 0.3, 2: 0.6}, 1.0),
    ],
)
def test_corner_cases_of_correlations(first, second, expected):
    assert correlation(first, second) == pytest.approx(expected)
