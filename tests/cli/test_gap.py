"""`phloem gap`: what users type, see, and get wrong."""

import json
from pathlib import Path

import pytest

from phloem.cli.main import run
from phloem.data.reading import find_trees
from phloem.trees import read_trees, write_newick
from support.command_line import complaint
from support.messages import assert_says


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A short run on the primates."""
    out = tmp_path_factory.mktemp("gap") / "run"
    short = ["--model", "JC", "--steps", "40", "--runs", "1", "--branches", "split", "--samples", "20"]
    short += ["--repeats", "2", "--quiet"]
    assert run(["infer", "primates", "--trees", "primates", "--out", str(out), *short]) == 0
    return out


def gap(finished: Path, *options: str, trees: str = "primates") -> list[str]:
    return ["gap", str(finished), "--trees", trees, "--samples", "20", "--quiet", *options]


def test_the_table_ends_with_the_averages(finished, capsys):
    assert run(gap(finished)) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["tree", "probability", "Q(τ)", "amortised", "ELBO", "best", "ELBO", "gap", "error"]
    assert rows[0].split()[0] == "1"
    averages = [row for row in rows if row.endswith(("weighted equally", "in the reference"))]
    assert len(averages) == 2
    assert averages[0].startswith("average gap ")
    assert any(row.startswith("errors of the amortised ELBO up to ") for row in rows)
    assert not any("*" in row for row in rows)
    assert max(map(len, [heading, *rows])) <= 80


def test_every_option_changes_something(finished, capsys):
    def found(*options: str, trees: str = "primates") -> dict:
        assert run([*gap(finished, *options, trees=trees), "--json"]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return json.loads(captured.out)

    few = ["--credible", "0.2"]
    usual = found(*few)
    assert len(usual["trees"]) < len(found()["trees"])
    assert usual == found(*few, "--threads", "2")
    assert found(*few, "--seed", "2")["average"] != usual["average"]
    assert found(*few, "--samples", "40")["samples"] == 40
    write_newick(read_trees(find_trees("primates")), "chain.nwk")  # without its weights: there a burn-in is refused
    whole, end = found(*few, trees="chain.nwk"), found(*few, "--burnin", "10", trees="chain.nwk")
    assert whole["trees"][0]["probability"] != end["trees"][0]["probability"]
    assert found(*few, "--tolerance", "0.0001")["trees"][0]["shortfall"] < 0.0001
    assert found(*few, "--trees", "primates")["topologies"] == usual["topologies"]
    found(*few, "--out", "gaps.csv", "--plot", "gaps.png")
    assert Path("gaps.csv").read_text().startswith("rank,probability,")
    assert Path("gaps.png").read_bytes().startswith(b"\x89PNG")


def test_trees_outside_the_tables_and_what_did_not_converge_are_said(finished, capsys, monkeypatch):
    tree = "(Tarsius_syrichta,Lemur_catta,(Homo_sapiens,(Pan,(Gorilla,(Pongo,(Hylobates,(Macaca_fuscata,(M_mulatta,"
    tree += "(M_fascicularis,(M_sylvanus,Saimiri_sciureus))))))))));"
    Path("odd.nwk").write_text(tree + "\n")
    monkeypatch.setattr("phloem.inference.gap.MOST_ROUNDS", 1)
    assert run(gap(finished, "--trees", "odd.nwk", "--credible", "1", "--tolerance", "1e-9")) == 0
    out = capsys.readouterr().out
    assert "* not converged: " in out
    assert "*" in out.splitlines()[1]
    assert "left out because the model lacks a split or subsplit: tree 1 (0.500000)" in out


def test_a_run_that_is_not_finished_says_so(unfinished_run, capsys):
    assert run(gap(unfinished_run)) == 0
    assert capsys.readouterr().out.startswith("not finished: the model is that of step ")


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["--trees", "other.nwk"], "other.nwk"),
        (["--trees", "missing.nwk"], "missing.nwk: … no such file"),
        (["--credible", "2"], "credible … 2"),
        (["--tolerance", "0"], "tolerance"),
        (["--plot", "gaps.gif"], "gaps.gif"),
        (["--out", "nowhere/gaps.csv"], "nowhere/gaps.csv: … directory"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(finished, options, facts, capsys):
    Path("other.nwk").write_text("((a,b),c,(d,e));\n")
    assert run(gap(finished, *options)) == 2
    assert_says(complaint(capsys), facts)


def test_a_directory_without_a_run_is_one_line(tmp_path, capsys):
    assert run(["gap", str(tmp_path), "--trees", "primates"]) == 2
    assert_says(complaint(capsys), f"{tmp_path}: … no phloem run")
