"""What breaks in the middle of a run, and what the user is left with; `docs/reliability.md` names all such tests."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import phloem
from phloem.cli.main import run
from phloem.config import EvaluationConfig, TrainingConfig
from phloem.display.events import News, Notice
from phloem.errors import DiskFull, FileProblem, NotFinite, OutOfMemory, TrainingFailed
from phloem.inference.evaluation import estimate
from phloem.inference.training import Training, train
from phloem.runs import checkpoints, several
from phloem.runs.checkpoints import CheckpointInterval, write_patiently
from phloem.runs.directory import SUMMARY
from phloem.runs.driver import Interrupted, RunOptions, RunRequest
from phloem.runs.history import read_history
from phloem.storage.files import write_text
from phloem.tasks import infer as task
from phloem.tasks.opening import Drawing, open_posterior
from phloem.tasks.posterior import histories_of
from phloem.tasks.run_files import infer_run, write_results
from phloem.variational.families import Warped
from phloem.variational.joint import JointModel, build_branch_model
from phloem.variational.parameters import ParameterModel
from phloem.variational.sbn import SubsplitNetwork, support_of
from support.clocks import Clock
from support.command_line import complaint
from support.counting_runs import CountConfig, Counting, CountReport, count_directory, count_up
from support.fake_iqtree import SEVEN, SEVEN_TREES, FakeIqtree
from support.messages import assert_says, saying
from support.waiting import wait_until
from support.weighted_priors import INFERRED, known_posterior

ROOT = Path(__file__).parent.parent
PHASES = ["bootstrap", "exploring", "training", "refitting", "evaluation", "annealing", "chains"]
TEN = CountConfig(steps=10, reports=5)


def fail_with(problem: BaseException):
    def fail(*_arguments, **_options):
        raise problem

    return fail


# A process that dies


@pytest.mark.slow
def test_a_worker_that_is_killed_ends_the_run_with_a_line_and_both_resume(tmp_path):
    out = tmp_path / "runs"
    options = ["--model", "JC", "--branches", "split", "--steps", "100000", "--set", "evaluation.chains=0"]
    command = ["infer", "primates", "--trees", "primates", "--out", str(out), "--runs", "2", "--threads", "2", *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "phloem", *command, "--checkpoint-every", "50steps", "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        one, two = (infer_run(out / f"run-{number}").checkpoints for number in (1, 2))
        wait_until(lambda: min(one.newest_step() or 0, two.newest_step() or 0) >= 100, process)
        (victim,) = (worker for worker in workers_of(process.pid) if str(out / "run-1") in command_of(worker))
        os.kill(victim, signal.SIGKILL)
        _, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 2
    (line,) = err.splitlines()
    assert_says(line, "phloem: run 1 … killed … memory … --threads 1 … --resume")
    saved = [folder.newest()[0].step for folder in (one, two)]
    seen = []

    def stop(event):
        if isinstance(event, News) and event.phase == "training":
            seen.append(event)
            if {1, 2} <= {event.run for event in seen}:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        phloem.infer(None, out=out, resume=True, threads=2, progress=stop)
    first = {number: next(event.step for event in seen if event.run == number) for number in (1, 2)}
    assert [first[1], first[2]] == saved


def workers_of(parent: int) -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if parent_of(path) == parent]


def parent_of(process: Path) -> int | None:
    try:
        return int(re.search(r"^PPid:\s*(\d+)", (process / "status").read_text(), re.MULTILINE)[1])
    except OSError:  # it has ended
        return None


def command_of(process: int) -> str:
    return (Path("/proc") / str(process) / "cmdline").read_text()


# Requests to stop


@pytest.mark.slow
def test_a_run_that_is_stopped_in_every_phase_resumes_each_time_to_the_same_results(tmp_path, monkeypatch):
    """One directory, stopped once in each phase; another that nobody stops."""
    (tmp_path / "dna.fasta").write_text(SEVEN)
    FakeIqtree(tmp_path, monkeypatch)(SEVEN_TREES)
    settings = {
        "model": {"name": "JC"},
        "branches": "split",
        "runs": 1,
        "support": {"method": "iqtree"},
        "training": {"steps": 20},
        "evaluation": {"repeats": 2, "samples": 50, "anneal": 100, "chains": 4},
    }
    # The weights of so short a training may be poor or good; annealing must come.
    monkeypatch.setattr("phloem.inference.measurement.judge_weights", lambda _weights: "usable")

    def go(out: str, resume: bool, progress=False):
        return phloem.infer(
            tmp_path / "dna.fasta", out=tmp_path / out, resume=resume, threads=1, progress=progress, **settings
        )

    whole = go("whole", resume=False)
    stopped = []
    for phase in PHASES:

        def stop(event, phase=phase):
            is_training = phase != "training" or getattr(event, "step", 0) >= 10
            if isinstance(event, News) and event.phase == phase and is_training and phase not in stopped:
                stopped.append(phase)
                signal.raise_signal(signal.SIGTERM)

        with pytest.raises(Interrupted) as found:
            go("parts", resume=bool(stopped), progress=stop)
        assert stopped[-1] == phase
        assert found.value.begun
        assert not list((tmp_path / "parts").rglob("*.unfinished"))
        assert not (tmp_path / "parts" / SUMMARY).exists()
    assert go("parts", resume=True).summary == whole.summary
    for name in infer_run(tmp_path).kind.results:
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


@pytest.fixture(scope="module")
def stopped_in_evaluation(tmp_path_factory) -> Path:
    """A run whose training is done, and whose results do not exist."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    settings = {
        "model": {"name": "JC"},
        "branches": "split",
        "training": {"steps": 40},
        "evaluation": {"repeats": 2, "samples": 50, "anneal": 0, "chains": 0},
    }

    def stop(event):
        if isinstance(event, News) and event.phase == "evaluation":
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted):
        phloem.infer("primates", "primates", runs=1, out=out, progress=stop, **settings)
    return out


