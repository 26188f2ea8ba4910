"""Runs of a command that does not exist, `phloem count up`: the least that can be saved and gone on with."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phloem.config.settings import heading
from phloem.runs.checkpoints import CheckpointFolder
from phloem.runs.directory import OwnedDirectory, RunKind, write_provenance
from phloem.storage.arrays import making_sense, read_sealed, write_sealed

KIND = "count up"
COUNT = RunKind(KIND, ("provenance.json", "history.csv", "total.txt", "summary.json"))


@dataclass
class Counting:
    """A training that adds one a step."""

    steps_done: int = 0

    def step(self) -> None:
        self.steps_done += 1


@dataclass(frozen=True)
class Count:
    """A checkpoint."""

    step: int
    unit: str = "sheep"


class CountReport(NamedTuple):
    """A line of its history."""

    step: int
    seconds: float
    total: float

    @classmethod
    def from_row(cls, row):
        step, seconds, total = row
        return cls(int(step), float(seconds), float(total))


def write_count(checkpoint: Count, path: Path) -> None:
    write_sealed(path, {"step": np.array([checkpoint.step])}, {"unit": checkpoint.unit}, kind=KIND, layout="5")


def read_count(path: Path) -> Count:
    arrays, texts = read_sealed(path, kind=KIND, layout="5")
    with making_sense(path):
        return Count(int(arrays["step"][0]), texts["unit"])


def count_folder(path: Path) -> CheckpointFolder[Count]:
    return CheckpointFolder(path, read_count, write_count)


def count_directory(path: Path) -> OwnedDirectory[Count]:
    return OwnedDirectory(path, COUNT, count_folder(path / "checkpoints"))


def counted(path: Path) -> OwnedDirectory[Count]:
    """A finished run."""
    path.mkdir(parents=True)
    run = count_directory(path)
    write_provenance(run, {"trees": []}, seed=1, command="phloem count up")
    run.write("config.toml", heading(KIND))
    for name in ("history.csv", "total.txt", "summary.json"):
        run.write(name, "")
    for step in (1, 2):
        run.checkpoints.add(Count(step))
    return run
