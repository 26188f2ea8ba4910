"""Bootstrap replicates: made once, kept, added to, and never half of one; what each method refuses and leaves."""

import gzip
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
from phloem.search.jobs import SearchProgress, Stopped
from phloem.search.replicates import method_in
from phloem.trees.reading import parse_newick, read_trees
from support.messages import saying

TWO = BootstrapConfig(replicates=2)
AUTO = BootstrapConfig(replicates=2, count=5)
EMBEDDED = replace(AUTO, method="embedded")
IQTREE = BootstrapConfig(replicates=2, method="iqtree")


def test_one_file_a_replicate_and_a_manifest(fake, alignment, tmp_path):
    files = bootstrap_files(alignment, tmp_path / "out", TWO).files
    assert [path.name for path in files] == ["replicate_01.nwk.gz", "replicate_02.nwk.gz"]
    assert len(read_trees(files[0], taxa="ABCD")) == 1000
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bootstrap.json", *(f.name for f in files)]
    manifest = json.loads((tmp_path / "out" / "bootstrap.json").read_text())
    assert (manifest["method"], manifest["count"], manifest["model"], manifest["seed"]) == ("iqtree", 1000, "JC", 1)
    assert [entry["program"] for entry in manifest["files"].values()] == ["IQ-TREE 9.8.7"] * 2
    for call in fake.calls:
        assert all(option in call for option in ("-bb 1000", "-wbt", "-m JC", "-nt 1", "-keep-ident", "-st DNA"))


def test_files_are_gzip_without_a_date(fake, alignment, tmp_path):
    content = bootstrap_files(alignment, tmp_path / "out", TWO).files[0].read_bytes()
    assert content[4:8] == bytes(4)
    assert gzip.decompress(content) == b"(A,B,(C,D));\n" * 1000


def test_every_replicate_of_every_seed_has_its_own_seed(fake, alignment, tmp_path):
    bootstrap_files(alignment, tmp_path / "out", BootstrapConfig(replicates=3, seed=5))
    seeds = [int(call.split("-seed ")[1].split()[0]) for call in fake.calls]
    assert sorted(seeds) == sorted(replicate_seed(5, replicate) for replicate in (1, 2, 3))
    drawn = [replicate_seed(seed, replicate) for seed in range(100) for replicate in range(1, 11)]
    assert len(set(drawn)) == 1000
    assert all(0 < seed < 2**31 for seed in drawn)


def test_a_second_call_runs_nothing_and_needs_no_program(fake, alignment, tmp_path, monkeypatch, contents):
    files = bootstrap_files(alignment, tmp_path / "out", TWO).files
    before = contents(tmp_path / "out")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bootstrap_files(alignment, tmp_path / "out", replace(TWO, threads=1, timeout=5.0)).files == files
    assert len(fake.calls) == 2
    assert contents(tmp_path / "out") == before


def test_more_replicates_add_to_those_that_are_there(fake, alignment, tmp_path):
    first = bootstrap_files(alignment, tmp_path / "out", TWO).files
    more = bootstrap_files(alignment, tmp_path / "out", replace(TWO, replicates=99)).files
    assert len(fake.calls) == 99
    assert more[:2] == first
    assert more[98].name == "replicate_99.nwk.gz"
    assert bootstrap_files(alignment, tmp_path / "out", TWO).files == first
    assert len(fake.calls) == 99


@pytest.mark.parametrize("harm", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-9])])
def test_a_file_that_is_gone_or_damaged_is_made_again(fake, alignment, tmp_path, harm):
    path = bootstrap_files(alignment, tmp_path / "out", TWO).files[1]
    whole = path.read_bytes()
    harm(path)
    bootstrap_files(alignment, tmp_path / "out", TWO)
    assert path.read_bytes() == whole
    assert len(fake.calls) == 3


