"""A run that is killed, stopped, or short of disk loses nothing: what it finds is what an undisturbed run finds."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from phloem.cli import main
from phloem.runs.directory import claimed
from phloem.tasks.run_files import infer_run
from support.command_line import complaint
from support.messages import assert_says
from support.waiting import LIMIT, wait_until

# Many particles make steps slow enough to be killed among, and few steps make the whole quick.
SLOW_STEPS = [
    "--model",
    "JC",
    "--steps",
    "400",
    "--branches",
    "gcn",
    "--particles",
    "60",
    "--runs",
    "1",
    "--repeats",
    "5",
    "--seed",
    "3",
    "--set",
    "evaluation.chains=0",  # which check several runs together, but one by itself
]
PRIMATES = ("primates", "--trees", "primates")  # a bootstrap would take longer than all the rest
OFTEN = ["--checkpoint-every", "5steps"]
SAME_FILES = (
    "config.toml",
    "summary.json",
    "topologies.csv",
    "clades.csv",
    "support.npz",
    "parameters.safetensors",
    "draws.safetensors",
)
SAME_EXPORTS = ("consensus.nex", "posterior.nex", "posterior.log")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "phloem", "infer", *arguments]


@pytest.fixture
def start():
    """Starts runs, none of which outlives its test."""
    with ExitStack() as stack:

        def begin(*arguments: str) -> subprocess.Popen:
            process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield begin


def finish(*arguments: str) -> None:
    """A run that nobody disturbs, in this process, which has all that a new one would have to load."""
    assert main.run(["infer", *arguments]) == 0


def history_without_seconds(run: Path) -> list[list[str]]:
    with (run / "history.csv").open() as table:
        return [row[:1] + row[2:] for row in csv.reader(table)]


def assert_same_results(one: Path, two: Path) -> None:
    for name in SAME_FILES + SAME_EXPORTS:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    assert history_without_seconds(one) == history_without_seconds(two)


def steps_in(run: Path) -> int:
    """The step of the newest checkpoint; -1 while there is none."""
    step = infer_run(run).checkpoints.newest_step()
    return -1 if step is None else step


def reports_in(run: Path) -> int:
    return len(history_without_seconds(run)) - 1 if (run / "history.csv").exists() else 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    finish(*PRIMATES, "--out", str(out), *SLOW_STEPS)
    return out


@pytest.mark.slow
def test_a_run_that_is_killed_three_times_finds_the_same(start, undisturbed, tmp_path):
    out = tmp_path / "run"
    moments = random.Random(1)
    seen = []
    for kill in range(3):
        process = start(*PRIMATES, "--out", str(out), *SLOW_STEPS, *OFTEN, "--quiet", "--resume")
        wait_until(lambda kill=kill: steps_in(out) >= 120 * kill + moments.randrange(10), process)
        process.kill()
        process.communicate()
        seen.append(steps_in(out))
    assert seen == sorted(seen)
    assert 200 < seen[-1] < 400
    finish(*PRIMATES, "--out", str(out), *SLOW_STEPS, *OFTEN, "--quiet", "--resume")
    assert_same_results(undisturbed, out)
    # One that is killed at once has not come to write its own down.
    assert 3 <= len(json.loads((out / "provenance.json").read_text())["sessions"]) <= 4
    assert len(list((out / "checkpoints").iterdir())) == 2
    assert not list(out.rglob("*.unfinished"))


@pytest.mark.parametrize("request_to_stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_stop_ends_a_run_with_a_checkpoint(start, request_to_stop, undisturbed, tmp_path, capsys):
    out = tmp_path / "run"
    process = start(*PRIMATES, "--out", str(out), *SLOW_STEPS, "--plain")
    wait_until(lambda: reports_in(out) > 2, process)
    process.send_signal(request_to_stop)
    _, err = process.communicate()
    assert process.returncode == 130
    assert 4 < steps_in(out) < 400
    assert_says(err.splitlines()[-1], f"phloem: … step {steps_in(out)}. … : phloem infer primates --out {out} --resume")
    assert "Traceback" not in err
    if request_to_stop == signal.SIGINT:  # once is enough
        going_on = f" step {steps_in(out)} of 400"
        finish("--out", str(out), "--resume")
        assert going_on in capsys.readouterr().err
        assert_same_results(undisturbed, out)


def test_a_run_that_is_stopped_before_its_first_step_says_how_to_start_again(start, tmp_path):
    out = tmp_path / "run"
    process = start(*PRIMATES, "--out", str(out), *SLOW_STEPS)
    wait_until(lambda: (out / ".lock").exists(), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    if (out / "config.toml").exists():
        assert_says(err.splitlines()[-1], f"phloem: … : phloem infer primates --out {out} --resume")
    else:  # its settings would be lost
        assert_says(err.splitlines()[-1], f"phloem: … {out} ")
        assert "--resume" not in err
        assert not out.exists()


def test_several_runs_stop_together_and_each_goes_on(start, undisturbed, tmp_path):
    """The first of them is the run with the same seed alone; the second has the next seed."""
    out = tmp_path / "runs"
    process = start(*PRIMATES, "--out", str(out), *SLOW_STEPS, "--runs", "2", "--threads", "2")
    children = out / "run-1", out / "run-2"
    wait_until(lambda: all(reports_in(child) > 2 for child in children), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert f"--out {out} --resume" in err.splitlines()[-1]
    assert 0 < steps_in(children[0]) < 400
    finish("--out", str(out), "--resume")
    for name in SAME_FILES:
        assert (children[0] / name).read_bytes() == (undisturbed / name).read_bytes(), name
    assert json.loads((children[1] / "summary.json").read_text())["seed"] == 4
    summary = json.loads((out / "summary.json").read_text())
    assert summary["runs"] == 2
    assert len(summary["agreement"]["log_marginal_likelihoods"]) == 2


def test_runs_whose_parent_is_killed_save_themselves_and_end(start, tmp_path):
    out = tmp_path / "runs"
    process = start(*PRIMATES, "--out", str(out), *SLOW_STEPS, "--runs", "2", "--threads", "2")
    child = out / "run-1"
    wait_until(lambda: reports_in(child) > 2, process)
    process.kill()
    process.communicate()
    wait_until(lambda: steps_in(child) >= 1)
    for run in (child, out / "run-2"):
        with claimed(infer_run(run), resume=True, patience=LIMIT):  # no one is at work there any more
            pass


def test_two_runs_cannot_share_a_directory(start, tmp_path, capsys):
    out = tmp_path / "run"
    first = start(*PRIMATES, "--out", str(out), "--runs", "1", "--branches", "gcn")
    wait_until(lambda: steps_in(out) >= 0, first)
    for option in ("--resume", "--force"):
        assert main.run(["infer", *PRIMATES, "--out", str(out), option]) == 2
        assert_says(complaint(capsys), f"{out}: … another run … --out")
    first.kill()
    first.communicate()
    assert steps_in(out) >= 0


@pytest.fixture
def small_disk(tmp_path):
    """A file system of eight megabytes, where the tests may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user may not mount file systems")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no space on a small file system."""
    filler = folder / "filler"
    with filler.open("wb") as stream:
        for size in (4096, 1):
            try:
                while True:
                    os.write(stream.fileno(), b"x" * size)
            except OSError:
                pass
    return filler


