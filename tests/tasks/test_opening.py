"""Run directories as they are: finished, not finished, drawn from anew, of no use."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

import phloem
from phloem.config import EvaluationConfig
from phloem.errors import FileProblem, TaxonMismatch
from phloem.runs.checkpoints import read_checkpoint, write_checkpoint
from phloem.runs.directory import claimed
from phloem.tasks import opening, run_files
from phloem.tasks.exports import make_exports
from phloem.tasks.opening import Drawing, open_posterior, taxa_of
from phloem.tasks.run_files import INFER_RUNS, infer_run
from support.messages import saying


def test_a_finished_run_is_what_its_files_say(finished_run):
    posterior = open_posterior(finished_run)
    assert posterior.is_finished
    assert posterior.summary == phloem.load_posterior(finished_run).summary
    assert taxa_of(finished_run) == posterior.taxa


def test_the_runs_own_drawing_gives_its_own_summary(finished_run, finished_runs):
    for path in (finished_run, finished_runs):
        own = Drawing(samples=200)
        assert open_posterior(path, drawing=own).summary == phloem.load_posterior(path).summary


def test_other_draws_give_other_numbers_of_the_same_model(finished_run):
    told = []
    drawing = Drawing(300, 4, seed=9)
    other = open_posterior(finished_run, drawing=drawing, progress=told.append)
    own = open_posterior(finished_run)
    assert (other.summary.repeats, other.summary.samples) == (4, 300)
    assert len(other.draws) == 1200
    assert other.elbo != own.elbo
    assert other.elbo.mean == pytest.approx(own.elbo.mean, abs=20)
    assert told == [0.25, 0.5, 0.75, 1.0]


def test_an_unfinished_run_is_drawn_from_as_far_as_it_has_come(unfinished_run):
    posterior = open_posterior(unfinished_run)
    assert not posterior.is_finished
    assert posterior.summary.steps == 1000
    assert posterior.trust.findings[-1].value == "step 1,000 of 4,000"
    assert [report.step for report in posterior.history][-1] == 1000
    assert str(posterior).startswith("not finished: this is the posterior after 1,000 steps")
    found = phloem.inference.evaluate(
        posterior.model,
        posterior.target,
        EvaluationConfig(samples=200, repeats=5),
        particles=10,
        stream=phloem.RandomStream(1, "evaluation"),
    )
    assert found.elbo == posterior.elbo
    with pytest.raises(FileProblem, match="not finished"):
        phloem.load_posterior(unfinished_run)


def test_a_run_at_work_is_not_to_be_resumed(unfinished_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(unfinished_run, copy)
    assert "--resume" in open_posterior(copy).trust.advice
    with claimed(infer_run(copy), resume=True):
        assert "--resume" not in open_posterior(copy).trust.advice
        with pytest.raises(FileProblem, match=saying("not finished … wait")):
            phloem.load_posterior(copy)
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(FileProblem, match=saying("no training step is saved yet … --resume")):
        open_posterior(copy)
    with claimed(infer_run(copy), resume=True):
        for look in (open_posterior, taxa_of):
            with pytest.raises(FileProblem, match=saying("wait")) as problem:
                look(copy)
            assert "--resume" not in str(problem.value)
    assert not infer_run(copy).is_in_use()


def test_of_several_runs_those_that_have_begun_are_looked_at(finished_runs, unfinished_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished_runs, copy)
    (copy / "summary.json").unlink()
    whole = open_posterior(copy)
    assert whole.is_finished
    assert whole.summary == phloem.load_posterior(finished_runs).summary
    (copy / "run-2" / "summary.json").unlink()
    told = []
    again = open_posterior(copy, progress=told.append)
    assert again.summary.runs == 2
    assert again.is_finished, "its training has ended, whatever became of its results"
    assert told[-1] == 1.0
    assert told[0] > 0.5, "the first run has its draws"
    np.testing.assert_array_equal(again.draws.log_weights, whole.draws.log_weights)
    shutil.rmtree(copy / "run-2")
    shutil.copytree(unfinished_run, copy / "run-2")
    behind = open_posterior(copy)
    assert behind.summary.steps == 1000, "as far as all have come"
    assert behind.trust.findings[-1].value == "step 1,000 of 4,000"
    shutil.rmtree(copy / "run-2" / "checkpoints")
    alone = open_posterior(copy)
    assert alone.summary.runs == 1
    assert not alone.is_finished
    (copy / "config.toml").unlink()
    assert open_posterior(copy).config == replace(alone.config, runs=2)


def test_an_unfinished_run_gets_a_first_look_only(unfinished_run, monkeypatch):
    monkeypatch.setattr(opening, "FEW_REPEATS", 2)
    summary = open_posterior(unfinished_run).summary
    assert (summary.repeats, summary.samples) == (2, 200)


def test_every_seed_is_one_and_none_is_the_runs_own(finished_run):
    few = (20, 2)
    zero, one, own = (open_posterior(finished_run, drawing=Drawing(*few, seed)).elbo for seed in (0, 1, None))
    assert zero != one == own


def test_threads_are_those_that_are_asked_for(finished_run, monkeypatch):
    asked = []

    def build_target(patterns, config, threads=None, **own):
        asked.append(threads)
        return original(patterns, config, threads, **own)

    original = run_files.build_target
    monkeypatch.setattr(run_files, "build_target", build_target)
    for threads in (None, 2):
        open_posterior(finished_run, drawing=Drawing(5, 1), threads=threads)
    assert asked == [None, 2]


def test_a_run_before_its_first_step_is_told_of(unfinished_run, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(unfinished_run, path)
    (path / "checkpoints" / "step-000001000.safetensors").unlink()
    with pytest.raises(FileProblem, match="no training step"):
        open_posterior(path)
    assert taxa_of(path) == taxa_of(unfinished_run)


@pytest.mark.parametrize("nothing", ["missing", "empty", "untrained"])
def test_there_must_be_something_to_look_at(nothing, tmp_path, unfinished_run):
    path = tmp_path / "run"
    if nothing == "empty":
        path.mkdir()
    if nothing == "untrained":
        shutil.copytree(unfinished_run, path)
        for file in (path / "checkpoints").iterdir():
            file.unlink()
    problem = "no training step" if nothing == "untrained" else "no phloem run"
    with pytest.raises(FileProblem, match=f"{path}: .*{problem}"):
        open_posterior(path)
    with pytest.raises(FileProblem, match=f"{path}: "):
        taxa_of(path)


def test_a_run_of_another_version_is_told_of(unfinished_run, tmp_path, monkeypatch):
    newer = replace(INFER_RUNS, layout="2")
    monkeypatch.setattr(run_files, "INFER_RUNS", newer)
    with pytest.raises(FileProblem, match=r"format 1.*format 2"):
        open_posterior(unfinished_run)


def test_damaged_checkpoints_are_told_of(unfinished_run, tmp_path):
    shutil.copytree(unfinished_run, tmp_path / "run")
    for file in (tmp_path / "run" / "checkpoints").iterdir():
        file.write_bytes(b"nothing")
    with pytest.raises(FileProblem, match=r"step-000001000\.safetensors: "):
        open_posterior(tmp_path / "run")


def test_a_finished_run_whose_last_checkpoint_is_lost_is_not_drawn_from_as_if_it_were_whole(finished_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished_run, copy)
    newest = max((copy / "checkpoints").iterdir())
    shutil.copy(newest, tmp_path / "kept")
    early = read_checkpoint(INFER_RUNS, newest)
    early.training["counters"][0] = 5
    write_checkpoint(INFER_RUNS, early, newest)
    assert open_posterior(copy).is_finished, "its files are whole"
    with pytest.raises(FileProblem, match="checkpoint"):
        open_posterior(copy, drawing=Drawing(seed=3))


def test_runs_that_were_lost_added_or_taken_from_elsewhere_are_noticed(finished_runs, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished_runs, copy)
    shutil.copytree(copy / "run-2", copy / "run-3")
    with pytest.raises(FileProblem, match=r"3 runs.*summary.* 2"):
        open_posterior(copy)
    shutil.rmtree(copy / "run-3")
    shutil.rmtree(copy / "run-2")
    with pytest.raises(FileProblem, match=r"1 run, .*summary.* 2"):
        open_posterior(copy)
    other = phloem.read_alignment("primates")
    renamed = phloem.data.Alignment(tuple(f"t{taxon}" for taxon in range(6)), other.states[:6])
    quick = {"training": {"steps": 3}, "evaluation": {"repeats": 1, "samples": 20}, "branches": "split"}
    phloem.infer(
        renamed,
        phloem.trees.parse_newick(["(t0,t1,(t2,(t3,(t4,t5))));"]),
        runs=1,
        progress=False,
        out=copy / "run-2",
        **quick,
    )
    with pytest.raises(FileProblem, match=r"run-2: .*taxa"):
        open_posterior(copy)
    (copy / "summary.json").unlink()
    with pytest.raises(TaxonMismatch, match="taxa"):
        open_posterior(copy)


@pytest.mark.parametrize("name", ["clades.csv", "topologies.csv", "draws.safetensors", "history.csv"])
def test_random_bytes_in_a_file_of_the_run_are_told_of(name, finished_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished_run, copy)
    (copy / name).write_bytes(bytes(range(256)) * 3 + b'\0\r\n"')
    with pytest.raises(FileProblem, match=name):
        make_exports(open_posterior(copy))
