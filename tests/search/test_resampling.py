"""Bootstrap by resampling against explicit products in double precision; supports and best trees of visits."""

from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from phloem.random_streams import RandomStream
from phloem.search import resampling as module
from phloem.search.climbing import VisitedTrees
from phloem.search.jobs import Stopped
from phloem.search.resampling import TIE, Resampling, Visits, correlation
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.splits import pack_members, split_frequencies
from phloem.trees.topology import taxon_keys

STREAM = RandomStream(5, "test resampling")
REPLICATES = 60
COUNTS = np.array([2.0, 3.0, 5.0])
VISITS = RandomStream(1, "test visits")


def small_parts(monkeypatch, replicates=7, trees=3):
    monkeypatch.setattr(module, "REPLICATES_AT_A_TIME", replicates)
    monkeypatch.setattr(module, "TREES_AT_A_TIME", trees)


def random_trees(seed, trees=25, patterns=12, spread=0.3):
    """Counts of patterns, and log-likelihoods of the patterns of trees that are about equally good."""
    random = np.random.default_rng(seed)
    counts = random.integers(1, 9, patterns).astype(float)
    sites = -5 + random.normal(0, spread, (trees, patterns))
    return counts, sites.astype(np.float32)


def products(resampling, sites):
    """Log-likelihoods of all trees on all replicates, (trees, replicates), in double precision."""
    drawn = np.concatenate([counts for _, counts in resampling._parts()], axis=1).astype(np.float64)
    return sites[:, : len(drawn)].astype(np.float64) @ drawn


def shown(counts, sites, **others):
    resampling = Resampling(counts, REPLICATES, stream=STREAM, **others)
    resampling.add(np.arange(len(sites)), sites)
    return resampling


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_choices_are_the_largest_products(seed):
    counts, sites = random_trees(seed)
    resampling = shown(counts, sites)
    values = products(resampling, sites)
    best = values.max(axis=0)
    np.testing.assert_allclose(values[resampling.choices, np.arange(REPLICATES)], best, atol=1e-3)
    clear = np.sort(values, axis=0)[-2] < best - 1e-3
    np.testing.assert_array_equal(resampling.choices[clear], values.argmax(axis=0)[clear])


def test_patterns_that_fill_up_blocks_do_not_count():
    counts, sites = random_trees(2)
    wider = np.hstack([sites, np.random.default_rng(1).normal(0, 100, (len(sites), 20)).astype(np.float32)])
    np.testing.assert_array_equal(shown(counts, sites).choices, shown(counts, wider).choices)


@pytest.mark.parametrize("trees", [1, 3, 100])
def test_trees_shown_in_parts_and_products_made_in_parts_change_nothing(monkeypatch, trees):
    counts, sites = random_trees(3)
    numbers = np.arange(len(sites))
    small_parts(monkeypatch, replicates=7, trees=25)
    whole = shown(counts, sites)
    small_parts(monkeypatch, replicates=7, trees=trees)
    in_parts = shown(counts, sites)
    in_calls = Resampling(counts, REPLICATES, stream=STREAM)
    for place in range(0, len(sites), 4):
        in_calls.add(numbers[place : place + 4], sites[place : place + 4])
    for other in (in_parts, in_calls):
        np.testing.assert_array_equal(other.choices, whole.choices)
        values = products(other, sites)
        chosen = other.choose()
        assert (values[chosen, np.arange(REPLICATES)] >= values.max(axis=0) - TIE - 1e-3).all()
        # What comes early is kept for replicates whose best is found later; nothing that counts is missing.
        near = (values >= values.max(axis=0) - TIE + 1e-3).any(axis=1)
        assert set(np.flatnonzero(near)) <= set(other.numbers.tolist())


def test_counts_that_do_not_fit_are_drawn_anew_and_are_the_same(monkeypatch):
    counts, sites = random_trees(4)
    small_parts(monkeypatch, replicates=10)
    kept = shown(counts, sites)
    monkeypatch.setattr(module, "LARGEST_COUNTS", 0)
    drawn = shown(counts, sites)
    assert kept._drawn
    assert not drawn._drawn
    np.testing.assert_array_equal(kept.choices, drawn.choices)
    np.testing.assert_array_equal(kept.choose(), drawn.choose())


def test_a_replicate_has_as_many_sites_as_the_alignment_drawn_alike():
    counts = np.array([1.0, 2.0, 5.0, 12.0])
    resampling = Resampling(counts, 4000, stream=STREAM)
    drawn = np.concatenate([part for _, part in resampling._parts()], axis=1)
    assert drawn.shape == (4, 4000)
    assert (drawn.sum(axis=0) == 20).all()
    shares = counts / 20
    errors = np.sqrt(20 * shares * (1 - shares) / 4000)
    assert (np.abs(drawn.mean(axis=1) - counts) < 4 * errors).all()
    np.testing.assert_allclose(drawn.var(axis=1), 20 * shares * (1 - shares), rtol=0.15)
    # One pattern of count 1: its number of draws is binomial.
    observed = np.bincount(drawn[0].astype(int), minlength=5)[:5]
    expected = 4000 * stats.binom.pmf(np.arange(5), 20, 0.05)
    expected[4] += 4000 - expected.sum()
    assert stats.chisquare(np.append(observed[:4], 4000 - observed[:4].sum()), expected).pvalue > 1e-3
    other = Resampling(counts, 4000, stream=RandomStream(6, "test resampling"))
    assert not np.array_equal(drawn, np.concatenate([part for _, part in other._parts()], axis=1))


