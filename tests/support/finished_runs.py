"""Runs that several tests look at, and none may change: fixtures, in use everywhere, made once for all workers."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

import phloem
from phloem.display.events import News
from phloem.runs.driver import Interrupted

# Enough for draws of which no single one has all the weight, but no perfect fit: then there would be little to tell.
SETTINGS = {
    "preset": "quick",
    "model": {"name": "JC"},
    "branches": "split",
    "family": "lognormal",
    "training": {"steps": 4000, "refit": 0.0},
    "evaluation": {"repeats": 5, "samples": 200, "anneal": 0, "chains": 0},
}


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory) -> Path:
    """A run on the primates."""
    return made_once(tmp_path_factory, "finished", lambda out: infer(out, runs=1))


@pytest.fixture(scope="session")
def finished_runs(tmp_path_factory) -> Path:
    """Two runs on the primates."""
    return made_once(tmp_path_factory, "several", lambda out: infer(out, runs=2))


@pytest.fixture(scope="session")
def inferred_run(tmp_path_factory) -> Path:
    """Two runs on the primates that inferred kappa, frequencies and the shape of gamma rates."""
    settings = {"model": {"name": "HKY+G4"}, "family": "warped", "training": {"steps": 2000, "refit": 0.0}}
    return made_once(tmp_path_factory, "inferred", lambda out: infer(out, runs=2, **settings))


@pytest.fixture(scope="session")
def other_way_round(finished_runs, tmp_path_factory) -> Path:
    """The same runs, the second one first."""
    path = tmp_path_factory.mktemp("swapped") / "run"
    shutil.copytree(finished_runs, path)
    (path / "summary.json").unlink()
    (path / "run-1").rename(path / "first")
    (path / "run-2").rename(path / "run-1")
    (path / "first").rename(path / "run-2")
    return path


@pytest.fixture(scope="session")
def unfinished_run(tmp_path_factory) -> Path:
    """A run that was stopped after 1,000 of 4,000 steps."""

    def stop(event):
        if isinstance(event, News) and event.report and event.report.step == 1000:
            signal.raise_signal(signal.SIGINT)

    def make(out: Path) -> None:
        with pytest.raises(Interrupted):
            infer(out, runs=1, progress=stop)

    return made_once(tmp_path_factory, "unfinished", make)


def infer(out: Path, *, runs: int, progress=False, **settings) -> None:
    phloem.infer("primates", "primates", runs=runs, out=out, progress=progress, **SETTINGS | settings)


def made_once(tmp_path_factory, name: str, make: Callable[[Path], None]) -> Path:
    """A run directory that the first worker makes that needs it, while the others wait for it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each worker has a folder of its own in that of the session
        shared = shared.parent
    folder, whole = shared / name, shared / f"{name}-is-whole"
    with FileLock(shared / f"{name}.lock"):
        if not whole.exists():
            shutil.rmtree(folder, ignore_errors=True)  # what a worker has left that failed
            make(folder / "run")
            whole.touch()
    return folder / "run"
