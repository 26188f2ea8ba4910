"""Ranks for tests: processes of one run, as a launcher starts them; and ranks that are all played by one process."""

import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from phloem.arrays import FloatArray
from phloem.runs.ranks import Ranks, Request, Result, Task
from phloem.runs.wires import LENGTH_BYTES, decode, encode
from support.waiting import LIMIT

AT_STEP = """
from phloem.inference.training import Training
take = Training.step
def step(training):
    if training.steps_done == {step}:
        {what}
    return take(training)
Training.step = step
"""


def at_step(step: int, what: str) -> str:
    """Code for a rank that does something before the step after that one. `training` is at hand."""
    return AT_STEP.format(step=step, what=what)


def free_port() -> int:
    """A port that nobody has, of those that connections do not get by themselves."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("", port))
            return port


def start_ranks(
    size: int, arguments: Sequence[str], cwd: Path, code: Mapping[int, str] | None = None
) -> list[subprocess.Popen]:
    """Processes of `phloem infer`. code: what some ranks do before they begin."""
    place = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    main = "\nfrom phloem.cli.main import main\nmain()"
    return [
        subprocess.Popen(
            [sys.executable, "-c", f"{(code or {}).get(rank, '')}{main}", "infer", *arguments],
            cwd=cwd,
            env={**os.environ, **place, "RANK": str(rank)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def end_of(ranks: Sequence[subprocess.Popen]) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each."""
    found = []
    try:
        for rank in ranks:
            output, errors = rank.communicate(timeout=LIMIT)
            found.append((rank.returncode, output, errors))
    finally:
        for rank in ranks:
            rank.kill()
    return found


class OneOfMany(Ranks):
    """One rank of a step of which it is known what all ranks gather, one after the other."""

    def __init__(self, rank: int, size: int, gathered: Sequence[FloatArray]) -> None:
        self.rank, self.size = rank, size
        self.known = iter(gathered)

    def gathered(self, own: FloatArray, count: int) -> FloatArray:
        first, end = self.share(count)
        everything = next(self.known)
        np.testing.assert_allclose(own, everything[first:end], rtol=1e-9)
        return everything


class AllOfMany(Ranks):
    """All ranks played by one process: requests and results are packed and unpacked as between several."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.parts = 0

    def each(
        self, task: Task[Request, Result], requests: Sequence[Request], work: Callable[[Request], Result]
    ) -> Iterator[Result]:
        for request in requests:
            self.parts += 1
            asked = decode(encode(task.name, task.pack_request(request))[LENGTH_BYTES:])
            result = work(task.unpack_request(asked.parcel))
            told = decode(encode("result", task.pack_result(result))[LENGTH_BYTES:])
            yield task.unpack_result(told.parcel)
