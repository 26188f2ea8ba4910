"""Thousands of damaged files of every kind: only PhloemErrors come out, never a crash, a hang or a traceback.

The kernels are compiled with bounds checking here, so that a read or write outside an array is an error instead of
luck; it runs in a process of its own, so that a hang or a crash is a failure of this test.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FILES = 300
pytestmark = pytest.mark.slow


def test_damaged_files_are_read_or_refused(tmp_path):
    tests = str(Path(__file__).parent)
    checked = os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), tests])),
    }
    seed = os.environ.get("PHLOEM_FUZZ_SEED", "1")
    run = subprocess.run(
        [sys.executable, "-m", "support.fuzz", "--seed", seed, "--count", str(FILES)],
        env=checked,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-4000:]}"
    counts = {
        name: (int(read), int(refused)) for name, read, refused in re.findall(r"(\w+): (\d+) read, (\d+) ", run.stdout)
    }
    assert set(counts) == {"alignment", "trees", "tables", "settings"}
    assert f"{FILES} cases" in run.stdout
    for read, refused in counts.values():  # some damage is harmless and most is not: neither says so by accident
        assert read > 0.01 * (read + refused)
        assert refused > 0.3 * (read + refused)
