"""Bootstrap methods: which one `auto` is, what each refuses, and what the embedded one leaves in a directory."""

import json
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import phloem
from phloem.config import BootstrapConfig
from phloem.data.alignment import Alignment
from phloem.errors import AlignmentError, ConfigError, FileProblem, ProgramProblem
from phloem.kernels.trees.clades import clade_bits
from phloem.search import bootstrap as methods
from phloem.search.bootstrap import bootstrap_files, bootstrap_samples, replicate_seed, settled_method
from phloem.search.jobs import SearchProgress, Stopped, run_jobs, shared_threads
from phloem.search.replicates import method_in
from phloem.trees.reading import read_trees

AUTO = BootstrapConfig(replicates=2, count=5)
EMBEDDED = replace(AUTO, method="embedded")
IQTREE = BootstrapConfig(replicates=2, method="iqtree")


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No program is on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


class FakeSearch:
    """Stands in for the embedded search: gives a real result at once, and remembers what it was asked for."""

    def __init__(self, alignment, monkeypatch):
        self._real = methods.search_trees
        self._alignment = alignment
        self.asked = []
        monkeypatch.setattr(methods, "search_trees", self)
        self.act = lambda config, stop: None

    def __call__(self, alignment, config, *, stop, report):
        self.asked.append(config)
        report(SearchProgress(0.5, -1.0, 1))
        self.act(config, stop)
        return self._real(alignment, config)


@pytest.fixture
def search(alignment, monkeypatch):
    return FakeSearch(alignment, monkeypatch)


def test_auto_is_iqtree_where_it_is_found(fake, alignment, tmp_path):
    made = bootstrap_files(alignment, tmp_path / "out", replace(AUTO, count=1000))
    assert (made.method, made.programs, len(fake.calls)) == ("iqtree", ("IQ-TREE 9.8.7",), 2)


def test_auto_is_the_embedded_search_where_there_is_none(nowhere, alignment, tmp_path):
    made = bootstrap_files(alignment, tmp_path / "out", AUTO)
    assert made.method == "embedded"
    assert made.programs == (f"embedded search of phloem {phloem.__version__}",)
    assert [len(read_trees(path, taxa="ABCD")) for path in made.files] == [5, 5]


@pytest.mark.parametrize("change", [{"count": 10}, {"count": 1000, "keep": 3}])
def test_what_the_method_cannot_do_is_known_when_auto_is_settled(fake, alignment, tmp_path, change):
    with pytest.raises(ConfigError, match="--method embedded"):
        bootstrap_files(alignment, tmp_path / "out", replace(AUTO, **change))
    assert not (tmp_path / "out").exists()
    assert fake.calls == []


def test_a_model_that_only_iqtree_knows_needs_it(nowhere, alignment, tmp_path):
    with pytest.raises(ConfigError, match=r"--model 'MFP': give JC, K80.* the method iqtree"):
        bootstrap_files(alignment, tmp_path / "out", replace(AUTO, model="MFP"))
    assert not (tmp_path / "out").exists()


def test_auto_goes_on_with_the_method_of_the_directory(fake, alignment, tmp_path, monkeypatch):
    with monkeypatch.context() as without:
        without.setenv("PATH", "")
        bootstrap_files(alignment, tmp_path / "out", AUTO)
    made = bootstrap_files(alignment, tmp_path / "out", replace(AUTO, replicates=3))
    assert (made.method, made.found, fake.calls) == ("embedded", 2, [])
    bootstrap_files(alignment, tmp_path / "other", IQTREE)
    with monkeypatch.context() as without:
        without.setenv("PATH", "")
        whole = bootstrap_files(alignment, tmp_path / "other", replace(IQTREE, method="auto"))
        assert (whole.method, whole.found) == ("iqtree", 2)
        with pytest.raises(ProgramProblem, match="IQ-TREE is not installed"):
            bootstrap_files(alignment, tmp_path / "other", replace(IQTREE, method="auto", replicates=3))


def test_a_manifest_without_a_method_is_iqtrees(fake, alignment, tmp_path):
    """As they were before there was another."""
    bootstrap_files(alignment, tmp_path / "out", IQTREE)
    path = tmp_path / "out" / "bootstrap.json"
    manifest = json.loads(path.read_text())
    old = {key: value for key, value in manifest.items() if key not in ("method", "keep", "within")}
    path.write_text(json.dumps(old))
    assert method_in(tmp_path / "out") == "iqtree"
    assert bootstrap_files(alignment, tmp_path / "out", IQTREE).found == 2
    assert len(fake.calls) == 2
    with pytest.raises(FileProblem, match="holds replicates with method iqtree, not embedded"):
        bootstrap_files(alignment, tmp_path / "out", replace(EMBEDDED, count=1000))
    bootstrap_files(alignment, tmp_path / "out", replace(IQTREE, replicates=3))
    assert json.loads(path.read_text())["method"] == "iqtree"