def test_a_run_that_was_stopped_in_its_evaluation_has_a_report(stopped_in_evaluation, tmp_path):
    posterior = open_posterior(stopped_in_evaluation, drawing=Drawing(50, 2))
    ((*_, last),) = histories_of(posterior)
    assert last.step == 40
    assert run(["report", str(stopped_in_evaluation), "--out", str(tmp_path / "mine.html")]) == 0
    assert (tmp_path / "mine.html").exists()


# Disks


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(checkpoints, "time", clock)
    return clock


def test_results_wait_for_space_and_are_written_when_there_is_some(clock):
    said, full = [], DiskFull("x: no space.")
    attempts = iter([full, full, "written"])

    def write():
        found = next(attempts)
        if isinstance(found, DiskFull):
            raise found
        return found

    assert write_patiently(write, said.append) == "written"
    assert clock.now == 20
    (line,) = said
    assert_says(line, "x: no space. … wait")
    with pytest.raises(DiskFull):
        write_patiently(fail_with(full), said.append)
    assert 500 < clock.now < 700  # not for ever
    with pytest.raises(FileProblem, match="read-only"):  # and for nothing else
        write_patiently(fail_with(FileProblem("read-only")), said.append)


def test_an_evaluation_is_not_lost_to_a_full_disk(stopped_in_evaluation, tmp_path, monkeypatch, clock):
    """Its results wait, and are those of the same draws."""
    told, drawn = [], []
    measure, write = task.measure, write_results
    monkeypatch.setattr(task, "measure", lambda *given, **named: drawn.append(1) or measure(*given, **named))
    problems = iter([DiskFull("draws: no space.")])

    def write_later(*given):
        for problem in problems:
            raise problem
        return write(*given)

    monkeypatch.setattr(task, "write_results", write_later)
    out = copied(stopped_in_evaluation, tmp_path)
    posterior = phloem.infer(None, out=out, resume=True, progress=told.append)
    assert len(drawn) == 1
    assert "draws: no space. The results wait for space." in [event.text for event in told if isinstance(event, Notice)]
    assert phloem.load_posterior(out).summary == posterior.summary


def copied(run: Path, folder: Path) -> Path:
    subprocess.run(["cp", "-r", str(run), str(folder / "copy")], check=True)
    return folder / "copy"


def test_a_disk_that_stays_full_is_a_line_that_says_how_to_resume(tmp_path, monkeypatch):
    with monkeypatch.context() as full:
        full.setattr("phloem.runs.directory.write_text", count_full_after(3, write_text))
        with pytest.raises(DiskFull, match=saying("No space … Free some space … phloem count up --resume")):
            count_up(RunRequest(tmp_path / "run"), TEN)
    assert count_up(RunRequest(tmp_path / "run", resume=True)) == 55


