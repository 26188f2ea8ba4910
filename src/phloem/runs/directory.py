"""The directory of a run: who owns it, the lock, the files in it, and where they came from."""

import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from filelock import FileLock, Timeout

from phloem.config.settings import command_of
from phloem.errors import BadArgument, FileProblem
from phloem.runs.checkpoints import FILE_NAME as CHECKPOINT_NAME
from phloem.runs.checkpoints import C, CheckpointFolder, checkpoint_files
from phloem.storage.arrays import FIRST_KIND, sealed_kind
from phloem.storage.files import cannot_read, cannot_write, check_can_write, remove_leftovers, write_text

CONFIG = "config.toml"
PROVENANCE = "provenance.json"
CHECKPOINTS = "checkpoints"
RUN_NAME = re.compile(r"run-([1-9]\d{0,2})")
LOCK = ".lock"
PACKAGES = ("phloem", "numpy", "torch", "numba", "safetensors")


def read_provenance(path: Path) -> dict[str, Any]:
    """What the file says; nothing if it is none of phloem's, which is no reason to complain: it is for the records."""
    try:
        found = json.loads(path.read_bytes())
        known = isinstance(found["sessions"], list) and isinstance(found["trees"], list) and found["versions"]["phloem"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(found) if known else {}


def find_traces(path: Path, *, expected: str) -> dict[Path, str | None]:
    """The files by which a run is known, each with the words after `phloem` of the command that it is of.

    None for a checkpoint that is too damaged to say it. expected: what they are likely to say, which is quicker.
    """
    traces: dict[Path, str | None] = {}
    try:
        command = command_of((path / CONFIG).read_bytes().decode(errors="replace"))
    except OSError:
        command = None
    if command is not None:
        traces[path / CONFIG] = command
    provenance = read_provenance(path / PROVENANCE)
    if provenance:
        traces[path / PROVENANCE] = str(provenance.get("kind", FIRST_KIND))
    return traces | {file: sealed_kind(file, expected=expected) for file in checkpoint_files(path / CHECKPOINTS)}


def run_folders(path: Path) -> dict[Path, int]:
    """What is named as the directories of several runs are, with their numbers."""
    names = {folder: RUN_NAME.fullmatch(folder.name) for folder in sorted(path.glob("run-*"))}
    return {folder: int(name[1]) for folder, name in names.items() if name}


class RunKind(NamedTuple):
    """What the runs of a command are known by, and which files they have besides their settings and checkpoints."""

    name: str  # the words of the command after `phloem`
    results: tuple[str, ...]  # what is missing of them is made again from the last checkpoint
    exports: tuple[str, ...] = ()  # made of the results, for other programs
    beginnings: tuple[str, ...] = ()  # what may be in a directory before a run begins in it

    @property
    def needed(self) -> tuple[str, ...]:
        """The files of a finished run that are not made of others."""
        return CONFIG, *self.results


class OwnedDirectory(Generic[C]):
    """A directory that holds a run of one command."""

    def __init__(self, path: Path, kind: RunKind, checkpoints: CheckpointFolder[C]) -> None:
        self.path = path
        self.kind = kind
        self.checkpoints = checkpoints

    def holds_run(self) -> bool:
        """Whether a run of this command has begun here: other programs have files of such names too."""
        owners = set(find_traces(self.path, expected=self.kind.name).values())
        return self.kind.name in owners or owners == {None}

    def check_holds_run(self) -> None:
        """Raise unless a run of this command has begun here; if one of another has, say which."""
        if not self.holds_run():
            self.refuse_others()
            raise FileProblem(f"{self.path}: holds no run of phloem's. Check the path.")

    def refuse_others(self) -> None:
        """Raise if a run of another command is here, or in a directory below that one of several runs would have."""
        for folder in (self.path, *run_folders(self.path)):
            traces = find_traces(folder, expected=self.kind.name)
            for file, owner in traces.items():
                if owner not in (self.kind.name, None):
                    what = f"{file}: is of a run" if self.kind.name in traces.values() else f"{folder}: is a run"
                    raise FileProblem(
                        f"{what} of `phloem {owner}`, not of `phloem {self.kind.name}`. Name another directory."
                    )

    def newest_checkpoint(self, notice: Callable[[str], None]) -> C | None:
        """What the run is to go on from, if it has come so far; notice is told of damaged checkpoints."""
        found, problems = self.checkpoints.newest()
        if problems and found is None:
            raise BadArgument(f"{problems[0]} No other checkpoint of the run is whole. Start anew with --force.")
        for problem in problems:
            notice(f"{problem} Another one is whole.")
        return found

    def make(self) -> None:
        """Make the directory, if it is not there yet."""
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as problem:
            raise cannot_write(self.path, problem) from None

    def clear(self) -> None:
        """Remove a run, and nothing that is not phloem's or that is of another command."""
        self.refuse_others()
        try:
            for name in (*self.kind.needed, *self.kind.exports):
                (self.path / name).unlink(missing_ok=True)
            self.checkpoints.clear()
            with suppress(OSError):  # somebody else's files are in it
                self.checkpoints.path.rmdir()
        except OSError as problem:
            raise cannot_write(self.path, problem) from None

    def has_results(self) -> bool:
        """Whether all results are there. What is missing can be made again from the last checkpoint."""
        return all((self.path / name).exists() for name in self.kind.needed)

    def has_exports(self) -> bool:
        """Whether the files for other programs are there."""
        return all((self.path / name).exists() for name in self.kind.exports)

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write the summary of new results. What was exported from others goes first, so that it never seems theirs."""
        try:
            for name in self.kind.exports:
                (self.path / name).unlink(missing_ok=True)
        except OSError as problem:
            raise cannot_write(self.path, problem) from None
        self.write_json("summary.json", summary)

    def refuse_overwriting(self, path: Path) -> None:
        """Raise if a file to be written is one that the run needs."""
        target = path.resolve()
        home = self.path.resolve()
        if target.parent == home and target.name in self.kind.needed:
            raise BadArgument(f"{path}: is a file of the run itself. Name another one.")
        if target.parent == home / CHECKPOINTS:
            raise BadArgument(f"{path}: is where the run keeps its checkpoints. Name another file.")

    def write(self, name: str, content: str) -> None:
        """Write a text file, whole or not at all."""
        write_text(self.path / name, content)

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file for people and programs."""
        self.write(name, json.dumps(content, indent=2) + "\n")


D = TypeVar("D", bound=OwnedDirectory[Any])


@contextmanager
def claimed(directory: D, *, resume: bool = False, force: bool = False, patience: float = 0.0) -> Iterator[D]:
    """A run directory that no one else can use meanwhile: a new one, or one whose run is to go on or to be replaced.

    patience: seconds to wait for another run in it. Nothing is left of a new directory in which nothing was written.
    """
    path = directory.path
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


def _check_usable(directory: OwnedDirectory[Any], resume: bool, force: bool) -> None:
    path, kind = directory.path, directory.kind
    directory.refuse_others()
    check_can_write(path / CONFIG)
    if directory.holds_run():
        remove_leftovers(path, re.compile("|".join(map(re.escape, (*kind.needed, *kind.exports)))))
        remove_leftovers(directory.checkpoints.path, CHECKPOINT_NAME)
        if not resume and not force:
            raise FileProblem(
                f"{path}: holds a run. Go on with it (--resume), replace it (--force), or name another --out."
            )
        return
    try:
        others = sorted(entry.name for entry in path.iterdir() if entry.name not in (LOCK, *kind.beginnings))
    except OSError as problem:
        raise cannot_write(path, problem) from None
    if others:
        raise FileProblem(f"{path}: is not empty (it holds {others[0]}) and no run. Name another directory for --out.")


def write_provenance(run: OwnedDirectory[Any], inputs: Mapping[str, Any], *, seed: int, command: str) -> None:
    """Write it, with a line for each session that the run has had.

    inputs: what the run is made of, by name, among them `trees`, a list; what is empty is as earlier sessions had it.
    """
    before = read_provenance(run.path / PROVENANCE)
    sessions = [*before.get("sessions", ()), {"began": _now(), "command": command}]
    run.write_json(
        PROVENANCE,
        {
            "kind": run.kind.name,
            **{name: given or before.get(name, given) for name, given in inputs.items()},
            "seed": seed,
            "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
            "system": platform.platform(),
            "sessions": sessions,
        },
    )


def describe_file(path: Path) -> dict[str, str]:
    """A file that a run is made of: its name, and what it held."""
    try:
        with path.open("rb") as stream:
            return {"source": str(path), "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}
    except (OSError, ValueError) as problem:
        raise cannot_read(path, problem) from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