@pytest.mark.parametrize(
    "content", [None, "", "[1]", '{"files": {}}', '{"files": {"a": 1}, "method": "x"}', '{"files": 3}']
)
def test_a_directory_without_replicates_has_no_method(tmp_path, content, monkeypatch):
    (tmp_path / "a").touch()
    if content is not None:
        (tmp_path / "bootstrap.json").write_text(content)
    assert method_in(tmp_path) is None
    monkeypatch.setenv("PATH", "")
    assert settled_method("auto", tmp_path) == "embedded"


def test_the_trees_that_are_kept_are_settings_of_the_directory(nowhere, alignment, tmp_path):
    keeping = replace(EMBEDDED, keep=2, within=50.0)
    made = bootstrap_files(alignment, tmp_path / "out", keeping)
    assert made.found == 0
    for change, what in (
        ({"keep": 0}, "with keep 2, not 0"),
        ({"keep": 1}, "with keep 2, not 1"),
        ({"within": 3.0}, "with within 50.0, not 3.0"),
    ):
        with pytest.raises(FileProblem, match=what):
            bootstrap_files(alignment, tmp_path / "out", replace(keeping, **change))
    bootstrap_files(alignment, tmp_path / "none", EMBEDDED)
    assert bootstrap_files(alignment, tmp_path / "none", replace(EMBEDDED, within=3.0)).found == 2  # of no trees


def test_the_best_trees_come_after_the_bootstrap_trees(alignment):
    settings = {"count": 5, "replicates": 1, "method": "embedded"}
    [plain] = phloem.bootstrap(alignment, **settings)
    [more] = phloem.bootstrap(alignment, keep=3, within=1e6, **settings)
    assert (len(plain), len(more)) == (5, 8)
    np.testing.assert_array_equal(plain.topologies.parent, more.topologies.parent[:5])
    assert len(more[[5, 6, 7]].distinct()) == 3  # four taxa have three trees
    likelihood = phloem.models.TreeLikelihood(phloem.data.compress(alignment))
    values = phloem.models.optimize_branch_lengths(likelihood, more.topologies[5:]).log_likelihoods
    assert (np.diff(values) < 1e-3).all()


def test_every_replicate_is_a_search_with_a_seed_of_its_own(search, alignment, tmp_path):
    config = replace(EMBEDDED, replicates=3, seed=5, model="HKY", keep=4, within=2.0, threads=1)
    bootstrap_files(alignment, tmp_path / "out", config)
    assert [asked.seed for asked in search.asked] == [replicate_seed(5, replicate) for replicate in (1, 2, 3)]
    assert {(asked.count, asked.model, asked.keep, asked.within, asked.threads) for asked in search.asked} == {
        (5, "HKY", 4, 2.0, 1)
    }


@pytest.mark.parametrize(
    ("jobs", "threads", "shares"),
    [
        (1, 1, [1]),
        (1, 4, [4]),
        (3, 4, [2, 1, 1]),
        (2, 5, [3, 2]),
        (4, 4, [1] * 4),
        (5, 2, [1, 1, 1, 1, 2]),
        (10, 3, [1] * 9 + [3]),
    ],
)
def test_threads_are_shared_out_where_fewer_searches_are_left(jobs, threads, shares):
    assert shared_threads(jobs, threads) == shares


def test_files_do_not_depend_on_threads_and_samples_are_the_same_trees(nowhere, tmp_path):
    primates = phloem.read_alignment("primates")
    small = Alignment(primates.taxa[:7], primates.states[:7, :150])
    config = BootstrapConfig(replicates=2, count=20, keep=5)
    made = [bootstrap_files(small, tmp_path / str(threads), replace(config, threads=threads)) for threads in (1, 2, 5)]
    contents = [[path.read_bytes() for path in one.files] for one in made]
    assert contents[0] == contents[1] == contents[2]
    assert contents[0][0] != contents[0][1]
    samples = bootstrap_samples(small, config)
    for path, sample in zip(made[0].files, samples, strict=True):
        written = read_trees(path, taxa=small.taxa)
        np.testing.assert_array_equal(written.topologies.parent, sample.topologies.parent)
        assert 20 < len(sample) <= 25
        assert sample.taxa == small.taxa
    other = bootstrap_samples(small, replace(config, seed=2))
    assert not np.array_equal(other[0].topologies.parent, samples[0].topologies.parent)


