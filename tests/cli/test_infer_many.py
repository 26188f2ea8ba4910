"""`phloem infer-many`: what users type, see, get, and get wrong; with processes that are killed and stopped."""

import csv
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from phloem.cli.main import run
from phloem.data.reading import read_alignment
from phloem.runs.directory import read_provenance
from phloem.tasks.compare import log_marginal_likelihood
from phloem.tasks.infer_many import seed_of, shared_cores
from phloem.tasks.posterior import load_posterior
from phloem.trees.reading import read_any_trees, read_trees
from support.command_line import PROGRAM, complaint
from support.messages import assert_says
from support.waiting import wait_until

SMALLEST = ["--model", "JC", "--steps", "20", "--branches", "split", "--samples", "20", "--repeats", "2"]
SMALLEST += ["--set", "evaluation.chains=0", "--set", "evaluation.anneal=0", "--jobs", "1"]
LOCI = ("g1", "g2", "g10")


@pytest.fixture(scope="module")
def genes(tmp_path_factory) -> Path:
    """Three loci of five taxa, whose supports need no bootstrap, the last of them of other taxa; and a bad file."""
    folder = tmp_path_factory.mktemp("genes")
    for name, seed, taxa in zip(LOCI, ("1", "2", "3"), ("5", "5", "6"), strict=True):
        options = ["--taxa", taxa, "--sites", "60", "--model", "JC", "--seed", seed, "--quiet"]
        assert run(["simulate", "--out", str(folder / name), *options]) == 0
    for path in folder.glob("*.true.*"):
        path.unlink()
    (folder / "bad.fasta").write_text("nothing\n")
    return folder


@pytest.fixture(scope="module")
def finished(genes, tmp_path_factory) -> Path:
    """All of them, inferred."""
    out = tmp_path_factory.mktemp("many") / "loci"
    assert run(["infer-many", str(genes), "--out", str(out), "--quiet", *SMALLEST]) == 1
    return out


def rows(out: Path) -> dict[str, dict[str, str]]:
    with (out / "loci.csv").open() as stream:
        return {row["locus"]: row for row in csv.DictReader(stream)}


def steps_of(out: Path, name: str) -> list[str]:
    """The sessions of a run, by their commands."""
    return [session["command"] for session in read_provenance(out / "runs" / name / "provenance.json")["sessions"]]


def test_the_table_and_the_trees_are_of_all_loci(finished):
    found = rows(finished)
    assert list(found) == ["bad", *LOCI]
    assert [row["status"] for row in found.values()] == ["failed", "done", "done", "done"]
    assert "not a known alignment format" in found["bad"]["message"]
    assert (found["g10"]["taxa"], found["g10"]["sites"]) == ("6", "60")
    consensus = (finished / "consensus.tre").read_text().splitlines()
    assert len(consensus) == len((finished / "credible.tre").read_text().splitlines()) == 3
    posterior = load_posterior(finished / "runs" / "g1")
    likelihood = log_marginal_likelihood(posterior)
    assert [float(found["g1"][key]) for key in ("log_marginal_likelihood", "error")] == pytest.approx(likelihood)
    assert found["g1"]["verdict"] == posterior.trust.level
    Path("one.nwk").write_text(consensus[0] + "\n")
    assert set(read_any_trees("one.nwk").taxa) == set(posterior.taxa)
    trees = read_trees(finished / "trees" / "g1.t", taxa=posterior.taxa)
    sample = posterior.sample()
    assert trees.topologies.equal(sample.topologies).all()


def test_posterior_trees_are_as_mbsum_reads_them(finished):
    """Lines `tree NAME = NEWICK`, in three words, after a table of names on lines of their own."""
    lines = (finished / "trees" / "g1.t").read_text().splitlines()
    table = lines.index("    translate")
    assert lines[table + 1].split() == ["1", "t1,"]
    assert lines[table + 6].strip() == ";"
    trees = [line.split() for line in lines if line.split()[0] == "tree"]
    assert all(len(words) == 3 + 1 and words[2] == "=" and words[3].startswith("(") for words in trees)
    assert len(trees) > 10


def test_a_locus_is_the_run_that_infer_makes(finished, genes):
    seed = str(seed_of(1, "g2"))
    assert run(["infer", str(genes / "g2.fasta"), "--out", "alone", "--quiet", "--seed", seed, *SMALLEST[:-2]]) == 0
    for name in ("topologies.csv", "clades.csv", "draws.safetensors", "consensus.nex"):
        assert (Path("alone") / name).read_bytes() == (finished / "runs" / "g2" / name).read_bytes()
    assert run(["evaluate", str(finished / "runs" / "g2")]) == 0


def test_the_same_command_does_nothing_twice_and_tries_again_what_failed(finished, genes, capsys):
    before = {name: steps_of(finished, name) for name in LOCI}
    records = {name: (finished / "records" / f"{name}.json").read_bytes() for name in LOCI}
    assert run(["infer-many", str(genes), "--out", str(finished), "--plain"]) == 1
    captured = capsys.readouterr()
    assert_says(captured.err, "4 loci, 3 done before")
    assert_says(captured.err, "phloem: bad: failed: … not a known alignment format")
    assert_says(captured.out, "4 loci: 3 do not trust; 1 failed")
    assert before == {name: steps_of(finished, name) for name in LOCI}
    assert records == {name: (finished / "records" / f"{name}.json").read_bytes() for name in LOCI}


