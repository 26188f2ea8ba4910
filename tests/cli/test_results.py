"""`evaluate`, `sample` and `report`: what they print, what they write, and what they refuse."""

import json
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import dendropy
import numpy as np
import pandas
import pytest
from Bio import Phylo

import phloem
from phloem.cli.main import run
from phloem.tasks.run_files import EXPORTS
from support.command_line import complaint
from support.messages import assert_says

MISSING = "no phloem run"


def refusal(capsys, arguments: list[str]) -> str:
    """What a command says that must fail."""
    assert run(arguments) == 2
    return complaint(capsys)


def test_a_run_is_evaluated_for_people_and_for_programs(finished_runs, capsys):
    assert run(["evaluate", str(finished_runs), "--bounds", "5,50"]) == 0
    text = capsys.readouterr().out
    for part in ("log marginal likelihood ", "\nELBO ", "\nbound of 5 ", "\nbound of 50 ", "can it be trusted? "):
        assert part in text
    assert max(map(len, text.splitlines())) <= 80
    assert run(["evaluate", str(finished_runs), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    own = json.loads((finished_runs / "summary.json").read_text())
    assert {name: found[name] for name in own} == own
    assert [bound["particles"] for bound in found["bounds"]] == [100]


@pytest.mark.parametrize("option", ["--samples", "--repeats", "--seed"])
def test_new_draws_are_made_where_they_are_asked_for(option, finished_run, capsys):
    assert run(["evaluate", str(finished_run), option, "7", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = {"samples": 200, "repeats": 5} | ({option[2:]: 7} if option != "--seed" else {})
    assert found["evaluation"] == expected
    own = phloem.load_posterior(finished_run)
    assert found["elbo"]["mean"] != own.elbo.mean


def test_every_option_of_evaluate_is_followed(monkeypatch, capsys):
    asked = []

    def evaluate_run(directory, *, progress, **options):
        asked.append((directory, options))
        return SimpleNamespace(as_json=lambda: {"asked": True}, describe=lambda width: [f"{width} columns"])

    monkeypatch.setattr("phloem.tasks.evaluate.evaluate_run", evaluate_run)
    numbers = ["--samples", "2", "--repeats", "3", "--seed", "0", "--anneal", "7", "--bounds", "4,5"]
    references = ["--reference", "one.t", "--reference", "two.t", "--burnin", "0.25", "--threads", "6"]
    assert run(["evaluate", "here", *numbers, *references, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"asked": True}
    assert asked[0] == (
        Path("here"),
        {
            "samples": 2,
            "repeats": 3,
            "seed": 0,
            "anneal": 7,
            "bounds": (4, 5),
            "reference": ["one.t", "two.t"],
            "burnin": 0.25,
            "threads": 6,
        },
    )
    assert run(["evaluate", "here"]) == 0
    assert capsys.readouterr().out == "80 columns\n"
    nothing = dict.fromkeys(("samples", "repeats", "seed", "anneal", "threads"))
    assert asked[1][1] == nothing | {"bounds": None, "reference": (), "burnin": 0}


def test_a_reference_is_compared_with(finished_run, capsys):
    assert run(["sample", str(finished_run), "--count", "300", "--out", "own.t"]) == 0
    capsys.readouterr()
    assert run(["evaluate", str(finished_run), "--reference", "own.t", "--burnin", "0.5"]) == 0
    assert "KL divergence" in capsys.readouterr().out
    assert run(["evaluate", str(finished_run), "--reference", "own.t", "--reference", "primates", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reference"]["topologies"] >= 21


def test_threads_change_nothing_but_the_time(finished_run, capsys):
    answers = []
    for threads in ("1", "2"):
        assert run(["evaluate", str(finished_run), "--repeats", "2", "--threads", threads, "--json"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


def test_what_evaluate_refuses(finished_run, capsys, tmp_path):
    Path("other.nwk").write_text("(a,b,(c,d));\n")
    directory = str(finished_run)
    assert "other.nwk" in refusal(capsys, ["evaluate", directory, "--reference", "other.nwk"])
    assert "nothing.t" in refusal(capsys, ["evaluate", directory, "--reference", "nothing.t"])
    assert MISSING in refusal(capsys, ["evaluate", str(tmp_path)])
    for bounds in ("0", "x", "1.5", "-3"):
        assert f"--bounds {bounds}" in refusal(capsys, ["evaluate", directory, f"--bounds={bounds}"])


@pytest.mark.slow
def test_trees_are_written_as_nexus_and_as_newick_and_everybody_reads_them(finished_runs, capsys, rscript_ape):
    for name in ("trees.nex", "trees.nwk", "trees.t"):
        assert run(["sample", str(finished_runs), "--count", "30", "--out", name]) == 0
        assert f"30 posterior trees, equally weighted: {name}" in capsys.readouterr().out
        is_nexus = name != "trees.nwk"
        sample = phloem.read_trees(name)
        assert len(sample) == 30
        assert sample.branch_lengths is not None
        trees = dendropy.TreeList.get(path=name, schema="nexus" if is_nexus else "newick", preserve_underscores=True)
        assert len(trees) == 30
        assert {taxon.label for taxon in trees.taxon_namespace} == set(sample.taxa)
        parsed = list(Phylo.parse(name, "nexus" if is_nexus else "newick"))
        assert len(parsed) == 30
        assert {tip.name for tip in parsed[0].get_terminals()} == set(sample.taxa)
        reader = "read.nexus" if is_nexus else "read.tree"
        script = f"trees <- ape::{reader}('{name}'); cat(length(trees), sum(trees[[1]]$edge.length), sep=' ')"
        answer = subprocess.run([rscript_ape, "-e", script], capture_output=True, text=True, check=True).stdout.split()
        assert int(answer[0]) == 30
        by_us = dendropy.Tree.get(
            data=phloem.trees.format_newick(sample.topologies[0], sample.taxa, sample.branch_lengths[:1])[0],
            schema="newick",
        )
        assert float(answer[1]) == pytest.approx(by_us.length(), rel=1e-4)


def test_the_format_is_by_the_names_ending_in_whatever_case(finished_run):
    for name, is_nexus in (("A.NEX", True), ("b.Trees", True), ("c.nexus", True), ("d.tre", False), ("e", False)):
        assert run(["sample", str(finished_run), "--count", "3", "--out", name]) == 0
        assert Path(name).read_text().startswith("#NEXUS") == is_nexus


def test_weights_are_in_the_nexus_file(finished_run, capsys):
    assert run(["sample", str(finished_run), "--count", "1000", "--weighted", "--out", "w.nex"]) == 0
    out = capsys.readouterr().out
    assert "1,000 posterior trees, with weights: w.nex" in out
    assert "distinct" not in out
    sample = phloem.read_trees("w.nex")
    own = phloem.load_posterior(finished_run)
    np.testing.assert_allclose(np.sort(sample.weights), np.sort(own.trees.weights), rtol=1e-9)
    trees = dendropy.TreeList.get(path="w.nex", schema="nexus", store_tree_weights=True)
    assert sum(tree.weight for tree in trees) == pytest.approx(1)
    assert "weights" in refusal(capsys, ["sample", str(finished_run), "--weighted", "--out", "w.nwk"])


def test_the_trace_loads_with_pandas_and_says_what_the_trees_are(finished_run):
    assert run(["sample", str(finished_run), "--count", "50", "--out", "t.nex", "--log", "t.log"]) == 0
    trace = pandas.read_csv("t.log", sep="\t", comment="#")
    assert list(trace.columns) == ["state", "posterior", "likelihood", "prior", "TL", "log_q", "topology"]
    assert trace["state"].tolist() == list(range(50))
    sample = phloem.read_trees("t.nex")
    np.testing.assert_allclose(trace["TL"], sample.branch_lengths.sum(axis=1), rtol=1e-8)
    np.testing.assert_allclose(trace["posterior"], trace["likelihood"] + trace["prior"], rtol=1e-8)
    assert run(["sample", str(finished_run), "--weighted", "--out", "w.nex", "--log", "w.log"]) == 0
    weights = pandas.read_csv("w.log", sep="\t", comment="#")["weight"]
    assert weights.sum() == pytest.approx(1, abs=1e-6)


def test_branch_lengths_over_all_trees_and_on_each_probable_topology(finished_run, capsys):
    assert run(["sample", str(finished_run), "--out", "t.nex", "--log", "t.log", "--lengths", "lengths.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[2:4] == ["their trace: t.log", "branch lengths: lengths.csv"]
    table = pandas.read_csv("lengths.csv")
    posterior = phloem.load_posterior(finished_run)
    marginal = table[table["topology"] == "all"]
    np.testing.assert_allclose(marginal["mean"], posterior.branch_lengths.mean)
    np.testing.assert_allclose(marginal["probability"], posterior.branch_lengths.frequency)
    ranks = {int(rank) for rank in table["topology"] if rank != "all"}
    in_set = next(found.topologies for found in posterior.summary.found.credible_sets if found.share == 0.95)
    assert ranks == set(range(1, in_set + 1))
    best = table[table["topology"] == "1"]
    trees = posterior.trees
    number = int(np.argmax(trees.topology_weights()))
    own = trees.group == number
    weights = trees.weights[own] / trees.weights[own].sum()
    np.testing.assert_allclose(best["mean"], weights @ trees.branch_lengths[own])
    assert best["members"].str.count(r"\*").iloc[0] == 1


def test_the_same_seed_gives_the_same_file_and_another_one_another(finished_run):
    for name, seed in (("a.nex", "1"), ("b.nex", "1"), ("c.nex", "2")):
        assert run(["sample", str(finished_run), "--out", name, "--seed", seed]) == 0
    assert Path("a.nex").read_bytes() == Path("b.nex").read_bytes() != Path("c.nex").read_bytes()


def test_more_trees_than_the_draws_are_worth_are_told_of(finished_run, capsys):
    assert run(["sample", str(finished_run), "--count", "1000", "--out", "t.nex"]) == 0
    out = capsys.readouterr().out
    assert_says(out.replace("\n", " "), "of the 1,000 are distinct … independent trees. … can they be trusted? USABLE")
    assert "of the 1,000 are distinct" in Path("t.nex").read_text()
    assert run(["sample", str(finished_run), "--count", "50", "--out", "t.nex"]) == 0
    assert "of the 1,000" not in capsys.readouterr().out


def test_what_sample_refuses(finished_run, capsys, tmp_path):
    directory = str(finished_run)
    assert "1,000 draws" in refusal(capsys, ["sample", directory, "--count", "2000", "--out", "t.nex"])
    assert "no/t.nex" in refusal(capsys, ["sample", directory, "--out", "no/t.nex"])
    for option in ("--log", "--lengths"):  # before anything is written
        assert "no/t" in refusal(capsys, ["sample", directory, "--out", "t.nex", option, "no/t"])
    assert "different files" in refusal(
        capsys, ["sample", directory, "--out", "t.nex", "--log", str(Path.cwd() / "t.nex")]
    )
    assert MISSING in refusal(capsys, ["sample", str(tmp_path), "--out", "t.nex"])
    assert "plain text" in refusal(capsys, ["sample", directory, "--out", "t.nex.gz"])
    for name in ("draws.safetensors", "summary.json", "checkpoints/mine.nex"):
        assert f"{directory}/{name}" in refusal(capsys, ["sample", directory, "--out", f"{directory}/{name}"])
    assert not list(Path().iterdir())


def test_few_draws_are_sampled_as_they_are_and_bounds_of_more_are_refused(finished_run, tmp_path, capsys):
    assert run(["sample", str(finished_run), "--count", "100", "--weighted", "--out", "w.nex"]) == 0
    assert "they are worth" in capsys.readouterr().out
    assert phloem.read_trees("w.nex").weights.sum() == pytest.approx(1)
    assert run(["evaluate", str(finished_run), "--samples", "30", "--repeats", "1"]) == 0
    text = capsys.readouterr().out
    assert "bound of" not in text
    assert "1 estimate from 30 trees" in text
    assert "draw more" in text
    assert "200 draws" in refusal(capsys, ["evaluate", str(finished_run), "--bounds", "201"])
    assert "--bounds inf" in refusal(capsys, ["evaluate", str(finished_run), "--bounds", "inf"])


@pytest.mark.slow
def test_infer_leaves_a_report_and_files_that_everybody_reads(finished_runs, rscript_ape):
    report = (finished_runs / "report.html").read_text()
    assert all(name in report for name in phloem.load_posterior(finished_runs).taxa)
    trees = dendropy.TreeList.get(path=finished_runs / "posterior.nex", schema="nexus")
    assert len(trees) == 1000
    assert len(pandas.read_csv(finished_runs / "posterior.log", sep="\t", comment="#")) == 1000
    consensus = finished_runs / "consensus.nex"
    names = ["majority_rule", "extended_majority_rule", "maximum_clade_credibility"]
    assert [
        tree.label for tree in dendropy.TreeList.get(path=consensus, schema="nexus", preserve_underscores=True)
    ] == names
    assert [tree.name for tree in Phylo.parse(consensus, "nexus")] == names
    script = f"cat(names(ape::read.nexus('{consensus}')))"
    answer = subprocess.run([rscript_ape, "-e", script], capture_output=True, text=True, check=True).stdout
    assert answer.split() == names


def test_a_report_is_made_again_with_another_root_and_threshold(finished_run, capsys):
    assert (
        run(["report", str(finished_run), "--out", "made/here", "--outgroup", "Lemur_catta", "--threshold", "0.9"]) == 0
    )
    assert "made/here/report.html" in capsys.readouterr().out
    assert {path.name for path in Path("made/here").iterdir()} == {
        "report.html",
        "consensus.nex",
        "consensus-labels.nex",
        "posterior.nex",
        "posterior.log",
    }
    tree = dendropy.Tree.get(path="made/here/consensus.nex", schema="nexus", preserve_underscores=True)
    assert tree.is_rooted
    sides = [{leaf.taxon.label for leaf in child.leaf_iter()} for child in tree.seed_node.child_nodes()]
    assert {"Lemur_catta"} in sides
    own = dendropy.Tree.get(path=finished_run / "consensus.nex", schema="nexus", preserve_underscores=True)
    assert not own.is_rooted
    assert run(["report", str(finished_run), "--out", "two", "--outgroup", "Lemur_catta, Tarsius_syrichta,"]) == 0
    tree = dendropy.Tree.get(path="two/consensus.nex", schema="nexus", preserve_underscores=True)
    sides = [{leaf.taxon.label for leaf in child.leaf_iter()} for child in tree.seed_node.child_nodes()]
    assert {"Lemur_catta", "Tarsius_syrichta"} in sides
    assert run(["report", str(finished_run), "--out", "other", "--midpoint"]) == 0
    assert dendropy.Tree.get(path="other/consensus.nex", schema="nexus").is_rooted
    assert Path("other/posterior.nex").read_bytes() == (finished_run / "posterior.nex").read_bytes()


def test_without_a_folder_the_report_goes_to_the_run(finished_run, capsys):
    shutil.copytree(finished_run, "copy")
    for name in EXPORTS:
        Path("copy", name).unlink()
    assert run(["report", "copy"]) == 0
    assert capsys.readouterr().out.startswith("the report: copy/report.html\n")
    for name in EXPORTS:
        assert Path("copy", name).read_bytes() == (finished_run / name).read_bytes()
    assert [path.name for path in Path().iterdir()] == ["copy"]


@pytest.mark.parametrize("suffix", ["pdf", "svg", "png"])
def test_figures_are_written_if_they_are_wanted(suffix, finished_runs, capsys):
    assert run(["report", str(finished_runs), "--out", "made", "--figures", suffix]) == 0
    names = {path.stem for path in Path("made").glob(f"*.{suffix}")}
    expected = "consensus cloud topologies branch-lengths tree-lengths training weights clades"
    assert names == set(expected.split())


def test_an_unfinished_run_is_reported_on_and_says_so(unfinished_run, capsys):
    assert run(["report", str(unfinished_run), "--out", "made"]) == 0
    assert capsys.readouterr().out.startswith("not finished: this is step 1,000\n")
    assert "Training is not finished" in Path("made/report.html").read_text()
    assert run(["sample", str(unfinished_run), "--count", "9", "--out", "t.nex"]) == 0
    assert capsys.readouterr().out.startswith("not finished: these are of step 1,000\n")


def test_progress_of_drawing_is_shown_unless_it_is_not_wanted(unfinished_run, monkeypatch):
    told = []

    @contextmanager
    def progress_bar(title, *, quiet=False):
        told.append((title, quiet))
        yield told.append

    monkeypatch.setattr("phloem.display.bar.progress_bar", progress_bar)
    directory, shares = str(unfinished_run), [0.2, 0.4, 0.6, 0.8, 1.0]
    for command, quiet in (
        (["evaluate", directory], False),
        (["evaluate", directory, "--quiet"], True),
        (["sample", directory, "--count", "5", "--out", "t.nex"], False),
        (["report", directory, "--out", "made"], False),
    ):
        told.clear()
        assert run(command) == 0
        assert told == [("drawing", quiet), *shares]


def test_what_report_refuses(finished_run, capsys, tmp_path):
    directory = str(finished_run)
    both = ["--outgroup", "Pan", "--midpoint"]
    assert_says(refusal(capsys, ["report", directory, "--out", "made", *both]), "--outgroup … --midpoint")
    assert "Nobody" in refusal(capsys, ["report", directory, "--out", "made", "--outgroup", "Nobody"])
    assert "0.3" in refusal(capsys, ["report", directory, "--out", "made", "--threshold", "0.3"])
    assert "--figures 'jpg'" in refusal(capsys, ["report", directory, "--out", "made", "--figures", "jpg"])
    assert MISSING in refusal(capsys, ["report", str(tmp_path)])
    Path("taken").touch()
    assert "taken: " in refusal(capsys, ["report", directory, "--out", "taken"])
    assert not Path("made").exists()
