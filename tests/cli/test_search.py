"""`phloem search`: the tree, the summary, JSON, every option, and what users get wrong."""

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import phloem
from phloem.cli.main import run
from phloem.config.search import SearchConfig
from phloem.tasks import search as pipeline
from support.command_line import PROGRAM, complaint
from support.messages import assert_says

EIGHT = [
    "ACGTTGCATGCA",
    "ACGTTGCATGCC",
    "ACGTAGCATCCA",
    "ACGAAGCTTGCA",
    "TCGATGCTTGAA",
    "TCGATGGTTGAA",
    "TCCAAGGTTGTA",
    "TCCA-GGTNGTT",
]


@pytest.fixture(autouse=True)
def files(in_empty_directory):
    Path("dna.fasta").write_text("".join(f">t{number}\n{row}\n" for number, row in enumerate(EIGHT)))
    Path("three.fasta").write_text(">A\nACGT\n>B\nACGA\n>C\nACTT\n")


def test_the_summary_and_the_tree(capsys):
    assert run(["search", "primates", "--out", "best.nwk", "--quiet"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[:2] == ["log-likelihood   -6424.202", "model            JC69"]
    assert lines[3].startswith("supports         of 1,000 bootstrap trees, stable (correlation ")
    assert lines[4:] == ["tree             best.nwk"]
    assert captured.err == ""
    taxa = phloem.read_alignment("primates").taxa
    [text] = Path("best.nwk").read_text().splitlines()
    assert "(Macaca_fuscata:" in text
    assert ")100:" in text
    assert run(["likelihood", "primates", "best.nwk", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trees"][0]["log_likelihood"] == pytest.approx(-6424.202, abs=1e-3)
    assert len(phloem.read_trees("best.nwk", taxa=taxa)) == 1


def test_json_and_the_other_files(capsys):
    others = ["--bootstrap-trees", "all.nwk", "--best-trees", "good.nex", "--keep", "3", "--within", "50"]
    assert run(["search", "dna.fasta", "--out", "best.nex", "--count", "50", *others, "--json", "--quiet"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["alignment"]["taxa"] == 8
    assert answer["model"]["name"] == "JC69"
    assert answer["log_likelihood"] < 0
    assert (answer["bootstrap_count"], answer["best_count"]) == (50, 3)
    assert (answer["tree"], answer["bootstrap_trees"], answer["best_trees"]) == ("best.nex", "all.nwk", "good.nex")
    assert answer["is_stable"] is (answer["correlation"] >= 0.99)
    taxa = [f"t{number}" for number in range(8)]
    assert [len(phloem.read_trees(name, taxa=taxa)) for name in ("best.nex", "all.nwk", "good.nex")] == [1, 50, 3]
    best = phloem.read_trees("best.nex", taxa=taxa)
    np.testing.assert_array_equal(
        phloem.trees.parse_newick(answer["newick"], taxa=taxa).branch_lengths, best.branch_lengths
    )
    np.testing.assert_array_equal(
        phloem.read_trees("good.nex", taxa=taxa).topologies.parent[0], best.topologies.parent[0]
    )


def test_the_same_seed_gives_the_same_bytes_whatever_the_threads():
    for threads in ("1", "2"):
        files = ["--out", f"{threads}.nwk", "--bootstrap-trees", f"{threads}.all.nwk"]
        assert run(["search", "dna.fasta", *files, "--count", "50", "--threads", threads, "--quiet"]) == 0
    assert Path("1.nwk").read_bytes() == Path("2.nwk").read_bytes()
    assert Path("1.all.nwk").read_bytes() == Path("2.all.nwk").read_bytes()


@pytest.mark.slow
def test_supports_that_are_not_stable_are_told(monkeypatch, capsys):
    real = pipeline.find_likelihood_tree

    def unsteady(*arguments, **options):
        return replace(real(*arguments, **options), is_stable=False, correlation=0.97)

    monkeypatch.setattr(pipeline, "find_likelihood_tree", unsteady)
    assert run(["search", "dna.fasta", "--out", "best.nwk", "--count", "10", "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3] == "supports         of 10 bootstrap trees, not stable (correlation 0.970)"
    assert lines[-1].startswith("The supports still changed when the search ended: compare those of another --seed")


def test_every_option_changes_its_setting(monkeypatch):
    seen = []

    def remember(source, files, config, **_options):
        seen.append((source, files, config))
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "run_search", remember)
    usual = ["search", "dna.fasta", "--out", "best.nwk"]
    settings = {"count": 20, "model": "GTR+I+G4", "seed": 4, "keep": 5, "within": 6.0, "threads": 7}
    run(usual)
    for name, value in settings.items():
        run([*usual, f"--{name}", str(value)])
    assert [config for _, _, config in seen] == [
        SearchConfig(),
        *(SearchConfig(**{name: value}) for name, value in settings.items()),
    ]
    assert {(source, files) for source, files, _ in seen} == {("dna.fasta", pipeline.SearchFiles(Path("best.nwk")))}
    seen.clear()
    run([*usual, "--bootstrap-trees", "b.nwk", "--best-trees", "g.nwk"])
    assert seen[0][1] == pipeline.SearchFiles(Path("best.nwk"), Path("b.nwk"), Path("g.nwk"))


BAD = {
    "no alignment": (["none.fasta", "--out", "x.nwk"], "none.fasta: … no such file"),
    "no file": (["dna.fasta"], "Missing option '--out' / '-o'"),
    "three taxa": (["three.fasta", "--out", "x.nwk"], "3 taxa … 4"),
    "an unknown model": (["dna.fasta", "--out", "x.nwk", "--model", "MFP"], "--model 'MFP' … JC, K80"),
    "no trees": (["dna.fasta", "--out", "x.nwk", "--count", "0"], "--count 0"),
    "a directory": (["dna.fasta", "--out", "."], "written … directory"),
    "no parent": (["dna.fasta", "--out", "no/x.nwk"], "no/x.nwk: … directory"),
    "compressed": (["dna.fasta", "--out", "x.nwk.gz"], "x.nwk.gz: … plain text"),
    "compressed trees": (["dna.fasta", "--out", "x.nwk", "--bootstrap-trees", "y.gz"], "y.gz: … plain text"),
    "one file twice": (["dna.fasta", "--out", "x.nwk", "--bootstrap-trees", "./x.nwk"], "x.nwk: … one file"),
    "nowhere to keep": (["dna.fasta", "--out", "x.nwk", "--keep", "3"], "--keep … --best-trees"),
    "nothing to keep": (["dna.fasta", "--out", "x.nwk", "--best-trees", "y.nwk"], "--keep … --best-trees"),
    "within": (["dna.fasta", "--out", "x.nwk", "--within", "nan"], "--within nan"),
    "threads": (["dna.fasta", "--out", "x.nwk", "--threads", "0"], "--threads 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_no_file(capsys, case):
    command, facts = BAD[case]
    before = sorted(Path().iterdir())
    assert run(["search", *command]) == 2
    assert_says(complaint(capsys), facts)
    assert sorted(Path().iterdir()) == before


def write(states) -> None:
    rows = ["".join("ACGT"[state] for state in row) for row in states]
    Path("made-up.fasta").write_text("".join(f">t{number}\n{row}\n" for number, row in enumerate(rows)))


def test_two_hundred_taxa_with_a_hundred_sites(capsys):
    random = np.random.default_rng(1)
    rows = [random.integers(0, 4, 100)]
    for taxon in range(1, 200):  # each is an earlier one with a few changes
        row = rows[random.integers(taxon)].copy()
        row[random.integers(0, 100, 3)] = random.integers(0, 4, 3)
        rows.append(row)
    write(rows)
    assert run(["search", "made-up.fasta", "--out", "best.nwk", "--count", "10", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["alignment"]["taxa"] == 200
    assert phloem.read_trees("best.nwk").branch_lengths.shape == (1, 397)


# A program that gets a request to stop while its threads are at work.
STOPPED_AMONG_ITS_JOBS = """
import signal
from phloem.__main__ import main
from phloem.search import jobs

def wait(running, wait=jobs.wait, **options):
    jobs.wait = wait
    assert not any(job.done() for job in running)
    signal.raise_signal({how})

jobs.wait = wait
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "how"), [("search", signal.SIGINT), ("search", signal.SIGTERM), ("bootstrap", signal.SIGINT)]
)
def test_an_interruption_leaves_nothing_half_written(command, how):
    write(np.random.default_rng(1).integers(0, 4, (120, 1000)))  # no tree is good, so that a search is long
    before = {path.name for path in Path().iterdir()}
    more = ["--out", "out", "--method", "embedded"] if command == "bootstrap" else ["--out", "x.nwk"]
    program = [sys.executable, "-c", STOPPED_AMONG_ITS_JOBS.format(how=int(how))]
    done = subprocess.run([*program, command, "made-up.fasta", *more, "--threads", "2"], capture_output=True, text=True)
    assert done.returncode == 130
    assert_says(done.stderr, "phloem: … interrupted")
    assert done.stderr.count("\n") == 1
    assert {path.name for path in Path().iterdir()} - before == ({"out"} if command == "bootstrap" else set())
    if command == "bootstrap":
        assert [path.name for path in Path("out").iterdir()] == ["bootstrap.json"]


@pytest.mark.slow
def test_a_bar_on_a_terminal():
    terminal, screen = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    command = [PROGRAM, "search", "primates", "--out", "best.nwk"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=screen, text=True)
    os.close(screen)
    shown = ""
    with suppress(OSError):  # which ends what a closed terminal has to say
        while part := os.read(terminal, 4096):
            shown += part.decode(errors="replace")
    os.close(terminal)
    assert process.communicate()[0].startswith("log-likelihood")
    assert "log-likelihood -6,4" in shown
