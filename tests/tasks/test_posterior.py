"""`phloem.infer` in a script: the posterior as an object, saved, loaded, interrupted."""

import gc
import json
import shutil
import signal

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import phloem
from phloem.display.events import News, Notice, Overview
from phloem.errors import BadArgument, ConfigError, FileProblem
from phloem.inference.measurement import measure
from phloem.runs.driver import Interrupted
from phloem.storage.arrays import write_sealed
from phloem.tasks.run_files import EXPORTS, infer_run, read_clades, read_topologies
from phloem.trees.splits import split_table
from support.messages import assert_says

QUICK = {
    "model": {"name": "JC"},
    "branches": "split",
    "training": {"steps": 60},
    "evaluation": {"repeats": 3, "samples": 100},
}


@pytest.fixture(scope="module")
def posterior(tmp_path_factory):
    out = tmp_path_factory.mktemp("posterior") / "run"
    return phloem.infer("primates", "primates", out=out, runs=1, progress=False, **QUICK)


def test_it_has_what_the_files_have(posterior):
    summary = json.loads((posterior.directory / "summary.json").read_text())
    assert posterior.log_marginal_likelihood.mean == summary["log_marginal_likelihood"]["mean"]
    assert posterior.elbo.std == summary["elbo"]["std"]
    assert posterior.lower_bound.mean == summary["lower_bound"]["mean"]
    assert posterior.elbo.mean < posterior.log_marginal_likelihood.mean
    assert posterior.taxa == phloem.read_alignment("primates").taxa
    assert posterior.topologies.weights.sum() == pytest.approx(1)
    assert (np.diff(posterior.topologies.weights) <= 0).all()
    assert [report.step for report in posterior.history][-1] == 60
    np.testing.assert_array_equal(posterior.alignment.states, phloem.read_alignment("primates").states)


def test_clades_are_the_splits_of_the_topologies(posterior):
    expected = phloem.trees.split_frequencies(posterior.topologies)
    np.testing.assert_allclose(posterior.clades.frequencies, expected.frequencies, atol=1e-12)
    table = split_table([posterior.clades, expected]).frequencies
    np.testing.assert_allclose(table[:, 0], table[:, 1], atol=1e-12)


def test_the_model_is_the_trained_one_and_the_target_the_one_that_it_was_trained_for(posterior):
    found = measure(
        posterior.model,
        posterior.target,
        posterior.config.evaluation,
        particles=posterior.config.training.particles,
        seed=posterior.config.seed,
        trained=posterior.config.training.steps * posterior.config.training.particles,
    )
    assert found.evaluation.log_marginal_likelihood == posterior.log_marginal_likelihood


def test_it_is_shown_as_text(posterior):
    text = str(posterior)
    assert text.startswith("log marginal likelihood")
    assert "Homo_sapiens" in text
    assert "Posterior of 12 taxa, log marginal likelihood -" in repr(posterior)
    assert max(map(len, posterior.describe(70))) <= 70


def test_it_is_saved_and_loaded(posterior, tmp_path):
    saved = posterior.save(tmp_path / "copy")
    assert saved.directory == tmp_path / "copy"
    assert {path.name for path in saved.directory.iterdir()} == {
        *infer_run(saved.directory).needed,
        *EXPORTS,
        "SHA256SUMS",
        "checkpoints",
    }
    again = phloem.load_posterior(tmp_path / "copy")
    assert again.summary == posterior.summary
    assert again.config == posterior.config
    for name, tensor in posterior.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], tensor)
    with pytest.raises(FileProblem, match="exists"):
        posterior.save(tmp_path / "copy")


def test_without_a_directory_it_can_still_be_saved(tmp_path):
    found = phloem.infer("primates", "primates", preset="quick", progress=False, **QUICK)
    assert found.save(tmp_path / "kept").summary == found.summary


