"""`phloem sample --chains`: trees of Markov chains from a run's draws, and what is said of them."""

from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

import phloem
from phloem.cli.main import run
from phloem.target.likelihood import TreeLikelihood
from phloem.target.substitution import SiteRates, hky85
from support.command_line import complaint

FEW = ["--chains", "12", "--rounds", "20"]


def test_chains_are_written_and_described(finished_run, capsys):
    files = ["--out", "c.nex", "--log", "c.log", "--lengths", "c.csv"]
    assert run(["sample", str(finished_run), *FEW, "--count", "60", *files, "--threads", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "60 posterior trees, equally weighted: c.nex\ntheir trace: c.log\nbranch lengths: c.csv\n12 "
    )
    for part in (
        "12 Markov chains of 20 rounds each",
        "180 trees",
        "Outside the support",
        "can the chains be trusted?",
    ):
        assert part in " ".join(said.split())
    sample = phloem.read_trees("c.nex")
    assert len(sample) == 60
    trace = pandas.read_csv("c.log", sep="\t", comment="#")
    assert list(trace.columns) == ["state", "posterior", "likelihood", "prior", "TL", "chain"]
    assert trace["chain"].tolist() == sorted(5 * list(range(1, 13)))
    np.testing.assert_allclose(trace["TL"], sample.branch_lengths.sum(axis=1), rtol=1e-8)
    np.testing.assert_allclose(trace["posterior"], trace["likelihood"] + trace["prior"], rtol=1e-8)
    lengths = pandas.read_csv("c.csv")
    assert (lengths[lengths["topology"] == "all"]["probability"] <= 1).all()
    for name in ("c.nex", "c.log"):
        assert "12 Markov chains of 20 rounds each" in Path(name).read_text()
        assert "Can it be trusted?" in Path(name).read_text()


def test_trees_of_chains_have_their_own_model_parameters(inferred_run):
    assert run(["sample", str(inferred_run), *FEW, "--count", "60", "--out", "c.nex", "--log", "c.log"]) == 0
    trace = pandas.read_csv("c.log", sep="\t", comment="#")
    names = ["kappa", "pi(A)", "pi(C)", "pi(G)", "pi(T)", "alpha"]
    assert list(trace.columns) == ["state", "posterior", "likelihood", "prior", "TL", *names, "chain"]
    trees, target = phloem.read_trees("c.nex"), phloem.load_posterior(inferred_run).target
    for row in (0, 30, 59):
        kappa, *frequencies, alpha = trace.loc[row, names]
        model = hky85(kappa, frequencies, SiteRates(torch.tensor(alpha), 4))
        likelihood = TreeLikelihood(target.likelihood.patterns, model)
        found = likelihood(trees.topologies[row : row + 1], torch.tensor(trees.branch_lengths[row : row + 1])).item()
        assert trace.loc[row, "likelihood"] == pytest.approx(found, abs=1e-3)
    assert trace["kappa"].nunique() > 10, "each tree has its own"


def test_the_same_seed_gives_the_same_trees_from_python_too(finished_runs):
    for name, threads in (("a.nwk", "1"), ("b.nwk", "2")):
        assert run(["sample", str(finished_runs), *FEW, "--seed", "3", "--out", name, "--threads", threads]) == 0
    assert Path("a.nwk").read_bytes() == Path("b.nwk").read_bytes()
    found = phloem.load_posterior(finished_runs).chains(12, 20, seed=3)
    read = phloem.read_trees("a.nwk", taxa=found.clades.taxa)
    np.testing.assert_array_equal(found.sample().topologies.parent, read.topologies.parent)
    assert found.clades.frequencies[0] <= 1


def test_an_unfinished_run_says_so(unfinished_run, capsys):
    assert run(["sample", str(unfinished_run), *FEW, "--out", "c.nwk"]) == 0
    assert "not finished: the starts are of step 1,000" in capsys.readouterr().out


def test_chains_agree_with_a_good_run(finished_run):
    posterior = phloem.load_posterior(finished_run)
    found = posterior.chains(200, 60)
    assert found.trust.level == "good"
    assert found.check.outside.value < 0.01
    assert found.check.difference.value < 0.05
    own = posterior.trees.branch_lengths.sum(axis=1) @ posterior.trees.weights
    assert found.trees.branch_lengths.sum(axis=1).mean() == pytest.approx(own, rel=0.02)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--chains", "1"], "--chains"),
        (["--rounds", "5"], "--rounds: is that of chains"),
        (["--threads", "1"], "--threads: is that of chains"),
        (["--chains", "5", "--weighted"], "--chains and --weighted"),
        (["--chains", "2", "--rounds", "4", "--count", "7"], "--count 7: the chains have 6 trees"),
    ],
)
def test_what_is_refused_before_chains_run(finished_run, capsys, monkeypatch, options, said):
    monkeypatch.setattr("phloem.tasks.posterior.chains_from", None)
    assert run(["sample", str(finished_run), "--out", "c.nex", *options]) == 2
    assert said in complaint(capsys)
    assert not Path("c.nex").exists()