def test_order_and_company_do_not_show_in_a_result(finished, genes):
    files = [str(genes / "g10.fasta"), str(genes / "g1.fasta")]
    assert run(["infer-many", *files, "--out", "other", "--quiet", *SMALLEST[:-1], "2", "--threads", "1"]) == 0
    for name in ("g1", "g10"):
        of_both = [(out / "runs" / name / "draws.safetensors").read_bytes() for out in (finished, Path("other"))]
        assert of_both[0] == of_both[1]
    assert len(set(rows(Path("other")))) == 2


def test_json_is_the_records(finished, genes, capsys):
    assert run(["infer-many", str(genes / "g1.fasta"), "--out", str(finished), "--quiet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [record["locus"] for record in found] == ["bad", *LOCI]
    assert found[1] == json.loads((finished / "records" / "g1.json").read_text())


def test_a_changed_alignment_fails_until_it_is_forced(finished, genes, capsys):
    shutil.copytree(finished, "loci")
    shutil.copy(genes / "g2.fasta", "g1.fasta")
    assert run(["infer-many", "g1.fasta", "--out", "loci", "--quiet"]) == 1
    assert "another alignment" in capsys.readouterr().err
    assert rows(Path("loci"))["g1"]["status"] == "failed"
    assert run(["infer-many", "g1.fasta", "--out", "loci", "--quiet", "--force", *SMALLEST]) == 0
    assert rows(Path("loci"))["g1"]["status"] == "done"
    assert read_alignment("g1.fasta").taxa == load_posterior("loci/runs/g1").taxa


@pytest.mark.slow
def test_more_loci_join_those_that_are_there(finished, genes):
    shutil.copytree(finished, "loci")
    shutil.copy(genes / "g2.fasta", "g3.fasta")
    assert run(["infer-many", "g3.fasta", "--out", "loci", "--quiet"]) == 0
    assert list(rows(Path("loci"))) == ["bad", "g1", "g2", "g3", "g10"]
    assert len(Path("loci/consensus.tre").read_text().splitlines()) == 4


def test_other_settings_are_refused(finished, genes, capsys):
    assert run(["infer-many", str(genes), "--out", str(finished), "--steps", "30"]) == 2
    assert_says(complaint(capsys), "loci with other settings: training.steps is 20, not 30 … --force")
    assert run(["infer-many", str(genes / "g1.fasta"), "--out", str(finished), "--steps", "30", "--force"]) == 2
    assert_says(complaint(capsys), "bad has other settings … name all of its loci")


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["none.fasta"], "none.fasta: no such file"),
        (["a.fasta", "b/a.fasta"], "a.fasta and b/a.fasta: two alignments of the same name"),
        (["a.fasta", "--steps", "0"], "--steps 0"),
        (["a.fasta", "--jobs", "0"], "--jobs"),
        (["a.fasta", "--checkpoint-every", "x"], "x"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(options, facts, capsys):
    Path("b").mkdir()
    for path in ("a.fasta", "b/a.fasta"):
        Path(path).write_text(">a\nA\n")
    assert run(["infer-many", *options, "--out", "loci"]) == 2
    assert_says(complaint(capsys), facts)
    assert not Path("loci").exists()


@pytest.fixture
def at_work(genes):
    """The command with loci that do not end by themselves."""
    command = ["infer-many", str(genes / "g1.fasta"), str(genes / "g2.fasta"), "--out", "loci", "--plain", *SMALLEST]
    command[command.index("--steps") + 1] = "100000000"
    command += ["--set", "training.refit=0"]
    process = subprocess.Popen([PROGRAM, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(Path("loci/runs/g1/history.csv").exists, process)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("request_to_stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_says_how_to_go_on(at_work, request_to_stop):
    at_work.send_signal(request_to_stop)
    _, errors = at_work.communicate()
    assert at_work.returncode == 130
    assert_says(
        errors.splitlines()[-1],
        "phloem: stopped: 0 of 2 loci done. Go on with: phloem infer-many … --out loci",
    )
    assert [row["status"] for row in rows(Path("loci")).values()] == ["stopped", "waiting"]
    assert float(rows(Path("loci"))["g1"]["seconds"]) > 0


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_locus_resumed(at_work):
    worker = worker_of(at_work.pid)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: worker_of(at_work.pid) not in (worker, None), at_work)
    wait_until(lambda: len(steps_of(Path("loci"), "g1")) == 2, at_work)
    at_work.send_signal(signal.SIGTERM)
    _, errors = at_work.communicate()
    assert "phloem: g1: its process was killed (signal 9). Another one goes on with it." in errors


def worker_of(parent: int) -> int | None:
    """The first process that another has started."""
    found = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True).stdout.split()
    return int(found[0]) if found else None


def test_cores_are_shared(monkeypatch):
    monkeypatch.setattr("phloem.tasks.infer_many.physical_cores", lambda: 8)
    assert shared_cores(100, None, None) == (8, 1)
    assert shared_cores(3, None, None) == (3, 2)
    assert shared_cores(100, 3, None) == (3, 2)
    assert shared_cores(100, None, 4) == (2, 4)
    assert shared_cores(100, 20, None) == (20, 1)
    assert shared_cores(100, 4, 4) == (4, 4)
    assert shared_cores(0, None, None) == (1, 8)


def test_seeds_are_of_the_name():
    seeds = {seed_of(seed, name) for seed in (1, 2) for name in ("a", "b")}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**63 for seed in seeds)
