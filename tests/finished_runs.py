"""Runs that several tests look at, and none may change: fixtures, in use everywhere."""

import signal
from pathlib import Path

import pytest

import phloem
from phloem.display.news import News
from phloem.pipeline.infer import Interrupted

# Enough for draws of which no single one has all the weight.
SETTINGS = {
    "preset": "quick",
    "branches": "split",
    "training": {"steps": 4000},
    "evaluation": {"repeats": 5, "samples": 200},
}


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory) -> Path:
    """A run on the primates."""
    out = tmp_path_factory.mktemp("finished") / "run"
    phloem.infer("primates", "primates", runs=1, out=out, progress=False, **SETTINGS)
    return out


@pytest.fixture(scope="session")
def finished_runs(tmp_path_factory) -> Path:
    """Two runs on the primates."""
    out = tmp_path_factory.mktemp("several") / "run"
    phloem.infer("primates", "primates", runs=2, out=out, progress=False, **SETTINGS)
    return out


@pytest.fixture(scope="session")
def unfinished_run(tmp_path_factory) -> Path:
    """A run that was stopped after 1,000 of 4,000 steps."""

    def stop(event):
        if isinstance(event, News) and event.report and event.report.step == 1000:
            signal.raise_signal(signal.SIGINT)

    out = tmp_path_factory.mktemp("unfinished") / "run"
    with pytest.raises(Interrupted):
        phloem.infer("primates", "primates", runs=1, out=out, progress=stop, **SETTINGS)
    return out
