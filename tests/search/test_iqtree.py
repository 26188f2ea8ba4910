"""What IQ-TREE can do wrong, acted out by scripts, and what the real one does with ordinary and odd alignments."""

import os
import subprocess
from collections import Counter
from dataclasses import replace
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest

from phloem.config import BootstrapConfig
from phloem.data.alignment import Alignment
from phloem.data.reading import find_trees, parse_alignment, read_alignment
from phloem.errors import FileProblem, ProgramProblem
from phloem.search.bootstrap import bootstrap_files
from phloem.search.iqtree import FailedRun, find_iqtree, ultrafast_bootstrap
from phloem.search.jobs import Stopped
from phloem.trees.reading import read_trees
from support.waiting import wait_until

ONE = BootstrapConfig(replicates=1)


def run(alignment, *, stop=None, timeout=60.0):
    return ultrafast_bootstrap(
        find_iqtree(),
        alignment,
        count=1000,
        model="JC",
        seed=1,
        timeout=timeout,
        stop=stop or Event(),
        report=lambda _share: None,
    )


def trees(text: str, count: int) -> str:
    return f"yes '{text}' | head -n {count} >> bootstrap.ufboot"


FAILURES = {
    "an error": (
        "echo fine; echo 'ERROR: details' >&2; echo 'ERROR: It makes no sense ' >&2; exit 2",
        r"^IQ-TREE ended with exit code 2 \(ERROR: It makes no sense\)\.$",
    ),
    "an error without a word": ("exit 77", r"^IQ-TREE ended with exit code 77\.$"),
    "an error in odd bytes": (r"printf 'ERROR: \377\n'; exit 1", r"exit code 1 \(ERROR: �\)"),
    "out of memory": ("kill -KILL $$", r"^IQ-TREE was killed by SIGKILL. Perhaps memory ran out: give fewer --threads"),
    "a signal without a name": ("kill -40 $$", r"^IQ-TREE was killed by signal 40\.$"),
    "a crash": ("kill -SEGV $$", r"^IQ-TREE was killed by SIGSEGV\.$"),
    "no trees": ("exit 0", "without writing bootstrap trees"),
    "an empty file": (": > bootstrap.ufboot", "trees that cannot be used: Newick text: holds no trees"),
    "too few trees": (trees("(t0,t1,(t2,t3));", 999), "wrote 999 bootstrap trees instead of 1000"),
    "too many trees": (trees("(t0,t1,(t2,t3));", 1001), "wrote 1001 bootstrap trees instead of 1000"),
    "a tree cut short": (
        f"{trees('(t0,t1,(t2,t3));', 999)}; printf '(t0,t1,(t2' >> bootstrap.ufboot",
        "cannot be used: Newick text, tree 1000, line 1000",
    ),
    "a polytomy": (
        f"{trees('(t0,t1,(t2,t3));', 999)}; {trees('(t0,t1,t2,t3);', 1)}",
        "cannot be used: Newick text, tree 1000, line 1000, column 1: this tree has a polytomy",
    ),
    "a taxon too few": (trees("(t0,t1,t2);", 1000), "lacks 't3'"),
    "a taxon too many": (trees("(t0,t1,(t2,(t3,t4)));", 1000), "has 't4'"),
    "no text": ("head -c 100000 /dev/zero > bootstrap.ufboot", "this is not a text file"),
    "noise": (r"printf '\377\376;' > bootstrap.ufboot", "cannot be used"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_every_failure_says_what_happened(fake, alignment, case):
    script, what = FAILURES[case]
    fake(f"echo 'so far so good'\n{script}")
    with pytest.raises(FailedRun, match=what) as caught:
        run(alignment)
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.log.startswith(b"so far so good\n")


def wait_for_end(process_id: int) -> None:
    """Return when the process is gone, or dead and not yet buried."""
    command = ["ps", "-o", "stat=", "-p", str(process_id)]

    def has_ended() -> bool:
        state = subprocess.run(command, capture_output=True, text=True).stdout.strip()
        return not state or state.startswith("Z")

    wait_until(has_ended)


def test_a_hanging_run_is_killed_with_all_that_it_started(fake, alignment, tmp_path, monkeypatch):
    pid_file = tmp_path / "pid"
    fake(f"sleep 600 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}; wait")
    clock = SimpleNamespace(monotonic=lambda: 1.0 if pid_file.exists() else 0.0)
    monkeypatch.setattr("phloem.search.iqtree.time", clock)
    with pytest.raises(
        FailedRun, match=r"took more than 0.5 seconds and was killed. Give phloem bootstrap a longer --timeout"
    ):
        run(alignment, timeout=0.5)
    wait_for_end(int(pid_file.read_text()))


def test_a_run_that_is_told_to_stop_is_killed(fake, alignment):
    fake("sleep 600")
    stop = Event()
    stop.set()
    with pytest.raises(Stopped):
        run(alignment, stop=stop)


def test_a_program_that_cannot_be_started(fake, alignment):
    fake.path.write_text("#!/no/such/shell\n")
    with pytest.raises(FailedRun, match=r"iqtree3 cannot be started \(No such file or directory\)"):
        run(alignment)


def test_no_program_at_all(alignment, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ProgramProblem, match=r"none of iqtree3, iqtree2, iqtree is on PATH. Install it .* the method embedded"
    ):
        bootstrap_files(alignment, tmp_path / "out", replace(ONE, method="iqtree"))
    assert not (tmp_path / "out").exists()


def test_a_relative_path_leads_to_the_program_from_everywhere(fake, alignment, monkeypatch):
    monkeypatch.chdir(fake.path.parent.parent)
    monkeypatch.setenv("PATH", f"bin{os.pathsep}{os.environ['PATH']}")
    assert find_iqtree().path == str(fake.path)
    assert len(run(alignment)) == 1000


def test_no_room_for_temporary_files(fake, alignment, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(FileProblem, match=r"temporary files cannot be written .* Set TMPDIR"):
        run(alignment)


def test_a_log_that_cannot_be_kept_does_not_hide_the_problem(fake, alignment, tmp_path):
    out = tmp_path / "out"
    (out / "replicate_01.log").mkdir(parents=True)
    fake("exit 3")
    with pytest.raises(ProgramProblem, match=r"^replicate 1: IQ-TREE ended with exit code 3\.$"):
        bootstrap_files(alignment, out, ONE)


def test_iqtree_sees_every_set_of_states_under_a_plain_name(fake, tmp_path):
    rows = ["ACGTURYSWKMBDHVN", "acgtuXryswkmbdh?", "-CGTURYSWKMBDHVN", "AAAAAAAAAAAAAAAA"]
    odd = Alignment.from_sequences(["a b'c(1)", "x:y", ">z", "é"], rows)
    fake(f"cp alignment.fasta {tmp_path}\n{fake.good}")
    run(odd)
    seen = parse_alignment((tmp_path / "alignment.fasta").read_bytes()).alignment
    assert seen.taxa == ("t0", "t1", "t2", "t3")
    np.testing.assert_array_equal(seen.states, odd.states)


@pytest.fixture(scope="module")
def primates() -> Alignment:
    return read_alignment("primates")


def test_trees_do_not_depend_on_threads_and_do_on_the_seed(iqtree, primates, tmp_path):
    one = bootstrap_files(primates, tmp_path / "one", BootstrapConfig(replicates=2, threads=1)).files
    two = bootstrap_files(primates, tmp_path / "two", BootstrapConfig(replicates=2, threads=2)).files
    other = bootstrap_files(primates, tmp_path / "other", BootstrapConfig(replicates=2, seed=2)).files
    contents = [[path.read_bytes() for path in files] for files in (one, two, other)]
    assert contents[0] == contents[1]
    assert len({*contents[0], *contents[2]}) == 4
    assert (tmp_path / "one" / "bootstrap.json").read_bytes() == (tmp_path / "two" / "bootstrap.json").read_bytes()


def test_trees_are_those_of_the_primates(iqtree, primates, tmp_path):
    [path] = bootstrap_files(primates, tmp_path / "out", BootstrapConfig(replicates=1, count=1500)).files
    sample = read_trees(path, taxa=primates.taxa)
    assert len(sample) == 1500
    found = sample.distinct()
    likely = read_trees(find_trees("primates"), taxa=primates.taxa)
    frequent = [trees.topologies.parent[trees.weights.argmax()] for trees in (found, likely)]
    np.testing.assert_array_equal(*frequent)


def test_runs_keep_odd_names(iqtree, tmp_path):
    names = ["a b'c(1)", "x:y", "[z]", "t0", "é,;"]
    odd = Alignment.from_sequences(names, ["ACGTACGTAA", "ACGTACGTAC", "ACGAACTTAC", "ACGAACTTCC", "ACTAACTTCC"])
    [path] = bootstrap_files(odd, tmp_path / "out", ONE).files
    assert read_trees(path, taxa=names).taxa == tuple(names)


@pytest.mark.parametrize(
    "rows",
    [
        ["ACGTACGTAA"] * 3 + ["ACGAACTTCC", "ACTAACTTCC"],
        ["ACGTACGTAA"] * 2 + ["ACGTACGTAC", "ACGTACTTAA"],
        ["ACGTACGTAA"] * 4,
    ],
    ids=["three of five", "two of four", "all four"],
)
def test_identical_sequences_are_leaves_like_all_others(iqtree, tmp_path, rows):
    taxa = [f"taxon{number}" for number in range(len(rows))]
    [path] = bootstrap_files(Alignment.from_sequences(taxa, rows), tmp_path / "out", ONE).files
    sample = read_trees(path, taxa=taxa)
    frequencies = Counter(map(bytes, sample.topologies.parent))
    # Nothing tells identical sequences apart, so their resolutions come up about equally often.
    assert frequencies.most_common(3)[2][1] > 200


def test_sequences_of_ambiguous_letters_are_nucleotides(iqtree, tmp_path):
    """Without being told, IQ-TREE takes these for proteins."""
    rows = ["RRYYSS", "MMKKWW", "BBDDHH", "VVNNAC", "ACGTAC"]
    assert len(bootstrap_files(Alignment.from_sequences("ABCDE", rows), tmp_path / "out", ONE).files) == 1


def test_an_error_is_told_in_its_own_words(iqtree, primates, tmp_path):
    with pytest.raises(ProgramProblem, match=r"^replicate 1: IQ-TREE ended with exit code 2 \(ERROR: .*NOSUCH"):
        bootstrap_files(primates, tmp_path / "out", BootstrapConfig(replicates=1, model="NOSUCH"))
    assert b"NOSUCH" in (tmp_path / "out" / "replicate_01.log").read_bytes()


def test_a_run_is_stopped_at_once(iqtree, primates, tmp_path):
    with pytest.raises(ProgramProblem, match=r"took more than 0\.2 seconds and was killed"):
        bootstrap_files(primates, tmp_path / "out", BootstrapConfig(count=100_000, timeout=0.2))
