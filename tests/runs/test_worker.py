"""One of several runs in a process of its own: what it is told to do, and how it says that it has ended."""

import json
import subprocess
import sys

import pytest

import phloem
from phloem.errors import TrainingFailed
from phloem.inference.training import Report
from phloem.runs import several as worker
from phloem.runs.checkpoints import CheckpointInterval
from phloem.runs.driver import Interrupted, RunOptions
from phloem.runs.several import DONE, FAILED, INTERRUPTED, decode_event, encode_task, work
from phloem.tasks.run_files import infer_run
from support.begun_trainings import begun, checkpoint_of
from support.waiting import wait_until

pytestmark = pytest.mark.slow  # models are trained

OPTIONS = RunOptions(3, CheckpointInterval(None, 7), tensorboard=True)


@pytest.fixture
def task(tmp_path, monkeypatch):
    """To go on with a run, in this process, which nobody has begun."""
    monkeypatch.setattr(worker, "_stop_when_orphaned", lambda: None)
    monkeypatch.setattr("phloem.tasks.infer.restore_training", lambda *_: begun("split")[0])
    infer_run(tmp_path).checkpoints.add(checkpoint_of(*begun("split")))
    return encode_task("phloem.tasks.infer:complete_in_worker", tmp_path, 2, OPTIONS)


def test_it_goes_on_from_the_checkpoint_with_the_options_that_it_was_given(task, tmp_path, monkeypatch):
    seen = []

    def complete(run, checkpoint, training, options, _progress, *, number, checked):
        assert training.steps_done == checkpoint.step
        seen.append((run.path, checkpoint.step, options, number, checked))

    monkeypatch.setattr("phloem.tasks.infer.complete", complete)
    assert work(task) == DONE
    assert seen == [(tmp_path, 0, OPTIONS, 2, False)]


@pytest.mark.parametrize(
    ("problem", "code", "lines"),
    [(TrainingFailed("no luck."), FAILED, [["error", "no luck."]]), (KeyboardInterrupt(), INTERRUPTED, [])],
)
def test_it_says_how_it_has_ended(task, monkeypatch, capsys, problem, code, lines):
    def fail(*_arguments, **_options):
        raise problem

    monkeypatch.setattr("phloem.tasks.infer.complete", fail)
    assert work(task) == code
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == lines


@pytest.mark.slow
def test_it_saves_itself_and_ends_when_the_process_that_began_it_is_gone(tmp_path, monkeypatch):
    def stop(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("phloem.tasks.infer.complete_runs", stop)
    endless = {"branches": "split", "training": {"steps": 10**6}}
    with pytest.raises(Interrupted):
        phloem.infer("primates", "primates", runs=2, out=tmp_path / "runs", progress=False, **endless)
    run = infer_run(tmp_path / "runs").child(1)
    task = encode_task(
        "phloem.tasks.infer:complete_in_worker", run.path, 1, RunOptions(1, CheckpointInterval(None, 20))
    )
    program = [sys.executable, "-m", "phloem.runs.several", task]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            next(line for line in process.stdout if decode_event(line, Report).step > 10)
            process.stdout.close()
            before = run.checkpoints.newest_step()
            wait_until(lambda: run.checkpoints.newest_step() > before, process)  # in which it has news for no one
            process.stdin.close()
            assert process.wait() == INTERRUPTED
        finally:
            process.kill()
    assert run.checkpoints.newest_step() > 10