def test_a_file_that_the_manifest_does_not_list_is_made_again(fake, alignment, tmp_path):
    """As after a power failure between the two."""
    bootstrap_files(alignment, tmp_path / "out", TWO)
    manifest = json.loads((tmp_path / "out" / "bootstrap.json").read_text())
    del manifest["files"]["replicate_01.nwk.gz"]
    (tmp_path / "out" / "bootstrap.json").write_text(json.dumps(manifest))
    bootstrap_files(alignment, tmp_path / "out", TWO)
    assert len(fake.calls) == 3


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"model": "HKY"}, "replicates with model JC, not HKY"),
        ({"count": 2000}, "replicates with count 1000, not 2000"),
        ({"seed": 2}, "replicates with seed 1, not 2"),
        ({"model": "HKY", "seed": 2}, "replicates with model JC, not HKY and with seed 1, not 2"),
    ],
)
def test_other_settings_in_the_same_directory_are_refused(fake, alignment, tmp_path, contents, change, what):
    bootstrap_files(alignment, tmp_path / "out", TWO)
    before = contents(tmp_path / "out")
    with pytest.raises(FileProblem, match=f"out: holds {what}. Choose another --out, or delete the files"):
        bootstrap_files(alignment, tmp_path / "out", replace(TWO, **change))
    assert contents(tmp_path / "out") == before
    assert len(fake.calls) == 2


@pytest.mark.parametrize("part", ["names", "order", "states"])
def test_another_alignment_in_the_same_directory_is_refused(fake, alignment, tmp_path, part):
    bootstrap_files(alignment, tmp_path / "out", TWO)
    states = alignment.states.copy()
    states[0, 0] = 15
    other = {
        "names": Alignment(("A", "B", "C", "E"), alignment.states),
        "order": Alignment(tuple("BACD"), alignment.states[[1, 0, 2, 3]]),
        "states": Alignment(alignment.taxa, states),
    }[part]
    with pytest.raises(FileProblem, match="holds replicates of another alignment"):
        bootstrap_files(other, tmp_path / "out", TWO)


def test_settings_with_which_nothing_was_finished_bind_nobody(fake, alignment, tmp_path):
    fake("exit 2")
    with pytest.raises(ProgramProblem):
        bootstrap_files(alignment, tmp_path / "out", replace(TWO, model="WRONG"))
    fake(fake.good)
    bootstrap_files(alignment, tmp_path / "out", TWO)
    assert json.loads((tmp_path / "out" / "bootstrap.json").read_text())["model"] == "JC"


def test_finished_replicates_stay_when_one_fails_and_the_next_call_goes_on(fake, alignment, tmp_path):
    first, second = (f'*" {replicate_seed(1, replicate)} "*' for replicate in (1, 2))
    fake(f'case "$*" in {first}) {fake.good};; {second}) echo "ERROR: Bad luck"; exit 2;; *) sleep 600;; esac')
    out, three = tmp_path / "out", replace(TWO, replicates=3, threads=1)
    what = rf"^replicate 2: IQ-TREE ended with exit code 2 \(ERROR: Bad luck\). Its log: {out}/replicate_02.log$"
    with pytest.raises(ProgramProblem, match=what):
        bootstrap_files(alignment, out, three)
    assert sorted(path.name for path in out.iterdir()) == ["bootstrap.json", "replicate_01.nwk.gz", "replicate_02.log"]
    assert (out / "replicate_02.log").read_text() == "ERROR: Bad luck\n"
    fake(fake.good)
    bootstrap_files(alignment, out, three)
    assert len(fake.calls) == 4
    assert not (out / "replicate_02.log").exists()


def test_those_at_work_are_stopped_when_one_fails(fake, alignment, tmp_path):
    both_at_work = f"[ $(wc -l < {tmp_path}/calls) = 2 ]"
    failing = f"until {both_at_work}; do sleep 0.01; done; exit 2"
    fake(f'case "$*" in *" {replicate_seed(1, 1)} "*) {failing};; esac\nsleep 600')
    with pytest.raises(ProgramProblem, match="replicate 1"):
        bootstrap_files(alignment, tmp_path / "out", BootstrapConfig(replicates=5, threads=2))
    assert len(fake.calls) == 2


def test_an_interruption_stops_everything_and_keeps_what_is_finished(fake, alignment, tmp_path):
    fake(f'case "$*" in *" {replicate_seed(1, 1)} "*) {fake.good};; *) sleep 600;; esac')

    def interrupt(news):
        if news.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bootstrap_files(alignment, tmp_path / "out", BootstrapConfig(replicates=5, threads=2), progress=interrupt)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bootstrap.json", "replicate_01.nwk.gz"]


