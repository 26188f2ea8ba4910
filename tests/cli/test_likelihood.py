"""`phloem likelihood`: tables, JSON, and every option."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from phloem.cli.main import run
from phloem.trees.reading import parse_newick
from support.command_line import complaint
from support.messages import assert_says

TREE = "((Homo:0.1,Pan:0.2):0.05,Gorilla:0.3,(Pongo:0.2,Hylobates:0.4):0.1);"
FASTA = (
    ">Homo\nACGTACGTAACCGTNA\n>Pan\nACGTACGTACCCGTTA\n>Gorilla\nACGAACGTACCGGTTA\n"
    ">Pongo\nACGAACTTACCGGTT-\n>Hylobates\nACTAACTTACCGCTTA\n"
)


@pytest.fixture(autouse=True)
def files(in_empty_directory):
    Path("dna.fasta").write_text(FASTA)
    Path("trees.nwk").write_text(f"{TREE}\n{TREE.replace('Pan', 'X').replace('Pongo', 'Pan').replace('X', 'Pongo')}\n")


def values(capsys, *options: str) -> list[float]:
    assert run(["likelihood", "dna.fasta", "trees.nwk", *options, "--json"]) == 0
    return [tree["log_likelihood"] for tree in json.loads(capsys.readouterr().out)["trees"]]


OPTIONS = [
    ["--model", "K80", "--kappa", "2"],
    ["--model", "K80", "--kappa", "3"],
    ["--model", "F81", "--frequencies", "0.4,0.2,0.2,0.2"],
    ["--model", "F81", "--frequencies", "empirical"],
    ["--model", "HKY", "--kappa", "2", "--frequencies", "0.4,0.2,0.2,0.2"],
    ["--model", "TN93", "--kappa", "2,3", "--frequencies", "0.4,0.2,0.2,0.2"],
    ["--model", "SYM", "--rates", "1,2,1,1,3,1"],
    ["--model", "GTR", "--rates", "1,2,1,2,3,1", "--frequencies", "0.4,0.2,0.2,0.2"],
    ["--gamma", "4", "--alpha", "0.5"],
    ["--gamma", "8", "--alpha", "0.5"],
    ["--gamma", "4", "--alpha", "2"],
    ["--gamma", "4", "--alpha", "0.5", "--median-rates"],
    ["--invariant", "0.1"],
    ["--invariant", "0.1", "--gamma", "4", "--alpha", "0.5"],
    ["--optimize"],
]


def test_every_option_changes_the_result(capsys):
    results = [tuple(values(capsys, *options)) for options in [[], *OPTIONS]]
    assert len(set(results)) == len(results)
    assert all(np.isfinite(result).all() and len(result) == 2 for result in results)
    best = results[-1]
    assert all(better > plain for better, plain in zip(best, results[0], strict=True))


def test_threads_change_nothing_but_time(capsys):
    assert values(capsys, "--threads", "1") == values(capsys, "--threads", "2")


def test_gradients_and_sites(capsys):
    assert run(["likelihood", "dna.fasta", "trees.nwk", "--gradient", "--sites", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["model"]["name"] == "JC69"
    assert answer["alignment"]["sites"] == 16
    for tree in answer["trees"]:
        assert len(tree["gradient"]) == 7
        assert len(tree["sites"]) == 16
        assert sum(tree["sites"]) == pytest.approx(tree["log_likelihood"])
        assert parse_newick(tree["newick"]).branch_lengths is not None


def test_tables_for_people(capsys):
    assert run(["likelihood", "dna.fasta", "trees.nwk", "--gradient", "--sites", "--optimize"]) == 0
    output = capsys.readouterr().out
    assert "5 taxa, 16 sites" in output
    assert re.search(r"tree +log-likelihood +tree length", output)
    assert "with the best branch lengths:" in output
    assert re.search(r"1 +Homo +\S+ +\S+", output)
    assert "above 2 taxa: " in output
    assert len(re.findall(r"^ *16 +-?\d", output, re.MULTILINE)) == 1


def test_the_report_names_what_is_odd_about_the_alignment(capsys):
    Path("odd.fasta").write_text(">A\nAC-\n>B\nAC-\n>C\nACN\n>D\n???\n")
    Path("odd.nwk").write_text("(A:1,B:1,(C:1,D:1):1);")
    assert run(["likelihood", "odd.fasta", "odd.nwk"]) == 0
    output = capsys.readouterr().out
    assert "identical sequences: A, B, C" in output
    assert "sites without any data: 1" in output
    assert "taxa without any data: D" in output


def test_three_taxa_work(capsys):
    Path("three.fasta").write_text(">A\nACGT\n>B\nACGA\n>C\nACTT\n")
    Path("three.nwk").write_text("(A:0.1,B:0.1,C:0.1);")
    assert run(["likelihood", "three.fasta", "three.nwk", "--json"]) == 0
    assert np.isfinite(json.loads(capsys.readouterr().out)["trees"][0]["log_likelihood"])


def test_an_impossible_tree_is_null_in_json_and_inf_for_people(capsys):
    Path("zero.nwk").write_text("(Homo:0,Pan:0,(Gorilla:0,(Pongo:0,Hylobates:0):0):0);")
    assert run(["likelihood", "dna.fasta", "zero.nwk", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trees"][0]["log_likelihood"] is None
    assert run(["likelihood", "dna.fasta", "zero.nwk"]) == 0
    assert "-inf" in capsys.readouterr().out


def test_the_bundled_primates_with_the_best_lengths(capsys):
    assert run(["likelihood", "primates", "primates", "--optimize", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["trees"][0]["log_likelihood"] == pytest.approx(-6424.2025, abs=1e-3)


BAD = {
    "no alignment": (["none.fasta", "trees.nwk"], "none.fasta: … no such file"),
    "no trees": (["dna.fasta", "none.nwk"], "none.nwk: … no such file"),
    "other taxa": (["primates", "trees.nwk"], "trees.nwk … tree 1 … line 1 … column 1 … 'Tarsius_syrichta'"),
    "no lengths": (
        ["dna.fasta", "bare.nwk"],
        "bare.nwk: … branch lengths",
    ),
    "a missing length": (["dna.fasta", "missing.nwk"], "missing.nwk … tree 1 … 'Pan' … length"),
    "a negative length": (["dna.fasta", "negative.nwk"], "negative.nwk … tree 1 … 'Pan' … -0.2"),
    "an unknown model": (["dna.fasta", "trees.nwk", "--model", "WAG"], "model 'WAG' … JC"),
    "kappa for JC": (["dna.fasta", "trees.nwk", "--kappa", "2"], "model JC … kappa"),
    "letters for kappa": (["dna.fasta", "trees.nwk", "--model", "K80", "--kappa", "two"], "--kappa two"),
    "kappa of zero": (["dna.fasta", "trees.nwk", "--model", "K80", "--kappa", "0"], "kappa … 0"),
    "frequencies that do not add up": (
        ["dna.fasta", "trees.nwk", "--model", "F81", "--frequencies", ".3,.3,.3,.3"],
        "frequencies … 1",
    ),
    "a shape of zero": (["dna.fasta", "trees.nwk", "--gamma", "4", "--alpha", "0"], "shape 0"),
    "all sites invariant": (["dna.fasta", "trees.nwk", "--invariant", "1"], "invariant sites 1"),
    "too many categories": (["dna.fasta", "trees.nwk", "--gamma", "1000", "--alpha", "1"], "--gamma 1000 … 64"),
    "protein": (["protein.fasta", "trees.nwk"], "protein.fasta: … protein"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case, capsys):
    command, facts = BAD[case]
    Path("bare.nwk").write_text(re.sub(r":[\d.]+", "", TREE))
    Path("missing.nwk").write_text(TREE.replace("Pan:0.2", "Pan"))
    Path("negative.nwk").write_text(TREE.replace("Pan:0.2", "Pan:-0.2"))
    Path("protein.fasta").write_text(">A\nMEL\n>B\nMFL\n>C\nMEQ\n")
    assert run(["likelihood", *command]) == 2
    assert_says(complaint(capsys), facts)
