"""The whole search: the best of all trees on few taxa, odd data, interruptions, and real data beside IQ-TREE."""

import re
import subprocess
import threading
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import torch

import phloem
from phloem.config.search import SearchConfig
from phloem.data.alignment import Alignment
from phloem.data.patterns import compress
from phloem.data.reading import find_alignment, read_alignment
from phloem.errors import AlignmentError, ConfigError
from phloem.search.embedded import search_trees
from phloem.search.jobs import Stopped
from phloem.target.estimation import optimize_branch_lengths
from phloem.target.likelihood import TreeLikelihood
from phloem.trees.generation import all_topologies
from phloem.trees.reading import read_trees
from phloem.trees.sample import TreeSample, pool
from phloem.trees.splits import nontrivial_splits, split_frequencies
from phloem.trees.topology import TopologyBatch
from phloem.variational.sbn import collect_support
from support.search_cases import MODELS, evolved, names

SMALL = SearchConfig(count=50, threads=1)
# The best tree of DS1 under Jukes–Cantor by IQ-TREE 2.0.7, `iqtree2 -s DS1.fasta -m JC -seed 1`: -6884.6006.
DS1_LOG_LIKELIHOOD = -6884.601


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
    assert found.log_likelihood >= values[-1] - 1e-3  # those on the way are in single precision


def test_a_search_told_to_stop_before_it_begins_does_so_at_once():
    stop = Event()
    stop.set()
    reports = []
    with pytest.raises(Stopped):
        search_trees(read_alignment("primates"), SearchConfig(), report=reports.append, stop=stop)
    assert not reports


@pytest.mark.parametrize("threads", [1, 2])
def test_a_search_told_to_stop_on_its_way_does_so_soon(threads):
    stop = Event()
    reports = []

    def stop_at_the_first(news):
        reports.append(news)
        stop.set()

    with pytest.raises(Stopped):
        search_trees(evolved(60, 500, 3)[0], SearchConfig(threads=threads), report=stop_at_the_first, stop=stop)
    assert len(reports) <= 1 + threads


@pytest.fixture(scope="module")
def small() -> Alignment:
    primates = phloem.read_alignment("primates")
    return Alignment(primates.taxa[:8], primates.states[:8, :300])


@pytest.fixture(scope="module")
def found(small) -> phloem.search.SearchResult:
    return phloem.maximum_likelihood_tree(small, count=200, keep=4, within=100.0, seed=3)


def test_supports_are_shares_of_the_bootstrap_trees(found, small):
    tree = found.tree
    assert tree.taxa == small.taxa
    np.testing.assert_array_equal(tree.tree.parent, found.topology.parent[0])
    np.testing.assert_array_equal(tree.length[:-1], found.branch_lengths)
    assert (tree.support[:8] == 1).all()
    assert np.isnan(tree.support[-1])
    trees = [{row.tobytes() for row in splits} for splits in nontrivial_splits(found.bootstrap.topologies)]
    for row, support in zip(nontrivial_splits(found.topology)[0], tree.support[8:-1], strict=True):
        assert support == pytest.approx(np.mean([row.tobytes() in splits for splits in trees]))
    assert 0 < tree.support[8:-1].min() < 1


def test_a_branch_that_no_bootstrap_tree_has_gets_support_0(found):
    others = phloem.trees.random_topologies(8, 1, stream=phloem.RandomStream(1, "far"))
    tree = replace(found, topology=others, bootstrap=found.bootstrap[:1]).tree
    have = {row.tobytes() for row in nontrivial_splits(found.bootstrap.topologies[:1])[0]}
    expected = [float(row.tobytes() in have) for row in nontrivial_splits(others)[0]]
    assert tree.support[8:-1].tolist() == expected
    assert 0 in expected


def test_the_value_is_that_of_the_tree_with_its_lengths_under_the_model(found, small):
    likelihood = phloem.models.TreeLikelihood(phloem.data.compress(small), found.model)
    [value] = likelihood(found.topology, torch.from_numpy(found.branch_lengths[None]))
    assert float(value) == pytest.approx(found.log_likelihood, abs=1e-6)
    assert (len(found.bootstrap), len(found.best)) == (200, 4)
    np.testing.assert_array_equal(found.best.topologies.parent[0], found.topology.parent[0])


def test_the_result_depends_on_the_seed_and_not_on_threads(found, small):
    again = phloem.maximum_likelihood_tree(small, count=200, seed=3, threads=1)
    np.testing.assert_array_equal(again.bootstrap.topologies.parent, found.bootstrap.topologies.parent)
    np.testing.assert_array_equal(again.branch_lengths, found.branch_lengths)
    other = phloem.maximum_likelihood_tree(small, count=200, seed=4)
    assert not np.array_equal(other.bootstrap.topologies.parent, found.bootstrap.topologies.parent)
    assert other.log_likelihood == pytest.approx(found.log_likelihood, abs=1e-3)


