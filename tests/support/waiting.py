"""Waiting for what another process or thread does: for a condition, not for a time that a busy machine exceeds."""

import subprocess
import time
from collections.abc import Callable

LIMIT = 300.0  # seconds; only a test that fails takes so long


def wait_until(true: Callable[[], bool], process: subprocess.Popen | None = None) -> None:
    """Return as soon as the condition holds; fail if the process ends before, or if nothing happens at all."""
    give_up = time.monotonic() + LIMIT
    while not true():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < give_up, "it has not happened"
        time.sleep(0.005)
