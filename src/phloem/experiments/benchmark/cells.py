"""A cell of the benchmark: an ordinary run of `phloem infer`, its settings, where it is, and how far it is.

cells/lognormal-standard/DS1-edge-1/    the run: data set, variant, seed
cells/lognormal-standard/DS1-edge-1.json    its sessions: how long each took, and how it ended
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from phloem.config import InferConfig
from phloem.config.infer import FAMILIES, INFER, PRESETS
from phloem.config.settings import parse_value
from phloem.errors import BadArgument, ConfigError, FileProblem, PhloemError, quoted
from phloem.experiments.benchmark.published import VARIANTS
from phloem.runs.directory import CONFIG, HISTORY
from phloem.storage.files import read_bytes, write_text
from phloem.tasks.run_files import InferRun, infer_run

FOLDER: Final = "cells"
SETUP: Final = re.compile(rf"({'|'.join(FAMILIES)})-({'|'.join(PRESETS)})(?:-(.+))?")
CELL: Final = re.compile(rf"([A-Za-z0-9]+)-({'|'.join(VARIANTS)})-(\d+)")
PLAIN: Final = re.compile(r"[A-Za-z0-9_.+-]+")  # what may be in the name of a directory
# What may differ from the preset: how a posterior is fitted. Its model and prior are the benchmark's.
SECTIONS: Final = ("training", "evaluation", "support")
# The published method: Jukes-Cantor, a support of bootstrap trees, and bounds of Q itself, without Markov chains.
FIXED: Final[Mapping[str, Any]] = {
    "model.name": "JC",
    "branch_prior": "exponential",
    "prior_rate": 10.0,
    "support.closure": "none",
    "support.explore": 0,
    "evaluation.anneal": 0,
    "evaluation.chains": 0,
}


class Setup(NamedTuple):
    """How all cells of a table are trained: family, preset, and the settings that differ from it, by key."""

    family: str = "lognormal"
    preset: str = "standard"
    changes: tuple[tuple[str, str], ...] = ()  # as they are written

    @property
    def name(self) -> str:
        """Of the directory."""
        plain = f"{self.family}-{self.preset}"
        return f"{plain}-{','.join('='.join(change) for change in self.changes)}" if self.changes else plain

    @classmethod
    def from_name(cls, name: str) -> "Setup | None":
        """What a directory's name says; None if it is no setup's."""
        found = SETUP.fullmatch(name)
        if found is None:
            return None
        pairs = [part.partition("=") for part in (found[3] or "").split(",") if part]
        return cls(found[1], found[2], tuple((key, value) for key, _, value in pairs))


def parse_changes(assignments: Sequence[str], steps: int | None) -> tuple[tuple[str, str], ...]:
    """`KEY=VALUE`, of the settings that may differ between tables."""
    changes: dict[str, str] = {}
    for text in (*assignments, *(() if steps is None else (f"training.steps={steps}",))):
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise ConfigError(f"--set {quoted(text)}: give KEY=VALUE, such as training.refit=0.")
        [(key, _)] = INFER.flatten({key: parse_value(value)}, "--set").items()
        if key in FIXED or key.partition(".")[0] not in SECTIONS:
            raise ConfigError(f"--set {key}: is the same in the whole benchmark, or has an option of its own.")
        if not PLAIN.fullmatch(value):
            raise ConfigError(f"--set {quoted(text)}: give a plain number or word.")
        changes[key] = value
    return tuple(sorted(changes.items()))


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A data set with a variant and a seed, trained as the setup says."""

    setup: Setup
    dataset: str
    variant: str
    seed: int

    @property
    def name(self) -> str:
        """Short, unique within its setup."""
        return f"{self.dataset}-{self.variant}-{self.seed}"

    def as_json(self) -> dict[str, Any]:
        """What it is, at the beginning of its row in any table of results."""
        setup = self.setup
        return {
            "dataset": self.dataset,
            "variant": self.variant,
            "seed": self.seed,
            "family": setup.family,
            "preset": setup.preset,
            "changes": dict(setup.changes),
        }

    def directory(self, out: Path) -> Path:
        """Of its run."""
        return out / FOLDER / self.setup.name / self.name

    def sessions_path(self, out: Path) -> Path:
        """Where its sessions are kept."""
        return out / FOLDER / self.setup.name / f"{self.name}.json"

    def run(self, out: Path) -> InferRun:
        """The run's directory."""
        return infer_run(self.directory(out))

    def settings(self) -> dict[str, Any]:
        """What differs from the preset, by key."""
        changes = {key: parse_value(value) for key, value in self.setup.changes}
        return {**FIXED, "branches": self.variant, "family": self.setup.family, "seed": self.seed, **changes}

    def config(self) -> InferConfig:
        """All of its settings."""
        return INFER.resolve(preset=self.setup.preset, settings=[self.settings()])

    def arguments(self, out: Path, alignment: Path, trees: Path) -> list[str]:
        """The command that makes it, or resumes it, without the program's name."""
        own = {key: value for key, value in self.settings().items() if key not in ("model.name", "branches", "family")}
        return [
            *("infer", str(alignment), "--trees", str(trees), "--out", str(self.directory(out)), "--resume"),
            *("--preset", self.setup.preset, "--family", self.setup.family, "--branches", self.variant),
            *("--model", str(FIXED["model.name"])),
            *(part for key, value in own.items() for part in ("--set", f"{key}={value}")),
            *("--threads", "1", "--quiet"),
        ]

    def problem(self, out: Path) -> str:
        """What keeps the run that is there from being this cell; empty if nothing does."""
        try:
            path = self.directory(out) / CONFIG
            if not path.exists():
                return ""
            config = INFER.read_record(read_bytes(path).decode(errors="replace"), str(path))
            different = INFER.differences(config, self.config())
        except PhloemError as problem:
            return str(problem)
        if not different:
            return ""
        return f"{path.parent}: is a run with other settings: {different[0]}. Name another --out, or delete it."

    def steps_done(self, out: Path) -> int:
        """As its history says, whose last line is its last report."""
        with suppress(OSError, ValueError, IndexError):
            last = (self.directory(out) / HISTORY).read_text().strip().splitlines()[-1]
            return int(last.partition(",")[0])
        return 0


