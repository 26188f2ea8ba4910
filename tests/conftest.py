"""What all tests share: the real data where it is at hand, and programs that CI must have."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from phloem.search.programs import IQTREE, MRBAYES, Program

# Kernels compile inside the first example, so no example has a deadline; CI draws the same examples each time.
settings.register_profile("phloem", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("phloem"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "phloem")

# Products here are small: more threads gain nothing, and wait for each other where the cores are busy.
torch.set_num_threads(1)


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


def path_of(program: Program) -> str:
    """An external program: CI must have it, others may do without."""
    found = program.find()
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{program.title} is not installed")
    return found.path