def test_progress_is_reported_from_the_calling_thread(fake, alignment, tmp_path):
    line = "echo 'Iteration 30 / LogL: -1.5 / Time: 1h:0m:30s (2h:59m:29s left)'"
    number = f'case "$*" in *" {replicate_seed(1, 1)} "*) number=1;; *) number=2;; esac'
    wait = f"until [ -e {tmp_path}/heard-$number ]; do sleep 0.01; done"
    fake(f"echo 'Iteration 10 / LogL: -1.5 / Time: 0h:0m:0s'\n{line}\n{number}\n{wait}\n{fake.good}")
    seen = []

    def hear(news):
        seen.append((threading.current_thread(), news))
        if 0 < news.fraction < 1:
            (tmp_path / f"heard-{news.replicate}").touch()

    bootstrap_files(alignment, tmp_path / "out", TWO, progress=hear)
    assert {thread for thread, _ in seen} == {threading.current_thread()}
    news = [news for _, news in seen]
    for replicate in (1, 2):
        fractions = [item.fraction for item in news if item.replicate == replicate]
        assert fractions == [0.0, pytest.approx(3630 / 14400), 1.0]
    assert [item.done for item in news if item.fraction == 1] == [1, 2]
    bootstrap_files(alignment, tmp_path / "out", replace(TWO, replicates=3), progress=seen.append)
    assert (seen[-1].replicate, seen[-1].done) == (3, 3)


@pytest.mark.parametrize(
    ("taxa", "rows", "what"),
    [
        ("ABC", ["AC", "AG", "AT"], "3 taxa. A bootstrap needs at least 4"),
        ("ABCDE", ["AC", "--", "AT", "AA", "N?"], "taxa without any data: 'B', 'E'. IQ-TREE refuses them"),
    ],
)
def test_alignments_that_have_no_bootstrap(fake, tmp_path, taxa, rows, what):
    with pytest.raises(AlignmentError, match=what):
        bootstrap_files(Alignment.from_sequences(taxa, rows), tmp_path / "out", TWO)
    assert not (tmp_path / "out").exists()


def refuse(error):
    def raise_error(*_args, **_options):
        raise error

    return raise_error


