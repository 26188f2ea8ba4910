"""The whole search: the best of all trees on few taxa, the same for the same seed, odd data, and stopping."""

import time
from threading import Event, Thread

import numpy as np
import pytest
import torch

from phloem.config.search import SearchConfig
from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.data.reading import read_alignment
from phloem.errors import AlignmentError
from phloem.search.embedded import search_trees
from phloem.search.jobs import Stopped
from phloem.target.estimation import optimize_branch_lengths
from phloem.target.likelihood import TreeLikelihood
from phloem.trees.generation import all_topologies
from phloem.trees.splits import nontrivial_splits
from phloem.trees.topology import TopologyBatch
from support.search_cases import MODELS, evolved, names

SMALL = SearchConfig(count=50, threads=1)


def search(alignment, **settings):
    return search_trees(alignment, SearchConfig(**({"count": 50, "threads": 1} | settings)))


def parents(result):
    return result.bootstrap.topologies.parent, result.best.topologies.parent


def check_whole(result, alignment, count):
    """As many trees as asked for, all of them trees on the taxa, and numbers that make sense."""
    assert result.bootstrap.taxa == result.best.taxa == alignment.taxa
    assert len(result.bootstrap) == count
    for topologies in (result.topology, result.bootstrap.topologies):
        assert TopologyBatch.from_parents(topologies.parent).equal(topologies).all()
    assert np.isfinite(result.log_likelihood)
    assert ((result.branch_lengths > 0) & (result.branch_lengths < 100.001)).all()
    assert result.climbs > 0
    assert -1 <= result.correlation <= 1 + 1e-9


@pytest.mark.parametrize(
    ("words", "taxa", "seed"),
    [("JC", 7, 1), ("JC", 7, 2), ("JC", 5, 3), ("HKY", 6, 1), ("GTR+G4", 5, 2), ("GTR+I+G4", 5, 3)],
)
def test_on_few_taxa_it_finds_the_best_of_all_topologies(words, taxa, seed):
    alignment, _ = evolved(taxa, 80, seed, MODELS[words])
    found = search(alignment, model=words, seed=seed)
    likelihood = TreeLikelihood(compress(alignment), found.model, threads=1)
    topologies = all_topologies(taxa)
    reached = optimize_branch_lengths(likelihood, topologies, tolerance=1e-5)
    assert found.log_likelihood > reached.log_likelihoods.max() - 0.01
    place = int((topologies.parent == found.topology.parent).all(axis=1).argmax())
    assert reached.log_likelihoods[place] == pytest.approx(found.log_likelihood, abs=0.01)


@pytest.fixture(scope="module")
def noisy() -> Alignment:
    """Short sequences, for which bootstrap trees differ."""
    return evolved(10, 60, 7)[0]


@pytest.mark.parametrize("words", ["JC", "HKY"])
def test_a_seed_gives_the_same_whatever_the_threads_and_another_one_other_trees(noisy, words):
    one, two, three = (search(noisy, model=words, keep=20, threads=threads) for threads in (1, 2, 3))
    for other in (two, three):
        for left, right in zip(parents(one), parents(other), strict=True):
            np.testing.assert_array_equal(left, right)
        np.testing.assert_array_equal(one.branch_lengths, other.branch_lengths)
        assert (one.log_likelihood, one.climbs, one.correlation) == (
            other.log_likelihood,
            other.climbs,
            other.correlation,
        )
    assert one.model.describe() == two.model.describe()
    another = search(noisy, model=words, keep=20, seed=2)
    assert not np.array_equal(parents(one)[0], parents(another)[0])
    assert another.log_likelihood == pytest.approx(one.log_likelihood, abs=0.05)


def test_the_best_trees_are_kept_best_first_and_within_what_was_asked(noisy):
    many = search(noisy, keep=40, within=5.0)
    few = search(noisy, keep=5, within=5.0)
    close = search(noisy, keep=40, within=1.0)
    assert len(search(noisy).best) == 0
    assert 5 < len(many.best) <= 40
    assert many.best[:5].topologies.equal(few.best.topologies).all()
    assert many.best[: len(close.best)].topologies.equal(close.best.topologies).all()
    assert len(np.unique(many.best.topologies.parent, axis=0)) == len(many.best)
    likelihood = TreeLikelihood(compress(noisy), threads=1)
    values = optimize_branch_lengths(likelihood, many.best.topologies).log_likelihoods
    assert values[0] == pytest.approx(many.log_likelihood, abs=0.01)
    assert (many.best.topologies.parent == many.topology.parent).all(axis=1).any()
    assert values.min() > many.log_likelihood - 5.0 - 0.1
    # They are ranked with only the branches around a move fitted: about right, and not to the last tenth.
    assert np.corrcoef(np.arange(len(values)), values)[0, 1] < -0.8
    near = optimize_branch_lengths(likelihood, close.best.topologies).log_likelihoods
    assert near.min() > many.log_likelihood - 1.0 - 0.1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_trees_that_are_kept_are_the_best_of_all_topologies(seed):
    alignment, _ = evolved(6, 60, seed)
    found = search(alignment, keep=8, within=1000.0)
    likelihood = TreeLikelihood(compress(alignment), threads=1)
    every = np.sort(optimize_branch_lengths(likelihood, all_topologies(6)).log_likelihoods)
    kept = optimize_branch_lengths(likelihood, found.best.topologies).log_likelihoods
    assert len(kept) == 8
    # With all lengths fitted two trees may change places at the end of the list.
    assert (np.sort(kept) > every[-8:] - 1.0).all()
    assert kept.max() == pytest.approx(every[-1], abs=1e-3)


