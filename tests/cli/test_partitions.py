"""`phloem infer --partition`: from a partition file to results, stopped and resumed, and what is wrong in a line."""

import json
from pathlib import Path

import pytest

from phloem.cli.main import run
from phloem.data.alignment import Alignment
from support.small_posteriors import evolved

LETTERS = {1: "A", 2: "C", 4: "G", 8: "T"}
FAST = [
    "--steps",
    "60",
    "--set",
    "evaluation.repeats=20",
    "--set",
    "evaluation.samples=100",
    "--threads",
    "1",
    "--quiet",
]
FAST += ["--set", "evaluation.anneal=0", "--set", "width=8"]
PARTS = "HKY+G4, left = 1-30\nDNA, right = 31-90\n"


@pytest.fixture
def alignment(tmp_path, monkeypatch) -> Alignment:
    monkeypatch.chdir(tmp_path)
    found = evolved(5, 90, seed=7)
    rows = zip(found.taxa, found.states, strict=True)
    Path("a.fasta").write_text("".join(f">{name}\n{''.join(LETTERS[int(s)] for s in row)}\n" for name, row in rows))
    Path("parts.txt").write_text(PARTS)
    return found


def infer(*options: str) -> int:
    return run(["infer", "a.fasta", "--out", "run", "--partition", "parts.txt", "--model", "JC", *options, *FAST])


def test_parts_have_models_rates_and_names_of_their_own(alignment):
    assert infer() == 0
    summary = json.loads(Path("run/summary.json").read_text())
    names = [one["name"] for one in summary["parameters"]]
    assert names == ["kappa{1}", *(f"pi({state}){{1}}" for state in "ACGT"), "alpha{1}", "m{1}", "m{2}"]
    assert summary["model"].startswith(
        "2 parts: left HKY+G4; right JC; kappa, frequencies, the shape and rates of parts"
    )
    assert {"Outside the support", "Clades by chains"} < {finding["name"] for finding in summary["trust"]["findings"]}
    header = next(line for line in Path("run/posterior.log").read_text().splitlines() if line.startswith("state"))
    assert header.split("\t")[1:6] == ["posterior", "likelihood", "prior", "TL{all}", "kappa{1}"]
    assert "HKY+G4" in Path("run/report.html").read_text()


def test_a_stopped_run_keeps_its_parts(alignment):
    assert infer() == 0
    whole = Path("run/summary.json").read_bytes()
    for path in Path("run").iterdir():
        if path.name not in ("checkpoints", "bootstrap", "config.toml", "provenance.json", "SHA256SUMS"):
            path.unlink()
    Path("parts.txt").unlink()
    assert run(["infer", "--resume", "--out", "run", "--quiet", "--threads", "1"]) == 0
    assert Path("run/summary.json").read_bytes() == whole


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ("DNA, a = 1-50\nDNA, b = 40-90\n", "site 40"),
        ("DNA, a = 1-50\nDNA, b = 60-90\n", "site 51"),
        ("DNA, a = 1-50\nDNA, b = 51-91\n", "91"),
        ("WAG, a = 1-90\n", "nucleotide"),
        ("GTR+R4, a = 1-90\n", "part a: model 'GTR+R4'"),
        ("GTR+G4, a = 1-50\nGTR+G8, b = 51-90\n", "parts with 4 and 8 rate categories"),
    ],
)
def test_what_is_wrong_with_a_partition_is_a_line(alignment, parts, problem, capsys):
    Path("parts.txt").write_text(parts)
    assert infer() == 2
    said = capsys.readouterr().err
    assert problem in said
    assert len(said.strip().splitlines()) == 1
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--link", "shape"], "--link 'shape': no such parameter. Give some of kappa, rates, frequencies, alpha"),
        (["--part-rates", "some"], "--part-rates 'some': choose one of inferred, equal."),
        (["--partition", "by-codon"], "codon"),
        (["--partition", "none.txt"], "none.txt"),
    ],
)
def test_options_that_make_no_sense(alignment, options, problem, capsys):
    short = "".join(f">{name}\nACGTACGTAC\n" for name in alignment.taxa)
    Path("a.fasta").write_text(short)
    assert infer(*options) == 2
    assert problem in capsys.readouterr().err
