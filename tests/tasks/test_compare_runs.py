"""Runs beside each other, and the evidence for constraints: as by enumeration, and no more than can be told."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import phloem
from phloem.cli.main import run
from phloem.inference.agreement import Measured
from phloem.tasks.compare_runs import against, compare_runs
from phloem.trees.constraints import TopologyConstraints
from support.command_line import complaint
from support.messages import assert_says
from support.weighted_priors import known_posterior

QUICK = ["--steps", "400", "--branches", "edge", "--samples", "500", "--repeats", "4", "--model", "JC", "--quiet"]
QUICK += ["--set", "evaluation.chains=0", "--set", "evaluation.anneal=0"]


@pytest.mark.parametrize("clade", ["bc", "de", "cdf", "ab"])
def test_factors_are_those_of_enumeration(clade):
    posterior = known_posterior("JC", 6, 6)
    constraints = TopologyConstraints.of(tuple("abcdef"), [("one", tuple(clade))])
    holds = constraints.hold(posterior.topologies)
    given = posterior.log_evidence + math.log(len(holds))  # log p(Y given τ)
    parts = (holds, ~holds, np.ones_like(holds))
    within, rest, every = (np.logaddexp.reduce(given[part]) - math.log(part.sum()) for part in parts)
    of_all, of_rest = against(Measured(within, 0.003), Measured(every, 0.004), constraints.log_share)
    assert of_all.value == pytest.approx(within - every)
    assert of_all.error == pytest.approx(0.005)
    assert of_rest is not None
    assert of_rest.value == pytest.approx(within - rest)
    _, moved = against(Measured(within + 1e-6, 0), Measured(every, 0), constraints.log_share)
    assert moved is not None
    assert of_rest.error == pytest.approx(0.005 * (moved.value - of_rest.value) / 1e-6, rel=1e-3)


def test_what_is_left_of_almost_nothing_is_not_told():
    share = math.log(1 / 21)
    for factor in (-share, -share - 0.001, -share + 0.01, -share + 800):
        assert against(Measured(factor, 0.01), Measured(0.0, 0.01), share)[1] is None
    assert against(Measured(-share - 0.1, 0.01), Measured(0.0, 0.01), share)[1] is not None
    _, rest = against(Measured(-2000.0, 0.01), Measured(0.0, 0.01), share)
    assert rest is not None
    assert rest.value == pytest.approx(-2000 + math.log(20 / 21))


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A run of all trees and runs under constraints, for and against the data."""
    folder = tmp_path_factory.mktemp("runs")
    names = tuple("ABCDEF")
    rows = ["ACGTACGTACGAACGTACGA", "ACGTTCGTACGCACGTTCGC", "ACGTACGAACGTACGTACGA"]
    rows += ["ACTTACGTACGGACTTACGG", "GCGTACCTAGGATCGTACCT", "GCGTACCTAGGATCGTACCT"]
    (folder / "dna.fasta").write_text("".join(f">{name}\n{row}\n" for name, row in zip(names, rows, strict=True)))
    (folder / "for.txt").write_text("for: E F\n")
    (folder / "against.txt").write_text("against: A F\n")
    dna = str(folder / "dna.fasta")
    assert run(["infer", dna, "--out", str(folder / "free"), *QUICK]) == 0
    for name in ("for", "against"):
        constrain = ["--constrain", str(folder / f"{name}.txt")]
        assert run(["infer", dna, "--out", str(folder / name), *QUICK, *constrain]) == 0
    other = ["--constrain", str(folder / "for.txt"), "--prior-rate", "5"]
    assert run(["infer", dna, "--out", str(folder / "other"), *QUICK, *other]) == 0
    return folder


def test_runs_under_constraints_are_compared(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    assert run(["compare", "free", "against", "other"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert_says(said, "run params log p(Y) log Bayes factor probability evidence verdict")
    assert_says(said, "against has trees with against (2 taxa) alone, which is 0.143 of all topologies.")
    assert_says(said, "of such trees against all others is … very strong against the constraints.")
    assert "other has" not in said  # it has another prior on lengths
    assert run(["compare", "free", "for", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (one,) = found["constraints"]
    assert one["constraints"] == ["for"]
    assert one["log_prior_probability"] == pytest.approx(math.log(15 / 105))
    assert one["log_bayes_factor_against_all_trees"] > 0
    values = {row["run"]: row["log_marginal_likelihood"] for row in found["models"]}
    assert one["log_bayes_factor_against_all_trees"] == pytest.approx(values["for"] - values["free"])


def test_the_evidence_agrees_with_clade_probabilities(runs):
    found = compare_runs([runs / "free", runs / "for"])
    (one,) = found.constraints
    free = phloem.load_posterior(runs / "free")
    probability = next(
        share
        for members, share in zip(free.clades.members, free.clades.frequencies, strict=True)
        if members.tolist() == [False] * 4 + [True] * 2
    )
    assert one.prior * math.exp(one.against_all.value) == pytest.approx(probability, abs=0.1)


def test_what_cannot_be_compared_is_a_line(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    capsys.readouterr()
    shutil.copytree("free", "moved")
    provenance = json.loads(Path("moved/provenance.json").read_text())
    provenance["alignment"]["sha256"] = "0" * 64
    (Path("moved/provenance.json")).write_text(json.dumps(provenance))
    for command, says in (
        (["free", "free"], "the same run is named twice"),
        (["free", "nowhere"], "nowhere"),
        (["free", "for", "--models", "JC,HKY"], "runs are compared as they are. Leave flags out"),
        (["free", "for", "--seed", "3"], "runs are compared as they are"),
        (["free", "moved"], "moved: is a run on another alignment than free."),
    ):
        assert run(["compare", *command]) == 2
        assert_says(complaint(capsys), says)