def fill_while_training(process: subprocess.Popen, folder: Path) -> Path:
    """Fill the disk under a run, and wait until it says so."""
    wait_until(lambda: steps_in(folder / "run") >= 10, process)
    filler = fill(folder)
    told = next(line for line in process.stderr if "No space left on device" in line)
    assert_says(told, "checkpoint … step ")
    return filler


def test_a_full_disk_is_told_of_and_training_goes_on_until_there_is_space_again(start, small_disk, undisturbed):
    out = small_disk / "run"
    process = start(*PRIMATES, "--out", str(out), *SLOW_STEPS, *OFTEN, "--plain")
    filler = fill_while_training(process, small_disk)
    stuck = steps_in(out)
    filler.unlink()
    wait_until(lambda: steps_in(out) > stuck, process)
    assert process.wait() == 0, process.stderr.read()
    assert_same_results(undisturbed, out)


def test_a_run_that_is_stopped_on_a_full_disk_goes_on_from_its_last_checkpoint(start, small_disk, undisturbed, capsys):
    out = small_disk / "run"
    process = start(*PRIMATES, "--out", str(out), *SLOW_STEPS, *OFTEN, "--plain")
    filler = fill_while_training(process, small_disk)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 130
    assert f" step {steps_in(out)}." in err.splitlines()[-1]
    filler = fill(small_disk)  # what the run had begun to write has left some space
    assert main.run(["infer", "--out", str(out), "--resume", "--quiet"]) == 2
    assert "No space left on device" in complaint(capsys)
    filler.unlink()
    finish("--out", str(out), "--resume")
    assert_same_results(undisturbed, out)


def test_a_directory_that_vanishes_ends_the_run_with_a_line(start, tmp_path):
    out = tmp_path / "run"
    process = start(*PRIMATES, "--out", str(out), *SLOW_STEPS, *OFTEN, "--quiet")
    wait_until(lambda: steps_in(out) >= 5, process)
    out.rename(tmp_path / "elsewhere")
    _, err = process.communicate()
    assert process.returncode == 2
    assert_says(err, f"phloem: {out}: … gone")
    assert err.count("\n") == 1
    assert not out.exists()


@pytest.mark.slow
def test_a_read_only_directory_is_a_line(small_disk, capsys):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for out in (small_disk, small_disk / "run"):
        assert main.run(["infer", *PRIMATES, "--out", str(out)]) == 2
        assert_says(complaint(capsys), f"{out}: … Read-only file system")
