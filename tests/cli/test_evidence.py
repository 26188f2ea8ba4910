"""`phloem evidence`: trees compared by the data's probability given each."""

import json

import numpy as np
import pytest

import phloem
from phloem.cli.main import run
from phloem.data.reading import find_trees
from phloem.inference.evidence import TopologyEvidence
from phloem.trees.generation import topology_count
from support.messages import assert_says


@pytest.fixture
def trees(tmp_path) -> str:
    """Three topologies of the primates, the second of them twice, with and without lengths."""
    sample = phloem.trees.read_trees(find_trees("primates")).distinct()
    some = sample[[0, 1, 2, 1]]
    path = tmp_path / "some.nwk"
    path.write_text("\n".join(phloem.trees.format_newick(some.topologies, some.taxa)) + "\n")
    return str(path)


def test_topologies_are_compared(trees, capsys):
    assert run(["evidence", "primates", trees, "--json", "--quiet", "--error", "0.05"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"]["name"] == "JC69"
    rows = found["trees"]
    assert len(rows) == 3
    values = np.array([row["log_marginal_likelihood"] for row in rows])
    best = int(values.argmax())
    assert rows[best]["log_bayes_factor"] == rows[best]["log_bayes_factor_error"] == 0
    for row in rows:
        assert row["log_bayes_factor"] == pytest.approx(row["log_marginal_likelihood"] - values[best])
        assert 0 < row["error"] <= 0.05
        assert row["newick"].endswith(";")
    assert sum(row["probability"] for row in rows) == pytest.approx(1)
    assert rows[best]["probability"] == max(row["probability"] for row in rows)


def test_the_table_has_a_row_for_each_and_says_what_was_not_reached(trees, capsys):
    assert run(["evidence", "primates", trees, "--quiet", "--error", "0.0001", "--draws", "200"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("model ")
    assert "log p(Y given tree)" in lines[2]
    assert [line.split()[0] for line in lines[3:6]] == ["1", "2", "3"]
    assert lines[-1] == "3 topologies did not reach a standard error of 0.0001: allow more --draws."


def test_every_option_is_followed(trees, monkeypatch, capsys):
    asked = {}

    def topology_evidence(target, topologies, **options):
        asked.update(options, target=target, count=len(topologies))
        return TopologyEvidence(*np.ones((4, len(topologies))))

    monkeypatch.setattr("phloem.tasks.evidence.topology_evidence", topology_evidence)
    numbers = [
        "--error",
        "0.3",
        "--draws",
        "700",
        "--seed",
        "9",
        "--prior-rate",
        "50",
        "--threads",
        "2",
        "--burnin",
        "2",
    ]
    assert run(["evidence", "primates", trees, *numbers, "--model", "HKY", "--kappa", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["name"] == "HKY85"
    target = asked["target"]
    assert (asked["error"], asked["most_draws"], asked["stream"].seed) == (0.3, 700, 9)
    assert (target.prior.rate, target.likelihood.threads) == (50.0, 2)
    assert asked["count"] == 2  # the last two of four
    assert run(["evidence", "primates", trees, "--quiet"]) == 0
    assert (asked["error"], asked["most_draws"], asked["stream"].seed, asked["count"]) == (0.02, 10_000, 1, 3)
    assert asked["target"].prior.rate == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["primates", "missing.nwk"], "missing.nwk: "),
        (["primates", "primates", "--error", "0"], "above 0"),
        (["primates", "primates", "--draws", "5"], "at least 200"),
        (["primates", "primates", "--prior-rate", "-1"], "--prior-rate -1: give a number above 0"),
        (["primates"], "no trees are named"),
        (["."], "holds no phloem run"),
    ],
)
def test_bad_input_is_a_line(options, message, capsys):
    assert run(["evidence", *options, "--quiet"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.fixture
def of_run(finished_run, capsys):
    """What the command says of a run, as JSON."""

    def found(*options: str) -> dict:
        assert run(["evidence", str(finished_run), *options, "--json", "--quiet"]) == 0
        return json.loads(capsys.readouterr().out)

    return found


def test_topologies_of_a_run_have_evidence_beside_their_draws(finished_run, of_run, trees, capsys):
    posterior, found = phloem.load_posterior(finished_run), of_run("--error", "0.05")
    rows, estimates = found["trees"], posterior.topology_estimates
    size = next(one.topologies for one in posterior.summary.found.credible_sets if one.share == 0.95)
    assert len(rows) == size
    newick = phloem.trees.format_newick(estimates.trees.topologies, posterior.taxa)
    for number, row in enumerate(rows):
        assert row["newick"] == newick[number]
        assert row["drawn_probability"] == estimates.trees.weights[number]
        assert row["drawn_probability_error"] == estimates.error[number]
        assert 0 < row["error"] <= 0.05
        assert row["trained"]
        error = np.hypot(row["error"], estimates.log_evidence_error[number])
        assert abs(row["log_evidence"] - estimates.log_evidence[number]) < 4 * error
    assert sum(row["probability"] for row in rows) + found["others"]["probability"] == pytest.approx(1)
    assert found["left_out"] == 0
    # The same by fits, but for the prior probability of a topology on 12 taxa.
    assert run(["evidence", "primates", trees, "--json", "--quiet", "--error", "0.05"]) == 0
    fitted = {row["newick"]: row for row in json.loads(capsys.readouterr().out)["trees"]}
    given = of_run(trees, "--error", "0.05")["trees"]
    assert [row["newick"] for row in given] == list(fitted)
    for row in given:
        one = fitted[row["newick"]]
        difference = one["log_marginal_likelihood"] - row["log_evidence"] - np.log(topology_count(12))
        assert abs(difference) < 4 * np.hypot(one["error"], row["error"])


def test_a_topology_that_was_never_drawn_has_evidence_all_the_same(of_run, finished_run, tmp_path):
    posterior = phloem.load_posterior(finished_run)
    drawn = {row.tobytes() for row in posterior.draws.topologies.parent}
    around = phloem.trees.nni_neighbors(posterior.topologies.topologies[:1])
    new = next(number for number, row in enumerate(around.parent) if row.tobytes() not in drawn)
    (tmp_path / "new.nwk").write_text(phloem.trees.format_newick(around[new], posterior.taxa)[0])
    found = of_run(str(tmp_path / "new.nwk"), "--error", "0.2")
    (row,) = found["trees"]
    assert (row["drawn_probability"], row["drawn_probability_error"]) == (0, 0)
    assert row["log_evidence"] < posterior.topology_estimates.log_evidence[0]
    assert row["probability"] + found["others"]["probability"] == pytest.approx(1)
    assert found["others"]["probability"] > 0.9
    assert not row["trained"], "the tables of splits lack one of its own"


def test_the_table_of_a_run_says_what_is_not_in_it(finished_run, monkeypatch, capsys):
    monkeypatch.setattr("phloem.tasks.run_evidence.MOST_TOPOLOGIES", 1)
    monkeypatch.setattr("phloem.inference.evidence.is_made_of_noise", lambda family: False)
    assert run(["evidence", str(finished_run), "--quiet", "--error", "0.0001", "--draws", "200"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "log p(Y, τ)" in lines[2]
    assert [line.split()[0] for line in lines[3:5]] == ["1", "others"]
    text = "\n".join(lines[5:])
    assert "1 topology did not reach a standard error of 0.0001" in text
    assert "of the credible set, less probable, are left out" in text
    assert "1 topology began with fitted branch lengths" in text
    assert max(map(len, lines[:5])) <= 80


def test_a_run_is_measured_with_its_own_model_and_prior(trees, monkeypatch, capsys, tmp_path):
    settings = {
        "branches": "split",
        "training": {"steps": 20},
        "evaluation": {"repeats": 2, "samples": 50, "chains": 0},
    }
    model = {"name": "HKY", "kappa": [3.0]}
    phloem.infer(
        "primates", "primates", runs=2, out=tmp_path / "run", prior_rate=50.0, model=model, progress=False, **settings
    )
    asked = {}

    def topology_evidence(target, topologies, **options):
        asked.update(options, target=target, count=len(topologies))
        return TopologyEvidence(*np.ones((4, len(topologies))))

    monkeypatch.setattr("phloem.tasks.run_evidence.topology_evidence", topology_evidence)
    numbers = ["--error", "0.3", "--draws", "700", "--seed", "9", "--threads", "2", "--burnin", "2"]
    assert run(["evidence", str(tmp_path / "run"), trees, *numbers, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["name"] == "HKY85"
    target = asked["target"]
    assert (asked["error"], asked["most_draws"], asked["stream"].seed) == (0.3, 700, 9)
    assert (target.prior.rate, target.likelihood.threads) == (50.0, 2)
    assert asked["count"] == 2
    best = phloem.load_posterior(tmp_path / "run").best_run.model.branches
    for name, tensor in asked["branches"].state_dict().items():
        assert tensor.equal(best.state_dict()[name])
    assert run(["evidence", str(tmp_path / "run"), "--quiet"]) == 0
    assert (asked["error"], asked["most_draws"], asked["stream"].seed) == (0.02, 10_000, 1)
    assert "do not trust" in capsys.readouterr().out.lower()


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["--model", "JC"], "--model: … is a run"),
        (["--prior-rate", "10"], "--prior-rate: … is a run"),
        (["--long-names"], "--long-names: … is a run"),
        (["--invariant", "0.1"], "--invariant: … is a run"),
        (["--burnin", "1"], "--burnin: … no"),
        (["--error", "0"], "above 0"),
        (["missing.nwk"], "missing.nwk: "),
    ],
)
def test_what_a_run_cannot_be_asked_is_a_line(options, facts, finished_run, capsys):
    assert run(["evidence", str(finished_run), *options, "--quiet"]) == 2
    error = capsys.readouterr().err
    assert_says(error, facts)
    assert len(error.splitlines()) == 1


def test_a_run_that_is_not_finished_is_a_line(unfinished_run, capsys):
    assert run(["evidence", str(unfinished_run), "--quiet"]) == 2
    assert_says(capsys.readouterr().err, "not finished … --resume")
