"""`phloem infer`: what users type, see, get, and get wrong."""

import csv
import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest

from phloem.cli.infer import default_directory, how_to_resume
from phloem.cli.main import run
from phloem.config import InferConfig, read_config, resolve
from phloem.display.lines import Quiet
from phloem.inference.training import Report
from phloem.runs.driver import Interrupted
from phloem.tasks.run_files import EXPORTS, infer_run
from phloem.variational.sbn import read_support
from support.command_line import complaint
from support.fake_iqtree import SEVEN, SEVEN_TREES, FakeIqtree
from support.messages import assert_says

PRIMATES = ["infer", "primates", "--trees", "primates"]  # a bootstrap would take longer than the run
SHORT = ["--model", "JC", "--steps", "200", "--seed", "3", "--runs", "1", "--repeats", "5"]
SMALLEST = ["--steps", "5", "--branches", "split", "--runs", "1", "--samples", "20", "--repeats", "2"]
TINY = ["--model", "JC", *SMALLEST]
RESULTS = infer_run(".").needed
FILES = {"checkpoints", ".lock", "SHA256SUMS", *RESULTS, *EXPORTS}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A short run on the primates."""
    out = tmp_path_factory.mktemp("infer") / "run"
    assert run([*PRIMATES, "--out", str(out), *SHORT]) == 0
    return out


def test_a_run_leaves_its_files(finished):
    assert {path.name for path in finished.iterdir()} == FILES
    assert read_support(finished / "support.npz").topology_count == 7
    config = read_config((finished / "config.toml").read_text(), "config.toml")
    assert (config.seed, config.training.steps, config.runs, config.evaluation.repeats) == (3, 200, 1, 5)
    with (finished / "history.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert tuple(rows[0]) == Report._fields
    assert Report._fields[:5] == ("step", "seconds", "inverse_temperature", "lower_bound", "elbo")
    assert len(rows) == 100
    assert rows[-1]["step"] == "200"
    assert float(rows[-1]["elbo"]) > float(rows[0]["elbo"])
    assert 1 <= int(rows[-1]["topologies"]) <= 30
    assert {row["skipped"] for row in rows} == {"0"}


def test_the_summary_has_the_estimates_and_the_best_topologies(finished):
    summary = json.loads((finished / "summary.json").read_text())
    assert (summary["taxa"], summary["sites"], summary["patterns"]) == (12, 898, 413)
    assert (summary["steps"], summary["stopped_early"], summary["skipped_steps"]) == (200, False, 0)
    means = [summary[name]["mean"] for name in ("elbo", "lower_bound", "log_marginal_likelihood")]
    assert means == sorted(means)
    assert -7500 < means[0] < means[2] < -6480
    assert all(summary[name]["std"] > 0 for name in ("elbo", "lower_bound", "log_marginal_likelihood"))
    with (finished / "topologies.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == summary["distinct_topologies"]
    assert float(rows[-1]["cumulative"]) == pytest.approx(1)
    best = [(float(row["probability"]), row["newick"]) for row in rows[:10]]
    assert best == [(tree["probability"], tree["newick"]) for tree in summary["best_topologies"]]
    assert best == sorted(best, key=lambda pair: -pair[0])
    with (finished / "clades.csv").open() as table:
        clades = {row["members"]: float(row["probability"]) for row in csv.DictReader(table)}
    assert clades["...." + ".." + ".****."] > 0.99  # the macaques
    assert clades["..**........"] == pytest.approx(0.91, abs=0.06)  # human and chimpanzee


def test_where_it_came_from(finished):
    origin = json.loads((finished / "provenance.json").read_text())
    assert origin["alignment"]["source"] == "primates"
    assert len(origin["alignment"]["sha256"]) == 64
    assert origin["seed"] == 3
    assert {"phloem", "torch", "numba", "python"} <= origin["versions"].keys()
    assert len(origin["sessions"]) == 1


def test_the_same_seed_gives_the_same_files_and_json_is_the_summary(finished, capsys):
    assert run([*PRIMATES, "--out", "again", *SHORT, "--threads", "1", "--json", "--plain"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == json.loads(Path("again/summary.json").read_text())
    for name in {*RESULTS} - {"provenance.json", "history.csv"}:
        assert (finished / name).read_bytes() == Path("again", name).read_bytes(), name
    lines = captured.err.splitlines()
    assert lines[0] == "primates: 12 taxa, 898 sites, 413 patterns, 0.3 % missing, 377 constant sites"
    assert lines[1] == "model JC69; branch lengths by edge, warped; 200 steps; run directory again"
    assert lines[3:5] == ["support …", "training …"]
    assert sum(line.startswith("step ") for line in lines) == 10
    assert lines[-2:] == ["evaluation …", "chains …"]


def test_the_result_for_people(capsys):
    assert run([*PRIMATES, "--out", "out", *TINY]) == 0
    out = capsys.readouterr().out
    assert out.startswith("log marginal likelihood ")
    for text in ("\nELBO ", "\nbest topologies (", "\n  1  ", "clade supports in percent", "─ Homo_sapiens\n"):
        assert text in out
    assert "\nfiles in out:\n" in out
    assert "phloem.load_posterior('out')" in out
    assert_says(" ".join(out[-300:].split()), "DO NOT TRUST these results. … independent one … Too few draws")
    assert max(map(len, out.splitlines())) <= 80


def test_quiet_says_nothing(capsys):
    assert run([*PRIMATES, "--quiet", *TINY]) == 0
    assert capsys.readouterr() == ("", "")
    assert Path("primates-run/summary.json").exists()


@pytest.mark.parametrize(
    ("alignment", "directory"),
    [("dna.fasta", "dna-run"), ("x/y/dna.v2.nex.gz", "dna.v2-run"), ("primates", "primates-run")],
)
def test_a_run_directory_is_named_after_the_alignment(alignment, directory):
    assert default_directory(alignment) == Path(directory)


def test_the_command_that_goes_on_is_one_for_a_shell():
    text = how_to_resume(Interrupted(Path("my run"), [1200], begun=True), "my dna.fasta")
    assert "step 1,200" in text
    assert text.endswith(": phloem infer 'my dna.fasta' --out 'my run' --resume")
    assert how_to_resume(Interrupted(Path("run"), (), begun=True), None).endswith(": phloem infer --out run --resume")


def test_several_runs_that_were_stopped_say_where_each_is():
    text = how_to_resume(Interrupted(Path("run"), [4263, 0], begun=True), None)
    assert_says(text, "step 4,263 of run 1, 0 of run 2")
    assert "before the first step" not in text
    assert "before the first step" in how_to_resume(Interrupted(Path("run"), [0, 0], begun=True), None)


def test_settings_of_a_file_and_of_flags_are_those_of_the_run():
    Path("run.toml").write_text('preset = "quick"\nbranches = "psp"\nprior_rate = 7\n[training]\nsteps = 9\n')
    flags = ["--steps", "4", "--set", "evaluation.repeats=2", "--samples", "10", "--model", "hky", "--kappa", "2"]
    assert run([*PRIMATES, "--out", "out", "--config", "run.toml", *flags]) == 0
    settings = tomllib.loads(Path("out/config.toml").read_text())
    assert (settings["branches"], settings["prior_rate"], settings["training"]["steps"]) == ("psp", 7.0, 4)
    assert settings["model"] == {"name": "HKY", "kappa": [2.0], "frequencies": "inferred", "median_rates": False}
    assert json.loads(Path("out/summary.json").read_text())["model"] == "HKY, kappa 2; frequencies are inferred"
    assert run([*PRIMATES, "--out", "again", "--config", "out/config.toml"]) == 0
    assert Path("out/parameters.safetensors").read_bytes() == Path("again/parameters.safetensors").read_bytes()


def test_every_option_that_is_no_setting_does_its_part(monkeypatch):
    seen, displays = [], []

    def display(**options):
        displays.append(options)
        return Quiet()

    def remember(request, _progress, _ranks):
        seen.append((request, request.run, request.run.options))
        raise KeyboardInterrupt

    monkeypatch.setattr("phloem.tasks.infer.run_inference", remember)
    monkeypatch.setattr("phloem.display.lines.choose_display", display)

    def asked(*arguments):
        run(["infer", *arguments])
        return seen[-1]

    request, asked_run, options = asked("primates")
    assert (request.source, asked_run.directory) == ("primates", Path("primates-run"))
    assert resolve(preset=request.preset, settings=request.settings) == InferConfig()
    assert (request.trees, asked_run.resume, asked_run.force) == ((), False, False)
    assert options == (None, (120.0, None), False)
    assert asked("primates", "--out", "x")[1].directory == Path("x")
    assert asked("primates", "--trees", "a", "--trees", "b")[0].trees == ["a", "b"]
    assert asked("primates", "--resume")[1].resume
    assert asked("primates", "--force")[1].force
    assert asked("--resume", "--out", "x")[0].source is None
    assert asked("primates", "--threads", "3")[2].threads == 3
    assert asked("primates", "--checkpoint-every", "7steps")[2].interval == (None, 7)
    assert asked("primates", "--tensorboard")[2].tensorboard
    assert displays[-1] == {"plain": False, "quiet": False}
    for option in ("plain", "quiet"):
        asked("primates", f"--{option}")
        assert displays[-1] == {"plain": False, "quiet": False} | {option: True}


def test_without_trees_iqtree_makes_them_and_with_trees_they_are_used(tmp_path, monkeypatch, capsys):
    fake = FakeIqtree(tmp_path, monkeypatch)
    fake(SEVEN_TREES)
    Path("dna.fasta").write_text(SEVEN)
    assert run(["infer", "dna.fasta", "--out", "out", "--set", "support.explore=0", *TINY, "--json"]) == 0
    assert len(fake.calls) == 10
    assert "-m JC " in fake.calls[0]
    assert json.loads(capsys.readouterr().out)["support"]["topologies"] == 1
    given = "(A,B,(C,(D,(E,(F,G)))));\n" * 94 + "(A,B,(D,(C,(E,(F,G)))));\n" * 6
    Path("trees.nwk").write_text(given)
    assert run(["infer", "dna.fasta", "--out", "given", "--trees", "trees.nwk", *TINY, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["support"]["topologies"] == 1
    more = ["--credible", "1", "--json"]
    assert run(["infer", "dna.fasta", "--out", "all", "--trees", "trees.nwk", *TINY, *more]) == 0
    assert json.loads(capsys.readouterr().out)["support"]["topologies"] == 2
    assert len(fake.calls) == 10


def test_the_bootstrap_follows_the_settings(tmp_path, monkeypatch):
    fake = FakeIqtree(tmp_path, monkeypatch)
    fake(SEVEN_TREES.replace("1000", "2000"))
    Path("dna.fasta").write_text(SEVEN)
    model = ["--model", "K80", "--kappa", "2", "--gamma", "4", "--alpha", "1"]
    settings = ["--bootstrap-replicates", "3", "--bootstrap-trees", "2000"]
    assert run(["infer", "dna.fasta", "--out", "out", *TINY, *model, *settings]) == 0
    assert len(fake.calls) == 3
    assert all("-m K2P+G4 -bb 2000 " in call for call in fake.calls)
    assert run(["infer", "dna.fasta", "--out", "out2", *TINY, *settings, "--bootstrap-model", "GTR+I"]) == 0
    assert "-m GTR+I " in fake.calls[-1]


def test_bootstrap_trees_of_the_same_alignment_and_settings_are_not_made_again(tmp_path, monkeypatch, capsys):
    fake = FakeIqtree(tmp_path, monkeypatch)
    fake(SEVEN_TREES)
    Path("dna.fasta").write_text(SEVEN)
    with monkeypatch.context() as stopped:
        stopped.setattr("phloem.tasks.infer.train", interrupt)
        assert run(["infer", "dna.fasta", "--out", "out", *TINY]) == 130
    assert capsys.readouterr().err.endswith(": phloem infer dna.fasta --out out --resume\n")
    assert run(["infer", "dna.fasta", "--out", "out", "--resume"]) == 0
    assert run(["infer", "dna.fasta", "--out", "out", "--force", *TINY]) == 0
    assert len(fake.calls) == 10
    assert run(["infer", "dna.fasta", "--out", "out", "--force", *TINY, "--seed", "2"]) == 0
    assert len(fake.calls) == 20


def interrupt(*_arguments, **_options):
    raise KeyboardInterrupt


def test_a_trained_model_is_kept_when_its_evaluation_is_stopped(finished, monkeypatch):
    with monkeypatch.context() as stopped:
        stopped.setattr("phloem.tasks.infer.measure", interrupt)
        assert run([*PRIMATES, "--out", "out", *SHORT]) == 130
    assert not Path("out/summary.json").exists()
    monkeypatch.setattr("phloem.inference.training.Training.step", interrupt)  # no step is taken again
    assert run(["infer", "--out", "out", "--resume"]) == 0
    for name in ("parameters.safetensors", "summary.json"):
        assert (finished / name).read_bytes() == Path("out", name).read_bytes()


def test_what_was_deleted_is_made_again_from_the_checkpoint(finished, tmp_path):
    shutil.copytree(finished, "copy")
    for name in RESULTS:
        Path("copy", name).unlink()
    assert run(["infer", "--out", "copy", "--resume"]) == 0
    for name in {*RESULTS} - {"provenance.json"}:
        assert (finished / name).read_bytes() == Path("copy", name).read_bytes(), name


def test_a_finished_run_is_shown_again_by_resume(finished, capsys, monkeypatch):
    monkeypatch.setattr("phloem.tasks.infer.complete", interrupt)
    assert run(["infer", "--out", str(finished), "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((finished / "summary.json").read_text())


def test_a_run_is_replaced_only_when_asked_to(finished, capsys):
    shutil.copytree(finished, "copy")
    capsys.readouterr()
    assert run([*PRIMATES, "--out", "copy", *TINY]) == 2
    assert_says(complaint(capsys), "copy: … --resume … --force")
    assert run([*PRIMATES, "--out", "copy", *TINY, "--force"]) == 0
    assert json.loads(Path("copy/summary.json").read_text())["steps"] == 5


def test_a_bad_input_leaves_the_run_that_was_to_be_replaced(finished, capsys):
    shutil.copytree(finished, "copy")
    capsys.readouterr()
    assert run([*PRIMATES, "--out", "copy", "--force", "--trees", "none.nwk"]) == 2
    assert "none.nwk" in capsys.readouterr().err
    assert Path("copy/summary.json").exists()


def test_resume_begins_where_there_is_nothing_yet(finished, capsys):
    assert run([*PRIMATES, "--out", "new", *SHORT, "--resume"]) == 0
    assert "no step is saved" in capsys.readouterr().err
    assert (finished / "summary.json").read_bytes() == Path("new/summary.json").read_bytes()


def stopped_run(monkeypatch) -> Path:
    """A run that was stopped after some steps."""
    with monkeypatch.context() as stopped:
        stopped.setattr("phloem.tasks.infer.measure", interrupt)
        assert run([*PRIMATES, "--out", "out", *TINY]) == 130
    return Path("out")


def test_a_run_goes_on_with_its_own_settings_and_with_no_others(monkeypatch, capsys):
    out = stopped_run(monkeypatch)
    capsys.readouterr()
    for flags, facts in (
        (["--steps", "6"], "out: … training.steps … 5 … 6"),
        (["--seed", "2"], "out: … seed … 1 … 2"),
        (["--runs", "2"], "out: … runs … 1 … 2"),
        (["--preset", "paper"], "out: … settings"),
        (["--model", "K80", "--kappa", "2"], "out: … model.name … JC … K80"),
    ):
        assert run([*PRIMATES, "--out", "out", "--resume", *flags]) == 2
        assert_says(complaint(capsys), facts)
    assert run([*PRIMATES, "--out", "out", "--resume", "--steps", "5", "--seed", "1"]) == 0
    assert (out / "summary.json").exists()


def test_another_alignment_or_support_is_refused(finished, monkeypatch, capsys):
    stopped_run(monkeypatch)
    text = (Path(__file__).parent.parent.parent / "src/phloem/data/examples/primates.fasta").read_text()
    Path("changed.fasta").write_text(text[:-2] + ("A" if text[-2] != "A" else "C") + "\n")
    capsys.readouterr()
    assert run(["infer", "changed.fasta", "--out", "out", "--resume"]) == 2
    assert_says(complaint(capsys), "out: … alignment … changed.fasta")
    tree = json.loads((finished / "summary.json").read_text())["best_topologies"][0]["newick"]
    Path("tree.nwk").write_text(tree)
    assert run(["infer", "primates", "--out", "out", "--resume", "--trees", "tree.nwk", "--plain"]) == 2
    assert_says(capsys.readouterr().err, "phloem: out: … support")
    assert run([*PRIMATES, "--out", "out", "--resume"]) == 0


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_checkpoint_is_told_of_and_the_one_before_serves(finished, monkeypatch, capsys):
    with monkeypatch.context() as stopped:
        stopped.setattr("phloem.tasks.infer.measure", interrupt)
        assert run([*PRIMATES, "--out", "out", *SHORT, "--checkpoint-every", "70steps"]) == 130
    before, newest = sorted(Path("out/checkpoints").iterdir())
    assert (before.name, newest.name) == ("step-000000140.safetensors", "step-000000200.safetensors")
    damage(newest)
    capsys.readouterr()
    assert run(["infer", "--out", "out", "--resume"]) == 0
    err = capsys.readouterr().err.splitlines()
    assert_says(err[0], f"phloem: {newest}: … damaged")
    assert any("step 140 of 200" in line for line in err)
    assert (finished / "parameters.safetensors").read_bytes() == Path("out/parameters.safetensors").read_bytes()
    assert (finished / "summary.json").read_bytes() == Path("out/summary.json").read_bytes()


def test_a_run_without_a_whole_checkpoint_does_not_begin_anew_unasked(monkeypatch, capsys):
    out = stopped_run(monkeypatch)
    for path in (out / "checkpoints").iterdir():
        damage(path)
    capsys.readouterr()
    assert run([*PRIMATES, "--out", "out", "--resume"]) == 2
    assert_says(complaint(capsys), "checkpoint … --force")
    assert run([*PRIMATES, "--out", "out", "--force", *TINY]) == 0


def test_a_run_that_is_stopped_in_its_bootstrap_knows_its_settings(tmp_path, monkeypatch):
    fake = FakeIqtree(tmp_path, monkeypatch)
    fake(SEVEN_TREES)
    Path("dna.fasta").write_text(SEVEN)
    with monkeypatch.context() as stopped:
        stopped.setattr("phloem.tasks.support.bootstrap_files", interrupt)
        assert run(["infer", "dna.fasta", "--out", "out", *TINY, "--bootstrap-replicates", "2"]) == 130
    assert run(["infer", "dna.fasta", "--out", "out", "--resume"]) == 0
    assert len(fake.calls) == 2
    assert json.loads(Path("out/summary.json").read_text())["steps"] == 5


def test_a_run_that_was_given_trees_does_not_go_on_without_them(monkeypatch, capsys):
    Path("dna.fasta").write_text(SEVEN[: SEVEN.index(">F")])
    Path("one.nwk").write_text("(A,B,(C,(D,E)));")
    begin = ["infer", "dna.fasta", "--out", "out", "--trees", "one.nwk", *TINY]
    with monkeypatch.context() as stopped:
        stopped.setattr("phloem.tasks.infer._begin", interrupt)
        assert run(begin) == 130
    capsys.readouterr()
    assert run(["infer", "dna.fasta", "--out", "out", "--resume"]) == 2
    assert_says(complaint(capsys), "--trees one.nwk … checkpoint")
    assert run([*begin, "--resume"]) == 0
    assert json.loads(Path("out/summary.json").read_text())["support"]["topologies"] == 1
    assert run(["infer", "dna.fasta", "--out", "out", "--resume"]) == 0


def test_a_run_stays_until_its_replacement_begins(tmp_path, monkeypatch, capsys):
    fake = FakeIqtree(tmp_path, monkeypatch)
    fake(SEVEN_TREES)
    Path("dna.fasta").write_text(SEVEN)
    assert run(["infer", "dna.fasta", "--out", "out", *TINY]) == 0
    before = Path("out/summary.json").read_bytes()
    Path("out/bootstrap/notes").write_text("mine")
    replace = ["infer", "dna.fasta", "--out", "out", *TINY, "--seed", "5", "--force"]
    fake("exit 1")
    assert run(replace) == 2
    fake(SEVEN_TREES)
    capsys.readouterr()
    with monkeypatch.context() as stopped:
        stopped.setattr("phloem.tasks.support.bootstrap_files", interrupt)
        assert run(replace) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert_says(last, "phloem: … out")
    assert "--resume" not in last
    assert Path("out/summary.json").read_bytes() == before
    assert run(replace) == 0
    assert json.loads(Path("out/summary.json").read_text())["seed"] == 5
    assert Path("out/bootstrap/notes").exists()


@pytest.mark.parametrize("name", ["summary.json", "topologies.csv", "clades.csv"])
@pytest.mark.parametrize(
    "content", ["", "{", "rank,probability,cumulative,newick\n1,x,1,(A);\n", "probability,taxa,members\nx,1,*\n"]
)
def test_damaged_results_are_made_again(finished, name, content):
    shutil.copytree(finished, "copy")
    Path("copy", name).write_text(content)
    assert run(["infer", "--out", "copy", "--resume", "--quiet"]) == 0
    assert Path("copy", name).read_bytes() == (finished / name).read_bytes()


def test_somebodys_folder_that_is_named_like_a_run_is_none(finished):
    shutil.copytree(finished, "copy")
    Path("copy/run-2").mkdir()
    Path("copy/run-2/notes").write_text("mine")
    assert run(["infer", "--out", "copy", "--resume"]) == 0


def test_a_name_that_is_no_text_is_shown_as_what_it_is(capsys):
    odd = Path(os.fsdecode(b"dna-\xff.fasta"))
    odd.write_text(SEVEN[: SEVEN.index(">F")])
    assert run(["infer", str(odd), "--out", "out", *TINY, "--plain"]) == 0
    assert "dna-\\udcff.fasta: 5 taxa" in capsys.readouterr().err


def test_an_alignment_of_seven_taxa_needs_nothing_that_is_not_python(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    Path("dna.fasta").write_text(SEVEN)
    few = ["--bootstrap-trees", "30", "--bootstrap-replicates", "2"]
    assert run(["infer", "dna.fasta", "--out", "out", *few, *TINY, "--plain"]) == 0
    made_by, progress = (line for line in capsys.readouterr().err.splitlines() if "bootstrap" in line)
    assert_says(made_by, "embedded search … 2 replicates … 30 trees … JC")
    assert progress == "bootstrap …"
    before = [path.read_bytes() for path in sorted(Path("out/bootstrap").iterdir())]
    assert len(before) == 3
    assert run(["infer", "dna.fasta", "--out", "again", *few, *TINY, "--threads", "1", "--quiet"]) == 0
    assert [path.read_bytes() for path in sorted(Path("again/bootstrap").iterdir())] == before
    Path("out/bootstrap/replicate_01.nwk.gz").unlink()
    shutil.rmtree("out/checkpoints")
    assert run(["infer", "dna.fasta", "--out", "out", *few, *TINY, "--force", "--quiet"]) == 0
    assert [path.read_bytes() for path in sorted(Path("out/bootstrap").iterdir())] == before


@pytest.mark.parametrize("taxa", [4, 5, 6])
def test_few_taxa_need_no_trees_their_support_is_every_topology(taxa, monkeypatch):
    monkeypatch.setenv("PATH", "")
    Path("dna.fasta").write_text("".join(f">t{taxon}\n{'ACGTAC'[taxon] * 3}ACGTACG\n" for taxon in range(taxa)))
    assert run(["infer", "dna.fasta", *SMALLEST]) == 0
    summary = json.loads(Path("dna-run/summary.json").read_text())
    assert summary["support"]["topologies"] == {4: 3, 5: 15, 6: 105}[taxa]


def test_identical_sequences_are_named_and_kept(capsys):
    Path("dna.fasta").write_text(">A\nACGTAC\n>B\nACGTAC\n>C\nACCTAC\n>D\nACCTAA\n>E\nACCTAA\n")
    assert run(["infer", "dna.fasta", *SMALLEST, "--plain"]) == 0
    captured = capsys.readouterr()
    assert "identical sequences: A, B" in captured.err
    assert json.loads(Path("dna-run/summary.json").read_text())["taxa"] == 5


def test_the_first_use_says_that_it_compiles(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("phloem.kernels.jit._cache_directories", lambda: [tmp_path / "none", tmp_path])
    assert run([*PRIMATES, "--out", "one", *TINY, "--plain"]) == 0
    assert "compiles" in capsys.readouterr().err
    (tmp_path / "one.kernel").write_text("")
    assert run([*PRIMATES, "--out", "two", *TINY, "--plain"]) == 0
    assert "compiles" not in capsys.readouterr().err


def test_an_odd_directory_is_shown_as_it_is(capsys):
    assert run([*PRIMATES, "--out", "run[/x] [bold]", *TINY]) == 0
    assert "\nfiles in run[/x] [bold]:\n" in capsys.readouterr().out


BAD = {
    "preset": (["primates", "--out", "x", "--preset", "fast"], "--preset 'fast' … paper, standard, quick"),
    "branches": (["primates", "--out", "x", "--branches", "gat"], "--branches 'gat' … split, psp"),
    "estimator": (["primates", "--out", "x", "--estimator", "sgd"], "--estimator 'sgd' … vimco, rws"),
    "steps": (["primates", "--out", "x", "--steps", "0"], "--steps 0"),
    "particles": (["primates", "--out", "x", "--particles", "1"], "--particles 1 … vimco … 2 … 10,000"),
    "option in the file": (
        ["primates", "--out", "x", "--config", "bad.toml"],
        "bad.toml: … 'training.setps'",
    ),
    "preset in the file": (["primates", "--out", "x", "--config", "fast.toml"], "fast.toml: … 'fast'"),
    "no file": (["primates", "--out", "x", "--config", "none.toml"], "none.toml: "),
    "interval": (["primates", "--out", "x", "--checkpoint-every", "often"], "--checkpoint-every often"),
    "three taxa": (["three.fasta", "--out", "x"], "three.fasta: … 3 taxa"),
    "nothing": (["missing.fasta", "--out", "x"], "taxa … data"),
    "seed": (["primates", "--out", "x", "--seed", "-1"], "--seed -1"),
    "threads": (["primates", "--out", "x", "--threads", "0"], "--threads"),
    "alignment": (["none.fasta", "--out", "x"], "none.fasta: … no such file"),
    "no alignment": (["--out", "x"], "x: … checkpoint … alignment"),
    "no alignment to resume": (["--out", "x", "--resume"], "x: … checkpoint … alignment"),
    "nothing at all": ([], "alignment"),
    "control characters": (["odd.fasta", "--out", "x"], "control character"),
    "both": (["primates", "--out", "x", "--resume", "--force"], "--resume … --force"),
    "trees": (["primates", "--out", "x", "--trees", "none.nwk"], "none.nwk: … no such file"),
    "taxa": (["primates", "--out", "x", "--trees", "other.nwk"], "other.nwk … tree 1 … line 1 … column 1"),
    "used": (["primates", "--out", "used"], "used: … notes"),
    "file": (["primates", "--out", "plain"], "plain: … directory"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_exit_code_2_and_nothing_left_behind(case, capsys):
    Path("other.nwk").write_text("((a,b),c,d);\n")
    Path("plain").write_text("")
    Path("bad.toml").write_text("[training]\nsetps = 5\n")
    Path("odd.fasta").write_text(">A\x1b[2J\nAC\n>B\nAC\n>C\nAC\n>D\nAC\n")
    Path("fast.toml").write_text('preset = "fast"\n')
    Path("three.fasta").write_text(">A\nACGT\n>B\nACGA\n>C\nACTT\n")
    Path("missing.fasta").write_text("".join(f">{name}\n----\n" for name in "ABCDEFG"))
    Path("used").mkdir()
    Path("used/notes").write_text("")
    arguments, facts = BAD[case]
    assert run(["infer", *arguments, "--quiet"]) == 2
    assert_says(complaint(capsys), facts)
    assert not Path("x").exists()
