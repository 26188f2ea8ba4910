"""`phloem infer`: what users type, see, get, and get wrong."""

import csv
import json
import tomllib
from pathlib import Path

import pytest

from cli.test_commands import complaint, in_empty_directory  # noqa: F401
from fake_iqtree import FakeIqtree
from phloem.cli.main import run
from phloem.config import EvaluationConfig, InferConfig, preset
from phloem.inference.training import Report
from phloem.pipeline.infer import infer
from phloem.variational.support_file import read_support

SHORT = ["--steps", "200", "--seed", "3"]
FILES = {"config.toml", "history.csv", "parameters.safetensors", "summary.json", "support.npz"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A short run on the primates."""
    out = tmp_path_factory.mktemp("infer") / "run"
    assert run(["infer", "primates", "--out", str(out), *SHORT]) == 0
    return out


def test_a_run_leaves_its_files(finished):
    assert {path.name for path in finished.iterdir()} == FILES
    assert read_support(finished / "support.npz").topology_count == 7
    settings = tomllib.loads((finished / "config.toml").read_text())
    assert settings["seed"] == 3
    assert settings["training"]["steps"] == 200
    assert settings["training"]["estimator"] == "vimco"
    assert settings["branches"] == "edge"
    with (finished / "history.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert tuple(rows[0]) == Report._fields == ("step", "seconds", "inverse_temperature", "lower_bound", "elbo")
    assert len(rows) == 100
    assert rows[-1]["step"] == "200"
    assert float(rows[-1]["elbo"]) > float(rows[0]["elbo"])


def test_the_summary_has_the_estimates(finished):
    summary = json.loads((finished / "summary.json").read_text())
    assert (summary["taxa"], summary["sites"], summary["patterns"]) == (12, 898, 413)
    means = [summary[name]["mean"] for name in ("elbo", "lower_bound", "log_marginal_likelihood")]
    assert means == sorted(means)
    assert -7500 < means[0] < means[2] < -6480
    assert all(summary[name]["std"] > 0 for name in ("elbo", "lower_bound", "log_marginal_likelihood"))


def test_the_same_seed_gives_the_same_files_and_json_is_the_summary(finished, capsys):
    assert run(["infer", "primates", "--out", "again", *SHORT, "--threads", "1", "--json"]) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert summary == json.loads(Path("again/summary.json").read_text())
    for name in ("config.toml", "parameters.safetensors", "support.npz"):
        assert (finished / name).read_bytes() == Path("again", name).read_bytes()
    before = json.loads((finished / "summary.json").read_text())
    assert {**before, "seconds": 0} == {**summary, "seconds": 0}
    lines = captured.err.splitlines()  # a line a tenth, as stderr is no terminal
    assert lines[0] == "support …"
    assert lines[-1] == "evaluation …"
    assert len(lines) == 12
    assert "step 200   temperature 1   ELBO -" in captured.err


def test_a_table_for_people(capsys):
    assert run(["infer", "primates", "--out", "out", "--steps", "5", "--branches", "split", "--particles", "2"]) == 0
    out = capsys.readouterr().out
    assert "12 taxa, 898 sites, 7 topologies in the support" in out
    for name in ("elbo", "lower bound", "log marginal likelihood"):
        assert any(line.startswith(name) for line in out.splitlines()), name
    assert "parameters.safetensors: out" in out


def test_every_option_changes_its_setting(monkeypatch):
    seen = []

    def remember(source, out, config, **options):
        seen.append((source, out, config, {key: options[key] for key in ("trees", "threads")}))
        raise KeyboardInterrupt

    monkeypatch.setattr("phloem.pipeline.infer.infer", remember)
    run(["infer", "primates", "--out", "out"])
    assert seen[-1] == ("primates", Path("out"), InferConfig(), {"trees": (), "threads": None})
    for options, expected in (
        (["--branches", "psp"], InferConfig(branches="psp")),
        (["--seed", "9"], InferConfig(seed=9)),
        (["--preset", "paper"], InferConfig(training=preset("paper"))),
        (["--preset", "quick"], InferConfig(training=preset("quick"))),
        (["--steps", "77"], InferConfig(training=preset("standard", steps=77))),
        (["--particles", "5"], InferConfig(training=preset("standard", particles=5))),
        (["--estimator", "rws"], InferConfig(training=preset("standard", estimator="rws"))),
    ):
        run(["infer", "primates", "--out", "out", *options])
        assert seen[-1][2] == expected
        assert expected != InferConfig()
    run(["infer", "primates", "--out", "out", "--trees", "a.nwk", "--trees", "b", "--threads", "3"])
    assert seen[-1][3] == {"trees": ["a.nwk", "b"], "threads": 3}
    assert not Path("out").exists()


def test_without_trees_iqtree_makes_them_and_with_trees_they_are_used(tmp_path, monkeypatch, capsys):
    fake = FakeIqtree(tmp_path, monkeypatch)
    Path("dna.fasta").write_text(">A\nACGTACGTAA\n>B\nACGAACGTAT\n>C\nACTTACTTAA\n>D\nACTAACTTGA\n")
    small = ["--steps", "5", "--json"]
    assert run(["infer", "dna.fasta", "--out", "out", *small]) == 0
    assert len(fake.calls) == 10
    assert json.loads(capsys.readouterr().out)["support"]["topologies"] == 1
    Path("trees.nwk").write_text("((A,B),C,D);\n" * 60 + "((A,C),B,D);\n" * 34 + "((A,D),B,C);\n" * 6)
    assert run(["infer", "dna.fasta", "--out", "given", "--trees", "trees.nwk", *small]) == 0
    assert len(fake.calls) == 10
    assert json.loads(capsys.readouterr().out)["support"]["topologies"] == 2


def test_a_stopped_run_keeps_its_bootstrap_trees_for_the_next(tmp_path, monkeypatch):
    fake = FakeIqtree(tmp_path, monkeypatch)
    Path("dna.fasta").write_text(">A\nACGTACGTAA\n>B\nACGAACGTAT\n>C\nACTTACTTAA\n>D\nACTAACTTGA\n")
    with monkeypatch.context() as stopped:
        stopped.setattr("phloem.pipeline.infer.train", interrupt)
        assert run(["infer", "dna.fasta", "--out", "out"]) == 130
    assert {path.name for path in Path("out").iterdir()} == {"bootstrap"}
    assert run(["infer", "dna.fasta", "--out", "out", "--steps", "5"]) == 0
    assert len(fake.calls) == 10


def interrupt(*_arguments, **_options):
    raise KeyboardInterrupt


def test_a_trained_model_is_kept_when_its_evaluation_is_stopped(monkeypatch, capsys):
    monkeypatch.setattr("phloem.pipeline.infer.evaluate", interrupt)
    assert run(["infer", "primates", "--out", "out", "--steps", "5", "--branches", "split"]) == 130
    assert {path.name for path in Path("out").iterdir()} == FILES - {"summary.json"}


def test_a_file_named_like_the_example_does_not_get_its_trees(tmp_path, monkeypatch):
    fake = FakeIqtree(tmp_path, monkeypatch)
    Path("primates").write_text(">A\nACGTACGTAA\n>B\nACGAACGTAT\n>C\nACTTACTTAA\n>D\nACTAACTTGA\n")
    assert run(["infer", "primates", "--out", "out", "--steps", "5"]) == 0
    assert len(fake.calls) == 10


def test_an_odd_directory_is_shown_as_it_is(capsys):
    assert run(["infer", "primates", "--out", "run[/x] [bold]", "--steps", "5", "--branches", "split"]) == 0
    assert capsys.readouterr().out.endswith(": run[/x] [bold]\n")


def test_every_setting_of_the_config_reaches_the_result():
    def result(number, threads=1, **settings):
        training, evaluation = preset("quick", steps=2), EvaluationConfig(2, 2, 1, 2)
        config = InferConfig(**{"branches": "gcn", "training": training, "evaluation": evaluation, **settings})
        return infer("primates", Path(f"run{number}"), config, threads=threads)

    first = result(0)
    weights = first.model.branches.state_dict()
    assert (
        result(1, seed=2).model.branches.state_dict()["readout.first.weight"].ne(weights["readout.first.weight"]).any()
    )
    assert len(result(2, depth=3).model.branches.features.convolutions) == 3
    assert result(3, width=7).model.branches.features.width == 7
    assert result(4, prior_rate=5.0).target.prior.rate == 5.0
    assert result(5, credible=1.0).model.network.support.topology_count == 21
    assert first.model.network.support.topology_count == 7
    assert first.target.likelihood.threads == 1
    assert result(6, threads=2).target.likelihood.threads == 2
    assert result(7, evaluation=EvaluationConfig(2, 1, 2, 2)).evaluation.elbo.std is None


BAD = {
    "preset": (["primates", "--out", "x", "--preset", "fast"], "--preset 'fast': choose one of paper, standard, quick"),
    "branches": (["primates", "--out", "x", "--branches", "gat"], "--branches 'gat': choose one of split, psp"),
    "estimator": (["primates", "--out", "x", "--estimator", "sgd"], "--estimator 'sgd': choose one of vimco, rws"),
    "steps": (["primates", "--out", "x", "--steps", "0"], "--steps 0: give a whole number"),
    "particles": (["primates", "--out", "x", "--particles", "1"], "--particles 1: vimco takes 2 to 10,000"),
    "three taxa": (["three.fasta", "--out", "x"], "3 taxa. A bootstrap needs at least 4"),
    "nothing": (["missing.fasta", "--out", "x"], "taxa without any data"),
    "seed": (["primates", "--out", "x", "--seed", "-1"], "--seed -1"),
    "threads": (["primates", "--out", "x", "--threads", "0"], "--threads"),
    "alignment": (["none.fasta", "--out", "x"], "none.fasta: no such file"),
    "trees": (["primates", "--out", "x", "--trees", "none.nwk"], "none.nwk: no such file"),
    "taxa": (["primates", "--out", "x", "--trees", "other.nwk"], "other.nwk, tree 1, line 1, column 1: lacks"),
    "used": (["primates", "--out", "used"], "used: is not empty (it holds notes)"),
    "file": (["primates", "--out", "plain"], "plain: is not a directory"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_exit_code_2_and_nothing_left_behind(case, capsys):
    Path("other.nwk").write_text("((a,b),c,d);\n")
    Path("plain").write_text("")
    Path("three.fasta").write_text(">A\nACGT\n>B\nACGA\n>C\nACTT\n")
    Path("missing.fasta").write_text(">A\n----\n>B\n----\n>C\n----\n>D\n----\n")
    Path("used").mkdir()
    Path("used/notes").write_text("")
    arguments, expected = BAD[case]
    assert run(["infer", *arguments]) == 2
    assert expected in complaint(capsys)
    assert not Path("x").exists()
