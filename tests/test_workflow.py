"""The Snakemake workflow of the benchmark: what it would run, and a tiny table that it makes for real."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from phloem.experiments.benchmark.cells import Setup, parse_changes
from phloem.experiments.benchmark.published import VARIANTS

WORKFLOW = Path(__file__).parent.parent / "workflow"
TINY = ("training.steps=20", "training.refit=0", "evaluation.repeats=2", "evaluation.samples=50")


def run(command: list[str], folder: Path, *config: str, profile: str | None = None) -> str:
    """What Snakemake says, in that folder."""
    options = [] if profile is None else ["--profile", str(WORKFLOW / "profiles" / profile)]
    settings = [f"phloem={sys.executable} -P -m phloem", *config]
    done = subprocess.run(
        [*command, "--snakefile", str(WORKFLOW / "Snakefile"), *options, "--config", *settings],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"XDG_CACHE_HOME": str(folder / "cache")},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_dry_run_has_a_job_for_every_cell(snakemake, tmp_path):
    said = run([*snakemake, "--dry-run", "--printshellcmds"], tmp_path, "seeds=1,2", profile="local")
    assert re.search(r"^cell +128$", said, re.MULTILINE)  # 8 data sets × 8 variants × 2 seeds
    assert re.search(r"^support +8$", said, re.MULTILINE)
    assert re.search(r"^table +1$", said, re.MULTILINE)
    for variant in VARIANTS:
        assert (
            f"--datasets DS8 --variants {variant} --seeds 2 --preset standard --family lognormal --out benchmark"
            in said
        )
    assert not (tmp_path / "benchmark").exists()


@pytest.mark.slow
def test_the_workflow_names_folders_as_phloem_does(snakemake, tmp_path):
    changes = ["training.refit=0", "training.steps=20"]
    setup = Setup("warped", "paper", parse_changes(changes[:1], steps=20))
    said = run([*snakemake, "--dry-run"], tmp_path, "family=warped", "preset=paper", f"set={','.join(changes)}")
    assert f"benchmark/cells/{setup.name}/DS1-edge-1/summary.json" in said


def test_profiles_are_there_for_one_machine_and_for_slurm():
    assert {path.parent.name for path in WORKFLOW.glob("profiles/*/config.yaml")} >= {"local", "slurm"}


@pytest.mark.slow
def test_a_tiny_table_is_made_and_not_made_again(snakemake, tmp_path, real_data):
    config = ("out=out", "datasets=DS1", "variants=split,mlp", f"set={','.join(TINY)}", f"data={real_data}")
    config = (*config, "bootstrap_replicates=2", "bootstrap_threads=1")
    run([*snakemake, "--cores", "1"], tmp_path, *config)
    cells = json.loads((tmp_path / "out" / "table1.json").read_text())["cells"]
    assert [(cell["variant"], cell["state"], cell["steps"]) for cell in cells] == [
        ("split", "finished", 20),
        ("mlp", "finished", 20),
    ]
    assert cells[0]["support"]["replicates"] == 2
    assert "Nothing to be done" in run([*snakemake, "--cores", "1"], tmp_path, *config)
    # What was interrupted, and has lost its results, is resumed from its checkpoint.
    summary = tmp_path / "out" / "cells" / Setup(changes=parse_changes(TINY, None)).name / "DS1-mlp-1" / "summary.json"
    before = summary.read_bytes()
    summary.unlink()
    (tmp_path / "out" / "table1.html").unlink()  # which asks for it
    said = run([*snakemake, "--cores", "1"], tmp_path, *config)
    assert re.search(r"^cell +1$", said, re.MULTILINE)
    assert json.loads(summary.read_bytes())["elbo"] == json.loads(before)["elbo"]