def test_an_example_by_name_under_a_model_with_parameters(small):
    told = []
    found = phloem.maximum_likelihood_tree(
        "primates", count=10, model="HKY", progress=lambda n: told.append((n, here()))
    )
    assert found.model.name == "HKY85"
    assert found.log_likelihood == pytest.approx(-5984.54, abs=0.05)  # IQ-TREE's
    assert {thread for _, thread in told} == {here()}
    assert all(0 < news.fraction < 1 for news, _ in told)
    assert told[-1][0].log_likelihood == pytest.approx(found.log_likelihood, abs=5)


def here() -> threading.Thread:
    return threading.current_thread()


def test_an_interruption_leaves_no_busy_thread(small):
    def interrupt(_news):
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        phloem.maximum_likelihood_tree(small, count=1000, threads=1, progress=interrupt)
    assert threading.active_count() == before


def test_what_is_wrong_is_told_at_once():
    with pytest.raises(AlignmentError, match=r"3 taxa. A search needs at least 4"):
        phloem.maximum_likelihood_tree(Alignment.from_sequences("ABC", ["AC", "AG", "AT"]))
    with pytest.raises(ConfigError, match="--model 'MFP': give"):
        phloem.maximum_likelihood_tree("primates", model="MFP")
    with pytest.raises(ConfigError, match="--within -1"):
        phloem.maximum_likelihood_tree("primates", within=-1.0)


def iqtree_best(iqtree: str, folder, words: str) -> float:
    """The log-likelihood of the best tree of the primates that IQ-TREE finds."""
    command = [iqtree, "-s", str(find_alignment("primates")), "-m", words, "-pre", "out", "-nt", "1", "-seed", "1"]
    subprocess.run([*command, "-quiet", "-keep-ident"], cwd=folder, check=True, capture_output=True)
    found = re.search(r"Log-likelihood of the tree: (\S+)", (folder / "out.iqtree").read_text())
    assert found is not None
    return float(found.group(1))


@pytest.mark.parametrize("words", ["JC", "HKY", "GTR+G4"])
def test_the_best_tree_of_the_primates_is_as_good_as_iqtrees(iqtree, tmp_path, words):
    # With +F frequencies are counted, as ours are.
    theirs = iqtree_best(
        iqtree, tmp_path, words if words == "JC" else words.replace("GTR", "GTR+F").replace("Y", "Y+F")
    )
    ours = search_trees(read_alignment("primates"), SearchConfig(count=100, model=words, threads=1))
    assert ours.log_likelihood >= theirs - 0.05


def test_the_best_tree_of_ds1_is_as_good_as_iqtrees(real_data):
    alignment = read_alignment(real_data / "alignments" / "DS1.fasta")
    found = search_trees(alignment, SearchConfig(count=100, threads=1))
    assert found.log_likelihood >= DS1_LOG_LIKELIHOOD - 0.05


def supports_of(sample: TreeSample) -> dict[bytes, float]:
    frequencies = split_frequencies(sample)
    return {row.tobytes(): share for row, share in zip(frequencies.members, frequencies.frequencies, strict=True)}


@pytest.fixture(scope="module")
def ds1_replicates(real_data) -> list[TreeSample]:
    """Three searches of DS1 with a thousand bootstrap trees each."""
    alignment = read_alignment(real_data / "alignments" / "DS1.fasta")
    return [search_trees(alignment, SearchConfig(seed=seed)).bootstrap for seed in (1, 2, 3)]


@pytest.mark.slow
def test_split_supports_of_ds1_are_those_of_the_ultrafast_bootstrap(real_data, ds1_replicates):
    theirs = read_trees(real_data / "ufboot" / "DS1" / "rep_1.ufboot.gz", taxa=ds1_replicates[0].taxa)
    for sample in ds1_replicates:
        tables = supports_of(sample), supports_of(theirs)
        splits = sorted(tables[0].keys() | tables[1].keys())
        values = [[table.get(split, 0.0) for split in splits] for table in tables]
        assert np.corrcoef(values)[0, 1] >= 0.97


@pytest.mark.slow
def test_the_support_of_three_replicates_covers_the_posterior_of_ds1(real_data, ds1_replicates):
    support = collect_support(ds1_replicates, credible=1.0)
    files = sorted((real_data / "mrbayes" / "DS1").glob("*.trprobs.gz"))
    reference = pool([read_trees(path, taxa=support.taxa) for path in files]).distinct()
    covered = reference.weights[support.generates(reference.topologies)].sum()
    assert covered >= 0.99