def test_a_temporary_directory_is_there_as_long_as_anything_needs_it(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    best = phloem.infer("primates", "primates", runs=2, progress=False, **QUICK).best_run
    assert best.model.network.support.topology_count == 7
    assert len(list(tmp_path.iterdir())) == 1
    del best
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileProblem, match=r"none\.fasta"):
        phloem.infer("none.fasta", progress=False)
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["summary.json", "config.toml", "topologies.csv", "clades.csv"])
def test_a_run_with_missing_files_is_a_line(posterior, tmp_path, missing):
    shutil.copytree(posterior.directory, tmp_path / "copy")
    (tmp_path / "copy" / missing).unlink()
    problem = "not finished" if missing == "summary.json" else f"{missing}: .*missing"
    with pytest.raises(FileProblem, match=problem):
        phloem.load_posterior(tmp_path / "copy")


@pytest.mark.parametrize("name", ["summary.json", "topologies.csv", "clades.csv"])
@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\x00", b"rank,probability,cumulative,newick\n1\n"])
def test_a_run_with_damaged_files_is_a_line(posterior, tmp_path, name, content):
    shutil.copytree(posterior.directory, tmp_path / "copy")
    (tmp_path / "copy" / name).write_bytes(content)
    with pytest.raises(FileProblem, match=f"{name}: .*damaged"):
        phloem.load_posterior(tmp_path / "copy")


def test_what_holds_no_run_is_a_line(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(FileProblem, match=f"{path}: .*no phloem run"):
            phloem.load_posterior(path)


def test_alignments_and_trees_may_be_objects_and_settings_any_of_the_config(posterior):
    alignment = phloem.read_alignment("primates")
    trees = phloem.read_trees(phloem.data.find_trees("primates"))
    found = phloem.infer(alignment, trees, runs=1, progress=False, **QUICK)
    assert found.log_marginal_likelihood == posterior.log_marginal_likelihood
    two = phloem.infer("primates", [trees, "primates"], "quick", seed=9, prior_rate=5.0, progress=False, **QUICK)
    assert (two.config.seed, two.config.prior_rate, two.config.runs) == (9, 5.0, 1)
    assert two.target.prior.rate == 5.0
    config = phloem.config.InferConfig(runs=1, branches="psp")
    assert (
        phloem.infer("primates", "primates", config=config, progress=False, **{**QUICK, "branches": "psp"}).config.runs
        == 1
    )
    with pytest.raises(ConfigError, match="'stepps'"):
        phloem.infer("primates", stepps=5)
    with pytest.raises(ConfigError, match="--preset 'slow'"):
        phloem.infer("primates", preset="slow")


def test_progress_is_told_in_order_to_a_function(tmp_path):
    told = []
    phloem.infer("primates", "primates", runs=1, out=tmp_path / "run", progress=told.append, **QUICK)
    assert isinstance(told[0], Overview)
    assert (told[0].alignment.taxa, told[0].steps, told[0].runs) == (12, 60, 1)
    news = [event for event in told if isinstance(event, News)]
    phases = list(dict.fromkeys(event.phase for event in news))
    assert phases == ["support", "training", "refitting", "evaluation", "annealing", "chains", "done"]
    assert [event.report.step for event in news if event.report] == list(range(1, 61))
    for phase in phases:
        shares = [event.share for event in news if event.phase == phase]
        assert shares == sorted(shares)
        assert 0 <= shares[0] <= shares[-1] <= 1


def test_an_interrupted_run_says_where_it_is_and_goes_on(posterior, tmp_path):
    def stop(event):
        if isinstance(event, News) and event.report and event.report.step == 30:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match=r"step 30\b.* out=.*resume=True") as stopped:
        phloem.infer("primates", "primates", runs=1, out=tmp_path / "run", progress=stop, **QUICK)
    assert (stopped.value.directory, stopped.value.step) == (tmp_path / "run", 30)
    told = []
    found = phloem.infer(None, out=tmp_path / "run", resume=True, progress=told.append)
    (notice,) = (event for event in told if isinstance(event, Notice) and "step 30 of 60" in event.text)
    assert not notice.urgent
    assert next(event for event in told if isinstance(event, News)).report.step == 30  # the last one comes again
    sessions = json.loads((found.directory / "provenance.json").read_text())["sessions"]
    assert [session["command"] for session in sessions] == ["phloem.infer", "phloem.infer"]
    for name in ("summary.json", "parameters.safetensors", "topologies.csv"):
        assert (found.directory / name).read_bytes() == (posterior.directory / name).read_bytes()


