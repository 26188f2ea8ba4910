"""The directory of a run of `phloem infer`: who may use it, and the files in it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from phloem.config import HEADING
from phloem.errors import BadArgument, FileProblem
from phloem.files import cannot_write, check_can_write, remove_leftovers, write_text
from phloem.inference.checkpoints import FILE_NAME as CHECKPOINT_NAME
from phloem.inference.checkpoints import CheckpointFolder
from phloem.pipeline.provenance_file import read_provenance

LOCK = ".lock"
CONFIG = "config.toml"
CHECKPOINTS = "checkpoints"
BOOTSTRAP = "bootstrap"
TENSORBOARD = "tensorboard"
RUN_NAME = re.compile(r"run-([1-9]\d{0,2})")
PROVENANCE = "provenance.json"
DRAWS = "draws.safetensors"
RESULTS = (
    PROVENANCE,
    "support.npz",
    "history.csv",
    "parameters.safetensors",
    "topologies.csv",
    "clades.csv",
    "summary.json",
    DRAWS,
)
EXPORTS = ("posterior.nex", "posterior.log", "consensus.nex", "report.html")  # made of the results, for other programs
OWN_RESULTS = re.compile("|".join(map(re.escape, (CONFIG, *RESULTS))))
OWN_FILES = re.compile("|".join(map(re.escape, (CONFIG, *RESULTS, *EXPORTS))))


class RunDirectory:
    """A directory that holds one run, or several in directories of their own below it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = CheckpointFolder(path / CHECKPOINTS)
        self.bootstrap = path / BOOTSTRAP
        self.tensorboard = path / TENSORBOARD

    def child(self, number: int) -> "RunDirectory":
        """The directory of one of several runs, counted from 1."""
        return RunDirectory(self.path / f"run-{number}")

    def children(self) -> list["RunDirectory"]:
        """The directories of several runs, up to the last that is there: one before it may have been lost."""
        names = [RUN_NAME.fullmatch(path.name) for path in self.path.glob("run-*")]
        numbers = [number for name in names if name and self.child(number := int(name[1]))._has_begun()]
        return [self.child(number) for number in range(1, max(numbers, default=0) + 1)]

    def holds_run(self) -> bool:
        """Whether a run of phloem's has begun here: other programs have files of such names too."""
        return self._has_begun() or bool(self.children())

    def _has_begun(self) -> bool:
        try:
            config = (self.path / CONFIG).read_bytes()
        except OSError:
            config = b""
        provenance = read_provenance(self.path / PROVENANCE)
        return bool(config.startswith(HEADING.encode()) or provenance or self.checkpoints.newest_step() is not None)

    def make(self) -> None:
        """Make the directory, if it is not there yet."""
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as problem:
            raise cannot_write(self.path, problem) from None

    def clear(self) -> None:
        """Remove a run, and nothing that is not phloem's. Bootstrap trees stay: they know what they are of."""
        try:
            for child in self.children():
                child.clear()
                (child.path / LOCK).unlink(missing_ok=True)
                with suppress(OSError):  # somebody else's files are in it
                    child.path.rmdir()
            for name in (CONFIG, *RESULTS, *EXPORTS):
                (self.path / name).unlink(missing_ok=True)
            self.checkpoints.clear()
            for path in self.tensorboard.glob("events.out.tfevents.*"):
                path.unlink()
            for folder in (self.checkpoints.path, self.tensorboard):
                with suppress(OSError):
                    folder.rmdir()
        except OSError as problem:
            raise cannot_write(self.path, problem) from None

    def has_results(self) -> bool:
        """Whether all results are there. What is missing can be made again from the last checkpoint."""
        return all((self.path / name).exists() for name in (CONFIG, *RESULTS))

    def has_exports(self) -> bool:
        """Whether the files for other programs are there."""
        return all((self.path / name).exists() for name in EXPORTS)

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write the summary of new results. What was exported from others goes first, so that it never seems theirs."""
        try:
            for name in EXPORTS:
                (self.path / name).unlink(missing_ok=True)
        except OSError as problem:
            raise cannot_write(self.path, problem) from None
        self.write_json("summary.json", summary)

    def refuse_overwriting(self, path: Path) -> None:
        """Raise if a file to be written is one that the run needs."""
        target = path.resolve()
        homes = [self.path.resolve(), *(child.path.resolve() for child in self.children())]
        if target.parent in homes and OWN_RESULTS.fullmatch(target.name):
            raise BadArgument(f"{path}: is a file of the run itself. Name another one.")
        if any(home / CHECKPOINTS == target.parent for home in homes):
            raise BadArgument(f"{path}: is where the run keeps its checkpoints. Name another file.")

    def write(self, name: str, content: str) -> None:
        """Write a text file, whole or not at all."""
        write_text(self.path / name, content)

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file for people and programs."""
        self.write(name, json.dumps(content, indent=2) + "\n")


@contextmanager
def claimed(path: Path, *, resume: bool = False, force: bool = False, patience: float = 0.0) -> Iterator[RunDirectory]:
    """A run directory that no one else can use meanwhile: a new one, or one whose run is to go on or to be replaced.

    patience: seconds to wait for another run in it. Nothing is left of a new directory in which nothing was written.
    """
    if resume and force:
        raise BadArgument("--resume and --force: go on with the run that is there, or replace it. Give one of them.")
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        if not missing and not path.is_dir():
            raise FileProblem(f"{path}: is not a directory. Name a new or an empty one for --out.")
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        raise cannot_write(path, problem) from None
    had_lock = (path / LOCK).exists()
    lock = FileLock(path / LOCK, timeout=patience)
    try:
        lock.acquire()
    except Timeout:
        raise FileProblem(f"{path}: another run is at work in it. Wait for it, or name another --out.") from None
    except OSError as problem:
        raise cannot_write(path, problem) from None
    directory = RunDirectory(path)
    try:
        _check_usable(directory, resume, force)
        yield directory
    finally:
        if not had_lock and not directory.holds_run():
            with suppress(OSError):
                (path / LOCK).unlink()
        for folder in missing:  # what was made for a run that did not begin, innermost first
            with suppress(OSError):
                folder.rmdir()
        lock.release()


def _check_usable(directory: RunDirectory, resume: bool, force: bool) -> None:
    path = directory.path
    check_can_write(path / CONFIG)
    if directory.holds_run():
        remove_leftovers(path, OWN_FILES)
        remove_leftovers(directory.checkpoints.path, CHECKPOINT_NAME)
        if not resume and not force:
            raise FileProblem(
                f"{path}: holds a run. Go on with it (--resume), replace it (--force), or name another --out."
            )
        return
    try:
        others = sorted(entry.name for entry in path.iterdir() if entry.name not in (LOCK, BOOTSTRAP))
    except OSError as problem:
        raise cannot_write(path, problem) from None
    if others:
        raise FileProblem(f"{path}: is not empty (it holds {others[0]}) and no run. Name another directory for --out.")
