"""Runs with a model for each part of the alignment: explored, refitted and checked by chains under those models."""

import json
from pathlib import Path

import numpy as np
import pytest

import phloem
from phloem.inference.exploration import explore
from phloem.target.partitioned import PartitionedModel
from phloem.target.posterior import TreePosterior
from support.small_posteriors import evolved

LETTERS = {1: "A", 2: "C", 4: "G", 8: "T"}
PARTS = "HKY+G4, left = 1-30\nDNA, right = 31-90\n"
SETTINGS = {
    "preset": "quick",
    "model": {"name": "JC"},
    "branches": "split",
    "support": {"replicates": 1, "count": 100, "method": "embedded", "explore": 20},
    "training": {"steps": 1500},
    "evaluation": {"repeats": 20, "samples": 200, "chains": 40},
    "threads": 1,
    "progress": False,
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("parts")
    alignment = evolved(8, 90, seed=7)
    rows = ["".join(LETTERS[int(state)] for state in row) for row in alignment.states]
    named = zip(alignment.taxa, rows, strict=True)
    (directory / "a.fasta").write_text("".join(f">{name}\n{row}\n" for name, row in named))
    (directory / "parts.txt").write_text(PARTS)
    return directory


@pytest.fixture(scope="module")
def targets() -> list[TreePosterior]:
    """What chains explored."""
    return []


@pytest.fixture(scope="module")
def posterior(directory, targets) -> phloem.Posterior:
    def watched(target, *arguments, **options):
        targets.append(target)
        return explore(target, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("phloem.tasks.support.explore", watched)
        return phloem.infer(
            directory / "a.fasta", out=directory / "run", partition={"sites": str(directory / "parts.txt")}, **SETTINGS
        )


def test_chains_explore_under_the_models_of_the_parts(posterior, targets):
    (target,) = targets
    assert isinstance(target.likelihood.model, PartitionedModel)
    assert target.parameters is not None
    assert target.parameters.names[-2:] == ("m{1}", "m{2}")
    assert posterior.summary.found.trust.advice == "Nothing to worry about."  # with no word of a second run


def test_chains_check_the_run_whose_verdict_can_be_good(posterior):
    levels = {finding.name: finding.level for finding in posterior.trust.findings}
    assert levels["Outside the support"] == levels["Clades by chains"] == posterior.trust.level == "good"


def test_trees_by_chains_have_the_parameters_of_all_parts(posterior):
    chains = posterior.chains(40, 40)
    assert chains.trees.theta.shape == (len(chains.trees), 6)  # κ, three of frequencies, α, a rate
    assert np.isfinite(chains.found.shrink)


def test_a_run_that_lost_its_results_has_the_same_again(directory, posterior):
    out = directory / "run"
    whole = (out / "summary.json").read_bytes()
    assert json.loads(whole)["trust"]["level"] == "good"
    for path in out.iterdir():
        if path.name not in ("checkpoints", "bootstrap", "config.toml", "provenance.json", "SHA256SUMS"):
            path.unlink()
    phloem.infer(None, out=out, resume=True, threads=1, progress=False)
    assert (out / "summary.json").read_bytes() == whole
