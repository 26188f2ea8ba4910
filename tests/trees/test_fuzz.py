"""Thousands of mutated tree files: only PhloemErrors come out, never a crash, a hang or a traceback.

The kernels are compiled with bounds checking here, so that a read or write outside an array is an error
instead of luck; it runs in a process of its own, so that a hang or a crash is a failure of this test.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

FILES = 6000


def test_mutated_files_are_read_or_refused(tmp_path):
    checked = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    script = Path(__file__).parents[1] / "support" / "fuzz_readers.py"
    seed = os.environ.get("PHLOEM_FUZZ_SEED", "1")
    run = subprocess.run(
        [sys.executable, str(script), seed, str(FILES), str(tmp_path)],
        env=checked,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    counts = re.fullmatch(r"(\d+) files, (\d+) of them read\n", run.stdout)
    assert counts is not None
    # Some mutations are harmless and most are not: neither number says so by accident.
    assert FILES * 0.02 < int(counts.group(2)) < FILES * 0.6
