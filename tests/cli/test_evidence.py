"""`phloem evidence`: trees compared by the data's probability given each."""

import json

import numpy as np
import pytest

import phloem
from phloem.cli.main import run
from phloem.data.reading import find_trees
from phloem.inference.evidence import TopologyEvidence


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
        (["primates", "primates", "--prior-rate", "-1"], "must be a finite number above 0"),
    ],
)
def test_bad_input_is_a_line(options, message, capsys):
    assert run(["evidence", *options, "--quiet"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