def test_bootstrap_trees_are_those_of_plain_resampling(noisy):
    """Of five taxa: every topology with its best lengths, sites drawn anew, one of those within half a unit."""
    alignment = Alignment(noisy.taxa[:5], noisy.states[:5])
    found = search(alignment, count=4000)
    topologies = all_topologies(5)
    likelihood = TreeLikelihood(compress(alignment), threads=1)
    lengths = optimize_branch_lengths(likelihood, topologies).branch_lengths
    sites = likelihood.of_sites(topologies, torch.tensor(lengths))  # (trees, sites)
    random = np.random.default_rng(1)
    values = sites[:, random.integers(alignment.site_count, size=(4000, alignment.site_count))].sum(axis=2)
    lots = np.where(values >= values.max(axis=0) - 0.5, random.random(values.shape), -1.0)
    expected = np.bincount(lots.argmax(axis=0), minlength=15) / 4000
    ours = (found.bootstrap.topologies.parent == topologies.parent[:, None]).all(axis=2).mean(axis=1)
    np.testing.assert_allclose(ours, expected, atol=0.05)


def test_supports_of_the_tree_are_shares_of_the_bootstrap_trees(noisy):
    found = search(noisy, count=200)
    tree = found.tree
    splits = nontrivial_splits(found.topology)[0]
    of_trees = nontrivial_splits(found.bootstrap.topologies)
    expected = [(of_trees == split).all(axis=2).any(axis=1).mean() for split in splits]
    taxa = len(noisy.taxa)
    np.testing.assert_allclose(tree.support[taxa : 2 * taxa - 3], expected)
    np.testing.assert_array_equal(tree.length[: 2 * taxa - 3], found.branch_lengths)


@pytest.mark.parametrize("count", [1, 7])
def test_few_replicates(noisy, count):
    check_whole(search(noisy, count=count), noisy, count)


LETTERS = "ACGTACGTAACC"
ODD = {
    "four taxa": ["ACGTACGTAA", "ACGTACGTAC", "ACGAACTTAC", "ACGAACTTCC"],
    "one site": ["A", "A", "C", "C", "G"],
    "identical sequences": [LETTERS] * 6,
    "some identical sequences": [LETTERS] * 3 + ["ACGTACGTAAGG", "ACTTACGTAAGG"],
    "no variable site": ["AAAA"] * 5,
    "gaps alone": ["----"] * 5,
    "a taxon of gaps": ["ACGTACGTAA", "ACGTACGTAC", "------------"[:10], "ACGAACTTAC", "ACGAACTTCC"],
    "two taxa of gaps": ["ACGTACGTAA", "ACGTACGTAC", "-" * 10, "ACGAACTTAC", "-" * 10],
    "taxon 0 of gaps": ["-" * 10, "ACGTACGTAA", "ACGTACGTAC", "ACGAACTTAC", "ACGAACTTCC"],
    "ambiguous letters": ["RRYYSS", "MMKKWW", "BBDDHH", "VVNNAC", "ACGTAC"],
    "all taxa differ everywhere": ["A" * 9, "C" * 9, "G" * 9, "T" * 9],
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("words", ["JC", "GTR+I+G4"])
def test_odd_data_give_trees(kind, words):
    alignment = Alignment.from_sequences(names(len(ODD[kind])), ODD[kind])
    check_whole(search(alignment, model=words, keep=3), alignment, 50)


def test_where_sequences_say_nothing_all_trees_are_bootstrap_trees():
    alignment = Alignment.from_sequences(names(5), ["ACGT" * 5] * 5)
    found = search(alignment, count=3000)
    _, counts = np.unique(found.bootstrap.topologies.parent, axis=0, return_counts=True)
    assert len(counts) == 15
    assert counts.min() > 100


def test_more_taxa_than_sites():
    random = np.random.default_rng(1)
    rows = ["".join(random.choice(list("ACGT"), 20)) for _ in range(60)]
    alignment = Alignment.from_sequences(names(60), rows)
    stop, reports = Event(), []

    def report(news):
        reports.append(news)
        if news.climbs >= 30:
            stop.set()

    with pytest.raises(Stopped):
        search_trees(alignment, SMALL, stop=stop, report=report)
    assert np.isfinite(reports[-1].log_likelihood)


def test_three_taxa_are_too_few():
    alignment = Alignment.from_sequences("ABC", ["ACGT", "ACGA", "ACTT"])
    with pytest.raises(AlignmentError, match=r"3 taxa\. A search needs at least 4"):
        search(alignment)


def test_reports_rise_and_stay_below_one(noisy):
    reports = []
    found = search_trees(noisy, SMALL, report=reports.append)
    assert [news.climbs for news in reports] == sorted({news.climbs for news in reports})
    assert all(0 < news.fraction < 1 for news in reports)
    values = [news.log_likelihood for news in reports]
    assert values == sorted(values)
    assert reports[-1].climbs == found.climbs
    assert found.log_likelihood >= values[-1] - 1e-6


def test_a_search_told_to_stop_before_it_begins_does_so_at_once():
    stop = Event()
    stop.set()
    start = time.monotonic()
    with pytest.raises(Stopped):
        search_trees(read_alignment("primates"), SearchConfig(), stop=stop)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("threads", [1, 2])
def test_a_search_told_to_stop_on_its_way_does_so_soon(threads):
    alignment = evolved(60, 500, 3)[0]
    stop = Event()
    ended = []

    def run():
        try:
            search_trees(alignment, SearchConfig(threads=threads), stop=stop)
        except Stopped:
            ended.append(time.monotonic())

    thread = Thread(target=run)
    thread.start()
    time.sleep(1.0)
    told = time.monotonic()
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
    assert ended
    assert ended[0] - told < 5