def without_seconds(posterior):
    return [report._replace(seconds=0) for report in posterior.history]


def test_a_first_step_that_was_interrupted_is_taken_again(posterior, tmp_path, monkeypatch):
    step = phloem.inference.Training.step

    def interrupted(training):
        step(training)
        raise KeyboardInterrupt  # before its bound is in the history

    monkeypatch.setattr(phloem.inference.Training, "step", interrupted)
    with pytest.raises(Interrupted) as stopped:
        phloem.infer("primates", "primates", runs=1, out=tmp_path / "run", progress=False, **QUICK)
    monkeypatch.undo()
    assert stopped.value.step == 0
    found = phloem.infer(None, out=tmp_path / "run", resume=True, progress=False)
    assert without_seconds(found) == without_seconds(posterior)
    assert found.summary == posterior.summary


def stop_at_30(told):
    """A function for `progress` that asks to stop at step 30."""

    def progress(event):
        told.append(event)
        if isinstance(event, News) and event.report and event.report.step == 30:
            signal.raise_signal(signal.SIGINT)

    return progress


def test_a_second_request_to_stop_waits_until_the_run_is_saved(tmp_path, monkeypatch):
    def impatient(path, arrays, texts, **kind):
        if arrays["training.counters"][0]:
            signal.raise_signal(signal.SIGINT)
        write_sealed(path, arrays, texts, **kind)

    monkeypatch.setattr("phloem.runs.checkpoints.write_sealed", impatient)
    with pytest.raises(Interrupted) as stopped:
        phloem.infer("primates", "primates", runs=1, out=tmp_path / "run", progress=stop_at_30([]), **QUICK)
    assert stopped.value.step == 30


def test_a_run_that_is_stopped_on_a_full_disk_says_what_is_lost(tmp_path, monkeypatch):
    def full(path, arrays, texts, **kind):
        if arrays["training.counters"][0]:
            raise FileProblem("x: cannot be written (No space left on device).")
        write_sealed(path, arrays, texts, **kind)

    monkeypatch.setattr("phloem.runs.checkpoints.write_sealed", full)
    told = []
    with pytest.raises(Interrupted) as stopped:
        phloem.infer("primates", "primates", runs=1, out=tmp_path / "run", progress=stop_at_30(told), **QUICK)
    assert stopped.value.step == 0
    assert_says(told[-1].text, "checkpoint … step 0; … lost")


def test_of_several_runs_the_saved_step_of_each_is_told(tmp_path, monkeypatch):
    def stop(waiting, _function, _options, _progress):
        _, first = waiting[0]
        checkpoint, _ = first.checkpoints.newest()
        checkpoint.training["counters"][0] = 30
        first.checkpoints.add(checkpoint)
        raise KeyboardInterrupt

    monkeypatch.setattr("phloem.tasks.infer.complete_runs", stop)
    with pytest.raises(Interrupted) as stopped:
        phloem.infer("primates", "primates", runs=2, out=tmp_path / "run", progress=False, **QUICK)
    assert stopped.value.steps == (30, 0)
    assert_says(str(stopped.value), "step 30 of run 1, 0 of run 2")


def test_a_history_that_cannot_be_written_meanwhile_is_whole_at_the_end(tmp_path, monkeypatch):
    def fail(*_arguments):
        raise FileProblem("history.csv: cannot be written (No space left on device).")

    monkeypatch.setattr("phloem.runs.history.HistoryFile.write", fail)
    found = phloem.infer("primates", "primates", runs=1, out=tmp_path / "run", progress=False, **QUICK)
    assert [report.step for report in found.history] == list(range(1, 61))


def test_an_interrupted_run_without_a_directory_is_not_lost():
    def stop(event):
        if isinstance(event, News) and event.report and event.report.step == 10:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stopped:
        phloem.infer("primates", "primates", runs=1, progress=stop, **QUICK)
    directory = stopped.value.directory
    del stopped
    gc.collect()  # what the error held on to is gone, and the directory is not
    assert infer_run(directory).checkpoints.newest_step() == 10
    shutil.rmtree(directory.parent)