PLACES = {
    "a file": (lambda out, _: out.write_text("x"), "out: is not a directory. Choose another --out"),
    "below a file": (lambda out, _: (out.parent.rmdir(), out.parent.touch()), "out: is not a directory"),
    "no parent": (lambda out, _: out.parent.rmdir(), "out: its parent directory does not exist. Create it first"),
    "read-only parent": (
        lambda _, patch: patch.setattr("pathlib.Path.mkdir", refuse(PermissionError(13, "Permission denied"))),
        "out: cannot be created .Permission denied",
    ),
    "read-only": (
        lambda _, patch: patch.setattr("tempfile.mkstemp", refuse(OSError(30, "Read-only file system"))),
        "bootstrap.json: cannot be written .Read-only file system",
    ),
    "full": (
        lambda _, patch: patch.setattr("os.fsync", refuse(OSError(28, "No space left on device"))),
        "bootstrap.json: cannot be written .No space left on device",
    ),
    "unreadable": (
        lambda _, patch: patch.setattr("pathlib.Path.read_bytes", refuse(PermissionError(13, "Permission denied"))),
        "bootstrap.json: cannot be read .Permission denied",
    ),
    "somebody else's": (
        lambda out, _: (out.mkdir(), (out / "replicate_07.nwk.gz").touch()),
        "replicate_07.nwk.gz: would be overwritten, and no bootstrap.json says what it is",
    ),
    "no manifest": (lambda out, _: (out.mkdir(), (out / "bootstrap.json").write_text("[1]")), "not a manifest"),
    "a damaged manifest": (
        lambda out, _: (out.mkdir(), (out / "bootstrap.json").write_text('{"alignment": "abc", "model')),
        "bootstrap.json: is damaged, or not a manifest of phloem. Choose another --out",
    ),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_place_that_cannot_be_used_is_known_before_any_run(fake, alignment, tmp_path, case):
    make, what = PLACES[case]
    out = tmp_path / "parent" / "out"
    out.parent.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        make(out, patch)
        with pytest.raises(FileProblem, match=what):
            bootstrap_files(alignment, out, TWO)
    assert fake.calls == []


def test_a_cached_file_that_cannot_be_read_is_an_error(fake, alignment, tmp_path):
    path = bootstrap_files(alignment, tmp_path / "out", TWO).files[0]
    path.unlink()
    path.mkdir()
    with pytest.raises(FileProblem, match=r"replicate_01\.nwk\.gz: is a directory"):
        bootstrap_files(alignment, tmp_path / "out", TWO)


def test_a_disk_that_is_full_at_the_end_leaves_no_half_file(fake, alignment, tmp_path, monkeypatch, contents):
    def fill_up(news):
        monkeypatch.setattr("os.fsync", refuse(OSError(28, "No space left on device")))

    fake(f"sleep 0.5\n{fake.good}")
    with pytest.raises(FileProblem, match=r"replicate_01\.nwk\.gz: cannot be written \(No space left on device"):
        bootstrap_files(alignment, tmp_path / "out", BootstrapConfig(replicates=1), progress=fill_up)
    assert list(contents(tmp_path / "out")) == ["bootstrap.json"]


def test_the_trees_are_those_of_the_program_in_its_order_on_the_users_names(fake, tmp_path):
    names = ["a b'c(1)", "x:y", "[z]", "t0", "é,;"]
    trees = ["(t0,(t1,t2),(t3,t4));", "((t0,t4),t3,(t2,t1));", "(t0,(t2,t3),(t1,t4));"]
    writing = "".join(f"yes '{tree}' | head -n {count};" for tree, count in zip(trees, (1, 300, 699), strict=True))
    fake(f"{{ {writing} }} > bootstrap.ufboot")
    strange = Alignment.from_sequences(names, ["ACGT", "ACGA", "ACTT", "AATT", "GATT"])
    sample = read_trees(bootstrap_files(strange, tmp_path / "out", TWO).files[0], taxa=names)
    expected = parse_newick(trees, taxa=[f"t{taxon}" for taxon in range(5)]).topologies.parent
    np.testing.assert_array_equal(sample.topologies.parent, np.repeat(expected, (1, 300, 699), axis=0))


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        (
            {"method": "iqtree", "count": 999},
            "--count 999: IQ-TREE makes 1000 .* more. Ask for more, or give --method embedded",
        ),
        ({"count": 0}, "--count 0: give a whole number from 1"),
        ({"method": "embedded", "count": 1_000_001}, "--count 1000001: give a whole number from 1 to 1,000,000"),
        ({"method": "raxml"}, "--method 'raxml': choose one of auto, iqtree, embedded"),
        ({"method": "embedded", "model": "MFP"}, "--model 'MFP': give one of JC, K80"),
        ({"method": "iqtree", "keep": 5}, "--keep 5: IQ-TREE makes only bootstrap trees. Give --method embedded"),
        ({"keep": -1}, "--keep -1: give a whole number"),
        ({"within": -1.0}, "--within -1: give a number of log-likelihood units"),
        ({"within": float("nan")}, "--within nan"),
        ({"replicates": 0}, "--replicates 0: give a whole number from 1 to 10,000"),
        ({"replicates": 10**9}, "--replicates 1000000000: give"),
        ({"seed": -1}, "--seed -1: give a whole number from 0"),
        ({"model": "JC -redo"}, "--model 'JC -redo': give one of IQ-TREE's names"),
        ({"model": "-redo"}, "--model '-redo'"),
        ({"model": ""}, "--model ''"),
        ({"model": "JC\n"}, "--model 'JC"),
        ({"threads": 0}, "--threads 0: give a whole number from 1"),
        ({"timeout": 0.0}, "--timeout 0: give a number of seconds above 0"),
        ({"timeout": float("nan")}, "--timeout nan"),
    ],
)
def test_a_bad_setting_cannot_exist(setting, what):
    with pytest.raises(ConfigError, match=what):
        BootstrapConfig(**setting)


@pytest.mark.parametrize(
    "model", ["GTR+F+R4", "HKY{2.0}+G4{0.5}", "MIX{JC,HKY}", "012345", "GTR{1/2/3,4.5}", "TIM2e+I-G"]
)
def test_models_of_one_word_are_passed_on(model):
    assert BootstrapConfig(model=model).model == model


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

    def __call__(self, alignment, config, *, stop, report, constraints):
        assert constraints is None
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
    with pytest.raises(ConfigError, match=r"--model 'MFP': give one of JC, K80.* the method iqtree"):
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
    what = "replicate 1: the search took more than 0.2 seconds … phloem bootstrap … --timeout"
    with pytest.raises(ProgramProblem, match=saying(what)):
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