def cells_in(out: Path) -> Iterator[Cell]:
    """The cells that were begun in an experiment's directory."""
    for folder in sorted((out / FOLDER).glob("*")):
        setup = Setup.from_name(folder.name)
        if setup is None:
            continue
        # A cell that failed at once has sessions and no run.
        names = {path.name.removesuffix(".json") for path in folder.iterdir()}
        for found in filter(None, map(CELL.fullmatch, sorted(names))):
            yield Cell(setup, found[1], found[2], int(found[3]))


class Sessions(NamedTuple):
    """How long the processes of a cell took together, and how the last one ended."""

    seconds: float = 0.0
    processor_seconds: float | None = 0.0  # None where the system did not say
    outcome: str = ""  # finished, stopped or failed; empty if there was none
    problem: str = ""
    processor: str = ""  # of the last machine

    @classmethod
    def read(cls, path: Path) -> "Sessions":
        """From the file of a cell; nothing where it is missing, as it is for the records."""
        rows = read_sessions(path)
        if not rows:
            return cls()
        used = [row["processor_seconds"] for row in rows]
        return cls(
            sum(row["seconds"] for row in rows),
            None if None in used else sum(used),
            rows[-1]["outcome"],
            rows[-1]["problem"],
            rows[-1]["processor"],
        )


def read_sessions(path: Path) -> list[dict[str, Any]]:
    """The sessions, oldest first."""
    try:
        rows = json.loads(read_bytes(path))["sessions"]
        return [
            {
                "began": str(row["began"]),
                "seconds": float(row["seconds"]),
                "processor_seconds": None if row["processor_seconds"] is None else float(row["processor_seconds"]),
                "outcome": str(row["outcome"]),
                "problem": str(row["problem"]),
                "processor": str(row["processor"]),
            }
            for row in rows
        ]
    except (FileProblem, ValueError, KeyError, TypeError):
        return []


def add_session(path: Path, row: dict[str, Any]) -> None:
    """Write down one more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({"sessions": [*read_sessions(path), row]}, indent=2) + "\n")


def check_names(option: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Each one known, and given once."""
    for name in names:
        if name not in known:
            raise BadArgument(f"{option} {quoted(name)}: choose from {', '.join(known)}.")
    if len(set(names)) < max(1, len(names)):
        raise BadArgument(f"{option}: give each once, and at least one.")