@pytest.mark.parametrize("trees_at_a_time", [2, 1000])
def test_equally_good_trees_are_chosen_alike_and_others_never(monkeypatch, trees_at_a_time):
    monkeypatch.setattr(module, "TREES_AT_A_TIME", trees_at_a_time)
    counts = np.array([3.0, 7.0])
    sites = np.zeros((8, 2), np.float32) - 2
    sites[5] -= 0.04  # 0.4 worse on ten sites: a tie
    sites[6] -= 0.06  # 0.6 worse: none
    sites[7] -= 1.0
    resampling = Resampling(counts, 6000, stream=STREAM)
    resampling.add(np.arange(8), sites)
    chosen = np.bincount(resampling.choose(), minlength=8)
    assert (chosen[6:] == 0).all()
    assert stats.chisquare(chosen[:6]).pvalue > 1e-3


@pytest.mark.parametrize("trees_at_a_time", [2, 1000])
def test_a_tree_that_was_shown_often_is_chosen_no_more_often_than_others(monkeypatch, trees_at_a_time):
    monkeypatch.setattr(module, "TREES_AT_A_TIME", trees_at_a_time)
    sites = np.zeros((6, 2), np.float32) - 2
    resampling = Resampling(np.array([3.0, 7.0]), 6000, stream=STREAM)
    resampling.add(np.arange(6), sites)
    for better in range(1, 5):
        resampling.add(np.array([1, 4]), sites[:2] + np.float32(better / 1000))
    assert len(resampling.numbers) == 14
    assert stats.chisquare(np.bincount(resampling.choose(), minlength=6)).pvalue > 1e-3


@given(st.integers(0, 2**32))
@settings(max_examples=20)
def test_choosing_picks_trees_within_a_tie(seed):
    counts, sites = random_trees(seed, spread=0.1)
    resampling = shown(counts, sites)
    values = products(resampling, sites)
    chosen = resampling.choose()
    assert (values[chosen, np.arange(REPLICATES)] >= values.max(axis=0) - TIE - 1e-3).all()
    np.testing.assert_array_equal(chosen, resampling.choose())


@pytest.mark.parametrize("room", [1, 3, 10])
def test_forgetting_keeps_every_replicates_best_and_its_row_where_there_is_room(monkeypatch, room):
    small_parts(monkeypatch)
    counts, sites = random_trees(0, trees=60, spread=0.02)
    resampling = Resampling(counts, REPLICATES, stream=STREAM, largest_kept=2 * room * sites[0].nbytes)
    unbounded = shown(counts, sites)
    for place in range(0, 60, 5):
        resampling.add(np.arange(place, place + 5), sites[place : place + 5])
        assert len(resampling.numbers) <= 2 * room
    np.testing.assert_array_equal(resampling.choices, unbounded.choices)
    best = set(resampling.choices.tolist())
    assert 3 < len(best) <= 10
    assert len(unbounded.numbers) > 20
    if room == 10:
        assert best <= set(resampling.numbers.tolist())
    values = products(resampling, sites)
    chosen = values[resampling.choose(), np.arange(REPLICATES)]
    assert (chosen >= values.max(axis=0) - TIE - 1e-3).all()


def test_a_tree_shown_again_with_better_lengths_competes_under_its_number():
    counts = np.array([5.0, 5.0])
    sites = np.array([[-2.0, -2.0], [-2.5, -2.5]], np.float32)
    resampling = shown(counts, sites)
    assert (resampling.choices == 0).all()
    resampling.add(np.array([1]), np.array([[-1.0, -1.0]], np.float32))
    assert (resampling.choices == 1).all()
    assert (resampling.choose() == 1).all()


def test_large_log_likelihoods_lose_no_digits():
    """Sums of ten thousand sites in single precision would be good to a unit or so, were they not differences."""
    counts = np.full(2000, 5.0)
    random = np.random.default_rng(8)
    common = -10 + random.normal(0, 1, 2000)
    sites = (common + random.normal(0, 1e-3, (10, 2000))).astype(np.float32)
    resampling = shown(counts, sites)
    values = products(resampling, sites)
    np.testing.assert_allclose(values[resampling.choices, np.arange(REPLICATES)], values.max(axis=0), atol=0.01, rtol=0)


def test_it_ends_between_two_parts_once_it_is_told_to_stop(monkeypatch):
    small_parts(monkeypatch)
    counts, sites = random_trees(0)
    stop = Event()
    resampling = shown(counts, sites, stop=stop)
    stop.set()
    with pytest.raises(Stopped):
        resampling.choose()


def part_of(topologies, numbers, values, sites=None):
    """Trees with keys of their own; their sites sum to the values."""
    values = np.asarray(values, np.float64)
    if sites is None:
        sites = np.repeat(values[:, None] / COUNTS.sum(), len(COUNTS), axis=1).astype(np.float32)
    numbers = np.asarray(numbers)
    return VisitedTrees(1000 + numbers.astype(np.uint64), topologies.parent[numbers], values, sites)


def visits_of(taxa=6, keep=0, replicates=50, **others):
    resampling = Resampling(COUNTS, replicates, stream=VISITS, **others)
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
