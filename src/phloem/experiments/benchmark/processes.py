"""Many commands of phloem, several at a time, each in a process of its own; one that fails stops no other."""

import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

from phloem.errors import counted
from phloem.interrupts import held
from phloem.runs.several import INTERRUPTED, STOP_SECONDS

POLL_SECONDS: Final = 0.2


class Ended(NamedTuple):
    """How a process ended."""

    code: int  # negative for a signal
    seconds: float
    processor_seconds: float | None  # None where the system does not say
    complaint: str  # the last line that it said of problems
    output: str = ""  # what it printed

    @property
    def outcome(self) -> str:
        """In a word."""
        if self.code == 0:
            return "finished"
        return "stopped" if self.code in (INTERRUPTED, -signal.SIGTERM, -signal.SIGINT) else "failed"

    @property
    def problem(self) -> str:
        """What went wrong, in a line; nothing if nothing did."""
        if self.outcome != "failed":
            return ""
        if self.code < 0:
            return f"was killed (signal {-self.code})"
        return self.complaint or f"ended with exit code {self.code}"


class Process:
    """`phloem ARGUMENTS`, at work."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._start = time.monotonic()
        self._process = subprocess.Popen(
            # -P: a file of the user's called numpy.py must not be imported.
            [sys.executable, "-P", "-m", "phloem", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for us, who then tell the others
        )

    def ended(self) -> Ended | None:
        """How it ended; None if it has not."""
        used = None
        if hasattr(os, "wait4"):
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid == 0:
                return None
            self._process.returncode = os.waitstatus_to_exitcode(status)
            used = usage.ru_utime + usage.ru_stime
        elif self._process.poll() is None:
            return None
        seconds = time.monotonic() - self._start
        output, errors = _read(self._output), _read(self._errors)
        lines = errors.strip().splitlines()
        complaint = lines[-1].removeprefix("phloem: ") if lines else ""
        return Ended(self._process.returncode, seconds, used, complaint, output)

    def stop(self) -> None:
        """Ask it to end, which saves it. One that is suspended hears it when woken."""
        for name in ("SIGTERM", "SIGCONT"):
            if hasattr(signal, name):
                self._send(getattr(signal, name))

    def kill(self) -> None:
        """End it."""
        self._send(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, number)


def _read(stream: IO[bytes]) -> str:
    with stream:
        stream.seek(0)
        return stream.read().decode(errors="replace")


def run_processes(
    commands: Sequence[Sequence[str]],
    at_once: int,
    *,
    begun: Callable[[int], None],
    ended: Callable[[int, Ended], None],
    waiting: Callable[[list[int]], None],
) -> None:
    """Run all commands. If the user stops us, those at work are stopped, and told about like the others.

    begun, ended: called with the place of a command. waiting: now and then, with those that are at work.
    """
    left = list(range(len(commands)))
    at_work: dict[int, Process] = {}

    def collect() -> None:
        for place, process in list(at_work.items()):
            found = process.ended()
            if found is not None:
                with held():
                    del at_work[place]
                    ended(place, found)

    try:
        while left or at_work:
            while left and len(at_work) < at_once:
                place = left.pop(0)
                with held():  # a process that is not on the list would not be stopped
                    begun(place)
                    at_work[place] = Process(commands[place])
            time.sleep(POLL_SECONDS)
            collect()
            waiting(sorted(at_work))
    finally:
        for process in at_work.values():
            process.stop()
        give_up = time.monotonic() + STOP_SECONDS
        while at_work:
            if time.monotonic() > give_up:
                for process in at_work.values():
                    process.kill()
            time.sleep(POLL_SECONDS / 4)
            collect()


def processor_name() -> str:
    """What this machine's processor is called, and how many of its cores we may use."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        name = found[1].strip() if found else name
    return f"{name}, {counted(os.cpu_count() or 1, 'core')}"
