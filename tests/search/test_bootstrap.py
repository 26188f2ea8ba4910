"""Bootstrap replicates: made once, kept, added to, and never half of one."""

import gzip
import json
import threading
from dataclasses import replace

import numpy as np
import pytest

from phloem.config import BootstrapConfig
from phloem.data.alignment import Alignment
from phloem.errors import AlignmentError, ConfigError, FileProblem, ProgramProblem
from phloem.search.bootstrap import bootstrap_files, replicate_seed
from phloem.trees.reading import parse_newick, read_trees

TWO = BootstrapConfig(replicates=2)


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
    with pytest.raises(FileProblem, match=f"out: holds {what}. Name another --out, or delete the files"):
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
    fake(f'case "$*" in *" {replicate_seed(1, 1)} "*) sleep 0.3; exit 2;; esac\nsleep 600')
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
    fake(f"echo 'Iteration 10 / LogL: -1.5 / Time: 0h:0m:0s'\n{line}\nsleep 0.2\n{fake.good}")
    seen = []
    bootstrap_files(
        alignment,
        tmp_path / "out",
        TWO,
        progress=lambda news: seen.append((threading.current_thread(), news)),
    )
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
    "a file": (lambda out, _: out.write_text("x"), "out: is not a directory. Name another --out"),
    "below a file": (lambda out, _: (out.parent.rmdir(), out.parent.touch()), "out: is not a directory"),
    "no parent": (lambda out, _: out.parent.rmdir(), "out: its parent directory does not exist. Make it first"),
    "read-only parent": (
        lambda _, patch: patch.setattr("pathlib.Path.mkdir", refuse(PermissionError(13, "Permission denied"))),
        "out: cannot be made .Permission denied",
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
        "replicate_07.nwk.gz: is in the way, and no bootstrap.json says what it is",
    ),
    "no manifest": (lambda out, _: (out.mkdir(), (out / "bootstrap.json").write_text("[1]")), "is not a manifest"),
    "a damaged manifest": (
        lambda out, _: (out.mkdir(), (out / "bootstrap.json").write_text('{"alignment": "abc", "model')),
        "bootstrap.json: is not a manifest of phloem, or damaged. Name another --out",
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
        ({"method": "embedded", "model": "MFP"}, "--model 'MFP': give JC, K80"),
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