def test_samples_by_iqtree_are_those_of_its_files(fake, alignment):
    told = []
    samples = phloem.bootstrap(alignment, replicates=2, method="iqtree", progress=told.append)
    assert [len(sample) for sample in samples] == [1000, 1000]
    assert clade_bits(samples[0].topologies.parent, 4).shape[0] == 1000
    assert told[-1][1:] == (1.0, 2)
    fake("echo 'ERROR: Too bad'; exit 2")
    with pytest.raises(ProgramProblem, match=r"^replicate 1: IQ-TREE ended with exit code 2 \(ERROR: Too bad\)\.$"):
        phloem.bootstrap(alignment, replicates=1)


def test_a_search_that_takes_too_long_is_stopped(search, alignment, tmp_path):
    def wait(_config, stop):
        while not stop.is_set():
            time.sleep(0.01)
        raise Stopped

    search.act = wait
    what = r"^replicate 1: the search took more than 0.2 seconds and was stopped. Give a longer --timeout.$"
    with pytest.raises(ProgramProblem, match=what):
        bootstrap_files(alignment, tmp_path / "out", replace(EMBEDDED, replicates=1, timeout=0.2))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["bootstrap.json"]


def test_an_interruption_leaves_what_is_finished_and_no_busy_thread(search, alignment, tmp_path):
    ended = []

    def wait(config, stop):
        if config.seed != replicate_seed(1, 1):
            while not stop.is_set():
                time.sleep(0.01)
            ended.append(config.seed)
            raise Stopped

    search.act = wait

    def interrupt(news):
        if news.done:
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        bootstrap_files(alignment, tmp_path / "out", replace(EMBEDDED, replicates=5, threads=2), progress=interrupt)
    assert threading.active_count() == before
    assert len(ended) in (1, 2)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bootstrap.json", "replicate_01.nwk.gz"]
    search.act = lambda _config, _stop: None
    assert bootstrap_files(alignment, tmp_path / "out", replace(EMBEDDED, replicates=2)).found == 1


def test_a_failure_in_one_search_ends_the_others(search, alignment, tmp_path):
    def fail(config, stop):
        if config.seed == replicate_seed(1, 1):
            raise AlignmentError("bad luck")
        while not stop.is_set():
            time.sleep(0.01)
        raise Stopped

    search.act = fail
    with pytest.raises(AlignmentError, match="bad luck"):
        bootstrap_files(alignment, tmp_path / "out", replace(EMBEDDED, replicates=3, threads=2))


def test_jobs_tell_their_news_to_the_calling_thread():
    heard, ended = [], []

    def work(job, stop, tell):
        tell(threading.current_thread())
        return 10 * job

    run_jobs(
        [3, 4, 5],
        2,
        work,
        heard=lambda job, thread: heard.append((job, thread is threading.current_thread())),
        ended=lambda job, result: ended.append((job, result)),
    )
    assert sorted(heard) == [(3, False), (4, False), (5, False)]
    assert sorted(ended) == [(3, 30), (4, 40), (5, 50)]


ODD = {
    "identical": ["ACGTACGT"] * 6,
    "no variable site": ["AAAAAAAA"] * 6,
    "no data at all": ["--------"] * 6,
    "taxa without data": ["ACGTACGT", "ACGAACGA", "--------", "ACTTACGA", "NNNNNNNN", "ACTTACCA"],
    "one site": ["A", "C", "A", "C", "G", "-"],
}


@pytest.mark.parametrize("case", ODD)
def test_odd_alignments_have_bootstrap_trees(nowhere, case):
    taxa = "ABCDEF"
    [sample] = bootstrap_samples(Alignment.from_sequences(taxa, ODD[case]), replace(AUTO, replicates=1, keep=3))
    assert 5 <= len(sample) <= 8
    assert sample.taxa == tuple(taxa)


@pytest.mark.parametrize("method", ["iqtree", "embedded"])
def test_three_taxa_have_no_bootstrap(fake, tmp_path, method):
    three = Alignment.from_sequences("ABC", ["AC", "AG", "AT"])
    config = BootstrapConfig(method=method)
    for make in (lambda: bootstrap_files(three, tmp_path / "out", config), lambda: bootstrap_samples(three, config)):
        with pytest.raises(AlignmentError, match=r"^alignment: 3 taxa. A bootstrap needs at least 4.$"):
            make()


def test_only_iqtree_refuses_taxa_without_data(fake, tmp_path):
    gaps = Alignment.from_sequences("ABCDE", ["AC", "--", "AT", "AA", "N?"])
    with pytest.raises(AlignmentError, match=r"taxa without any data: 'B', 'E'. IQ-TREE refuses them: .* embedded"):
        bootstrap_files(gaps, tmp_path / "out", IQTREE)
    assert len(bootstrap_files(gaps, tmp_path / "out", EMBEDDED).files) == 2
