"""The Snakemake workflow for many loci: planned, and on one machine run, where Snakemake is installed."""

import csv
import os
import subprocess
from pathlib import Path

import pytest

from phloem.tasks.loci_files import SUFFIXES
from support.command_line import PROGRAM

WORKFLOW = Path(__file__).parents[1] / "workflow"
FLAGS = "--model JC --steps 20 --branches split --samples 20 --repeats 2 --set evaluation.chains=0"


@pytest.fixture
def in_folder_of_genes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--taxa", "5", "--sites", "60", "--model", "JC", "--replicates", "3", "--quiet"]
    subprocess.run([PROGRAM, "simulate", "--out", "genes/g", *options], check=True)


def run(snakemake: list[str], *options: str) -> str:
    config = ["--config", "alignments=genes", "out=loci", "batch=2", f"phloem={PROGRAM}", f"flags={FLAGS}"]
    profile = ["--workflow-profile", str(WORKFLOW / "profiles" / "loci-local")]
    done = subprocess.run(
        [*snakemake, "--snakefile", str(WORKFLOW / "loci.smk"), *profile, *options, *config],
        capture_output=True,
        text=True,
        env=os.environ | {"XDG_CACHE_HOME": str(Path("cache").absolute())},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_files_are_alignments_by_the_same_endings():
    line = next(line for line in (WORKFLOW / "loci.smk").read_text().splitlines() if line.startswith("ENDINGS"))
    assert eval(line.partition("=")[2]) == SUFFIXES


@pytest.mark.slow
@pytest.mark.usefixtures("in_folder_of_genes")
def test_a_plan_has_a_job_for_each_batch(snakemake):
    planned = run(snakemake, "--dry-run")
    assert planned.count("rule batch:") == 2
    assert planned.count("rule tables:") == 1
    assert not Path("loci").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("in_folder_of_genes")
def test_batches_are_run_and_then_nothing_is_left(snakemake):
    Path("genes/bad.fasta").write_text("nothing\n")
    run(snakemake)
    with Path("loci/loci.csv").open() as stream:
        found = {row["locus"]: row["status"] for row in csv.DictReader(stream)}
    assert found == {"bad": "failed", "g-1": "done", "g-2": "done", "g-3": "done"}
    assert "Nothing to be done" in run(snakemake)
