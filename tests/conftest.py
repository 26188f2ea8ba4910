"""What all tests share: the real data where it is at hand, and programs that CI must have."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from phloem.search.iqtree import IQTREE, MRBAYES, Program
from phloem.threads import available_threads
from support.finished_runs import finished_run as finished_run
from support.finished_runs import finished_runs as finished_runs
from support.finished_runs import inferred_run as inferred_run
from support.finished_runs import other_way_round as other_way_round
from support.finished_runs import unfinished_run as unfinished_run

# Kernels compile inside the first example, so no example has a deadline; CI draws the same examples each time.
settings.register_profile("phloem", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("phloem"), derandomize=True, max_examples=50)
settings.register_profile("quick", parent=settings.get_profile("ci"), max_examples=10)
settings.load_profile("quick" if os.environ.get("PHLOEM_QUICK") else "ci" if os.environ.get("CI") else "phloem")

# Products here are small: more threads gain nothing, and wait for each other where the cores are busy.
torch.set_num_threads(1)

# A worker takes a gigabyte, and makes what the tests of a file share if any of these comes to it.
MOST_WORKERS = 4


# What is slow to make or to start, so that tests which use it are slow as well.
SLOW_FIXTURES = {"finished_run", "finished_runs", "inferred_run", "other_way_round", "unfinished_run"}
SLOW_FIXTURES |= {"finished", "together", "undisturbed", "start"}  # of single files: runs, and processes that run
SLOW_FIXTURES |= {"iqtree", "mrbayes", "rscript_ape", "chromium"}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what `make quick` leaves out."""
    if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
        item.add_marker("slow")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many workers `--numprocesses auto` means: as many as there are cores that we may use, within limits."""
    return min(available_threads(), MOST_WORKERS)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of benchmark data, which is not part of phloem."""
    folder = os.environ.get("PHLOEM_DATA")
    if not folder:
        pytest.skip("PHLOEM_DATA is not set: it names the folder of benchmark data")
    return Path(folder)


@pytest.fixture(scope="session")
def iqtree() -> str:
    return path_of(IQTREE)


@pytest.fixture(scope="session")
def mrbayes() -> str:
    return path_of(MRBAYES)


@pytest.fixture(scope="session")
def rscript_ape() -> str:
    """R with the package ape."""
    path = shutil.which("Rscript")
    if path is None or subprocess.run([path, "-e", "library(ape)"], capture_output=True).returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("R's package ape is not installed")
    return path


@pytest.fixture(scope="session")
def chromium() -> str:
    """A browser that can open what we write."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Chromium is not installed")
    return found


def path_of(program: Program) -> str:
    """An external program: CI must have it, others may do without."""
    found = program.find()
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{program.title} is not installed")
    return found.path


@pytest.fixture(scope="session")
def snakemake() -> list[str]:
    """The workflow engine, with which users run many jobs on many machines."""
    if importlib.util.find_spec("snakemake") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Snakemake is not installed")
    return [sys.executable, "-m", "snakemake"]