def test_a_step_without_a_finite_bound_is_counted_to_the_end(tmp_path, monkeypatch):
    gradients = phloem.inference.Training.gradients

    def sometimes_nan(training, number, inverse_temperature):
        bound = gradients(training, number, inverse_temperature)
        return float("nan") if number in (5, 7) else bound

    monkeypatch.setattr(phloem.inference.Training, "gradients", sometimes_nan)
    found = phloem.infer("primates", "primates", runs=1, out=tmp_path / "run", progress=False, **QUICK)
    assert found.summary.skipped_steps == 2
    assert [report.skipped for report in found.history][3:8] == [0, 1, 1, 2, 2]
    assert "skipped 2 steps without a finite bound or gradient" in str(found)


def test_a_training_that_stops_early_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("phloem.inference.training.LEAST_RISE", 1e6)
    settings = QUICK | {"training": {"steps": 60, "stop": "auto", "ramp": 0.1}}
    found = phloem.infer("primates", "primates", runs=1, out=tmp_path / "run", progress=False, **settings)
    assert found.summary.stopped_early
    assert found.summary.steps == 15  # the first at full temperature, and nine more
    assert "stopped after 15 steps: the bound was flat" in str(found)


def test_tensorboard_gets_the_reports_and_loses_those_after_a_checkpoint(tmp_path):
    def stop(event):
        if isinstance(event, News) and event.report and event.report.step == 30:
            raise KeyboardInterrupt

    options = {"runs": 1, "out": tmp_path / "run", "tensorboard": True, "checkpoint_every": "20steps"}
    with pytest.raises(Interrupted):
        phloem.infer("primates", "primates", progress=stop, **options, **QUICK)
    (tmp_path / "run" / "checkpoints" / "step-000000030.safetensors").unlink()
    assert infer_run(tmp_path / "run").checkpoints.newest_step() == 20
    phloem.infer(None, out=tmp_path / "run", resume=True, progress=False, tensorboard=True)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("elbo")] == list(range(1, 61))
    assert set(events.Tags()["scalars"]) == {"inverse_temperature", "lower_bound", "elbo", "topologies", "skipped"}


def test_tensorboard_that_is_not_installed_is_a_line_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(phloem.PhloemError, match=r"pip install phloem\[tensorboard\]"):
        phloem.infer("primates", "primates", out=tmp_path / "run", tensorboard=True, progress=False)
    assert not (tmp_path / "run").exists()


def test_tables_come_back_as_they_were_written(posterior, tmp_path):
    path = posterior.directory
    again = read_topologies(path / "topologies.csv", posterior.taxa)
    np.testing.assert_array_equal(again.topologies.parent, posterior.topologies.topologies.parent)
    np.testing.assert_array_equal(again.weights, posterior.topologies.weights)
    assert read_clades(path / "clades.csv", posterior.taxa).members.dtype == np.bool_


def test_threads_that_are_no_number_of_cores_are_refused(tmp_path):
    with pytest.raises(BadArgument, match="--threads -1"):
        phloem.infer("primates", "primates", out=tmp_path / "run", threads=-1, progress=False)


def test_as_many_reports_as_anyone_likes_are_one_a_step(tmp_path):
    settings = QUICK | {"evaluation": {"repeats": 3, "samples": 100, "reports": 10**9}}
    found = phloem.infer("primates", "primates", runs=1, out=tmp_path / "run", progress=False, **settings)
    assert len(found.history) == 60


def test_all_physical_cores_are_used_unless_told_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr("phloem.runs.ranks.physical_cores", lambda: 7)
    seen = []

    def stop(_run, _checkpoint, _training, options, _progress, *, ranks):
        seen.append(options.threads)
        raise KeyboardInterrupt

    monkeypatch.setattr("phloem.tasks.infer.complete", stop)
    for threads in (None, 2):
        with pytest.raises(Interrupted):
            phloem.infer(
                "primates", "primates", runs=1, out=tmp_path / f"{threads}", threads=threads, progress=False, **QUICK
            )
    assert seen == [7, 2]


def test_threads_change_nothing(posterior, tmp_path):
    found = phloem.infer("primates", "primates", runs=1, out=tmp_path / "run", threads=2, progress=False, **QUICK)
    for name in ("summary.json", "parameters.safetensors"):
        assert (found.directory / name).read_bytes() == (posterior.directory / name).read_bytes()