def count_full_after(whole: int, write):
    """Files are written, so many; then the disk is full."""
    written = []

    def write_or_fail(path, content):
        written.append(path)
        if len(written) > whole:
            raise DiskFull(f"{path}: cannot be written (No space left on device). Free some space.")
        write(path, content)

    return write_or_fail


def test_a_file_beyond_the_limit_of_its_size_is_a_line_and_nothing_is_left(tmp_path):
    """The system sends SIGXFSZ as well, which must not end the process."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(FileProblem, match=saying("large.txt … File too large … ulimit -f")):
            write_text(tmp_path / "large.txt", "x" * 200_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


# Memory


@pytest.mark.parametrize(
    "problem", [MemoryError(), RuntimeError("std::bad_alloc"), OSError(12, "Cannot allocate memory")], ids=repr
)
def test_a_run_without_memory_says_how_to_resume_and_does(tmp_path, monkeypatch, problem):
    step = Counting.step
    with monkeypatch.context() as small:
        small.setattr(
            Counting, "step", lambda training: fail_with(problem)() if training.steps_done else step(training)
        )
        with pytest.raises(OutOfMemory, match=saying(f"{tmp_path} … memory … phloem count up --resume")):
            count_up(RunRequest(tmp_path / "run"), TEN)
    assert not list(tmp_path.rglob("*.unfinished"))
    assert count_up(RunRequest(tmp_path / "run", resume=True)) == 55


def test_other_problems_of_a_run_are_not_taken_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(Counting, "step", fail_with(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        count_up(RunRequest(tmp_path / "run"), TEN)


def test_a_run_without_memory_is_a_line_and_exit_code_1(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("phloem.tasks.infer.run_inference", fail_with(OutOfMemory("run: memory ran out.")))
    assert run(["infer", "primates", "--out", str(tmp_path / "run"), "--quiet"]) == 1
    assert complaint(capsys) == "phloem: run: memory ran out."


def test_a_worker_without_memory_says_so_to_the_others(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(several, "_stop_when_orphaned", lambda: None)
    monkeypatch.setattr(task, "complete_in_worker", fail_with(MemoryError()))
    options = RunOptions(1, CheckpointInterval())
    assert several.work(several.encode_task("phloem.tasks.infer:complete_in_worker", tmp_path, 1, options)) == 2
    kind, text = json.loads(capsys.readouterr().out)
    assert kind == "error"
    assert_says(text, "memory … --resume … --threads 1")


# Directories and checkpoints


def test_a_run_whose_directory_vanishes_under_its_results_is_a_line(tmp_path, monkeypatch):
    out = tmp_path / "run"
    step = Counting.step

    def vanish(training):
        if training.steps_done == 9:
            out.rename(tmp_path / "elsewhere")
        return step(training)

    monkeypatch.setattr(Counting, "step", vanish)
    monkeypatch.setattr(checkpoints.Saver, "save_patiently", lambda _saver: None)  # which says so itself
    with pytest.raises(FileProblem, match=saying(f"{out}: … gone")):
        count_up(RunRequest(out), TEN)
    assert not out.exists()


def test_what_is_resumed_from_in_place_of_a_damaged_checkpoint_is_said(tmp_path):
    every_step = RunOptions(interval=CheckpointInterval(None, 1))
    count_up(RunRequest(tmp_path / "run", options=every_step), TEN)
    folder = count_directory(tmp_path / "run")
    for damage in (b"", b"\0" * 5000, (folder.checkpoints.path / "step-000000010.safetensors").read_bytes()[:-9]):
        (folder.checkpoints.path / "step-000000010.safetensors").write_bytes(damage)
        said = []
        found = folder.newest_checkpoint(said.append)
        assert found is not None
        assert found.step == 9
        (line,) = said
        assert_says(line, "step-000000010.safetensors: is damaged … step 9 is whole")


# Clocks


def test_a_clock_that_is_set_forward_and_back_changes_nothing(tmp_path, monkeypatch):
    """Time of day by a day forward and two back at every look; what phloem measures is a clock that only runs."""
    looks = []

    def jumping() -> float:
        looks.append(1)
        return 1e9 + 86_400 * (len(looks) if len(looks) % 2 else -2 * len(looks))

    class Jumping(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.fromtimestamp(jumping(), UTC) + timedelta(0)

    with monkeypatch.context() as patched:
        patched.setattr(time, "time", jumping)
        patched.setattr("phloem.runs.directory.datetime", Jumping)
        interval = RunOptions(interval=CheckpointInterval(3600.0, None))
        count_up(RunRequest(tmp_path / "jumps", options=interval), TEN)
    assert looks, "the clock was never looked at"
    count_up(RunRequest(tmp_path / "calm"), TEN)
    for name in ("config.toml", "history.csv", "total.txt", "summary.json"):
        assert (tmp_path / "jumps" / name).read_bytes() == (tmp_path / "calm" / name).read_bytes(), name
    assert [row.step for row in read_history(tmp_path / "jumps" / "history.csv", CountReport)] == [2, 4, 6, 8, 10]


def test_only_the_records_have_the_time_of_day():
    """All else is measured by `time.monotonic`, which nobody can set."""
    looking = re.compile(r"\btime\.time\b|perf_counter|time_ns|datetime\.now|localtime|gmtime|utcnow")
    sources = [path for path in sorted((ROOT / "src").rglob("*.py")) if looking.search(path.read_text())]
    records = ["experiments/benchmark/task.py", "runs/directory.py"]  # when a session began
    assert [path.relative_to(ROOT / "src" / "phloem").as_posix() for path in sources] == records


# Numbers that are none


def test_parameters_of_the_model_that_are_no_numbers_end_a_training_with_advice():
    posterior = known_posterior(INFERRED, 5, 6)
    support = support_of(tuple("abcde"), posterior.topologies)
    theta = ParameterModel(np.zeros(5), np.eye(5))
    branches = build_branch_model("split", support, family=Warped, dimension=5)
    model = JointModel(SubsplitNetwork(support), branches, theta)
    with torch.no_grad():
        theta.location[0] = np.nan
    training = Training(model, posterior.target, TrainingConfig(steps=1000), seed=1)
    with pytest.raises(TrainingFailed, match=saying("step 100: … no finite bound … training.rate")):
        train(training, EvaluationConfig(reports=1))
    assert training.skipped == 100


@pytest.mark.parametrize("extreme", [np.nan, 1e4])
def test_one_tree_whose_model_is_absurd_spoils_no_other(extreme):
    posterior = known_posterior(INFERRED, 5, 6)
    topologies = posterior.topologies[:3]
    lengths = torch.full((3, topologies.branch_count), 0.1, dtype=torch.float64)
    theta = torch.zeros(3, 5, dtype=torch.float64)
    good, _ = posterior.target.log_joint_by_hand(topologies, lengths, 1.0, theta=theta)
    theta[1] = extreme
    found, _ = posterior.target.log_joint_by_hand(topologies, lengths, 1.0, theta=theta)
    assert np.isfinite(found.numpy()).tolist() == [True, False, True]
    np.testing.assert_array_equal(found.numpy()[[0, 2]], good.numpy()[[0, 2]])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_no_numbers_end_an_evaluation_with_a_line(bad):
    rows = np.array([[-1.0, -2.0, -np.inf], [-1.5, -2.5, -3.0]])
    found = estimate(rows, 3)  # a tree may weigh nothing
    assert np.isfinite(found.log_marginal_likelihood).all()
    assert found.elbo == (-np.inf, None)
    rows[1, 1] = bad
    with pytest.raises(NotFinite, match=saying("1 of 6 draws … --resume … report it")):
        estimate(rows, 3)


# The page


@cache
def names_in(path: str) -> frozenset[str]:
    return frozenset(re.findall(r"^def (test_\w+)", (ROOT / "tests" / path).read_text(), re.MULTILINE))


def test_every_test_that_the_page_names_exists():
    named = re.findall(r"`((?:\w+/)*\w+\.py)::(\w+)`", (ROOT / "docs" / "reliability.md").read_text())
    assert len(named) > 30
    assert [f"{path}::{name}" for path, name in named if name not in names_in(path)] == []


def test_the_page_names_every_test_of_a_fault():
    page = (ROOT / "docs" / "reliability.md").read_text()
    own = names_in("test_faults.py") - {name for name in names_in("test_faults.py") if "page" in name}
    assert [name for name in sorted(own) if f"::{name}`" not in page] == []
