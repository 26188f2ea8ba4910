"""The directory of a run: its owner, its lock, its files, where they came from, and what earlier sessions left.

A directory holds one run, or several below it in directories `run-1`, `run-2`, … of the same kind.
"""

import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic

from filelock import FileLock, Timeout

from phloem.config.settings import command_of
from phloem.errors import BadArgument, FileProblem
from phloem.runs.checkpoints import FILE_NAME as CHECKPOINT_NAME
from phloem.runs.checkpoints import Checkpoint, CheckpointFolder, Config, Inputs, RunKind, checkpoint_files
from phloem.runs.checksums import CHECKSUMS, Checksums
from phloem.storage.arrays import FIRST_KIND, sealed_kind
from phloem.storage.files import (
    cannot_read,
    cannot_write,
    check_can_write,
    read_bytes,
    refuse_links,
    remove_leftovers,
    write_text,
)

CONFIG = "config.toml"
PROVENANCE = "provenance.json"
HISTORY = "history.csv"
SUMMARY = "summary.json"
CHECKPOINTS = "checkpoints"
TENSORBOARD = "tensorboard"
LOCK = ".lock"
RUN_NAME = re.compile(r"run-([1-9]\d{0,2})")
PACKAGES = ("phloem", "numpy", "torch", "numba", "safetensors")


class RunDirectory(Generic[Config, Inputs]):
    """A directory that holds a run of one command, or several runs in directories below it."""

    def __init__(self, path: Path, kind: RunKind[Config, Inputs]) -> None:
        self.path = path
        self.kind = kind
        self.checkpoints = CheckpointFolder(path / CHECKPOINTS, kind)
        self.tensorboard = path / TENSORBOARD
        self.checksums = Checksums(path, "Make it again with --resume.")

    @property
    def needed(self) -> tuple[str, ...]:
        """The files of a finished run that cannot be made from other files."""
        return CONFIG, PROVENANCE, HISTORY, *self.kind.results, SUMMARY

    def child(self, number: int) -> "RunDirectory[Config, Inputs]":
        """The directory of one of several runs, counted from 1."""
        return RunDirectory(self.path / f"run-{number}", self.kind)

    def children(self) -> "list[RunDirectory[Config, Inputs]]":
        """The directories of several runs, up to the last that exists: one before it may have been lost."""
        if not self.kind.several:  # what is below is somebody's own
            return []
        numbers = [number for number in run_folders(self.path).values() if self.child(number)._has_begun()]
        return [self.child(number) for number in range(1, max(numbers, default=0) + 1)]

    def runs(self) -> "list[RunDirectory[Config, Inputs]]":
        """The several runs, or the one that is here."""
        return self.children() or [self]

    def holds_run(self) -> bool:
        """Whether a run of this command, or one of several, has begun here."""
        return self._has_begun() or bool(self.children())

    def _has_begun(self) -> bool:
        """Other programs have files of such names too, so it takes a trace of this command."""
        owners = set(find_traces(self.path, expected=self.kind.name).values())
        return self.kind.name in owners or owners == {None}

    def check_holds_run(self) -> None:
        """Raise unless a run of this command has begun here; if one of another has, say which."""
        if not self.holds_run():
            self.refuse_others()
            raise FileProblem(f"{self.path}: holds no phloem run. Check the path.")

    def refuse_others(self) -> None:
        """Raise if a run of another command is here, or where one of several runs would be."""
        for folder in (self.path, *run_folders(self.path)):
            traces = find_traces(folder, expected=self.kind.name)
            for file, owner in traces.items():
                if owner not in (self.kind.name, None):
                    what = f"{file}: is of a run" if self.kind.name in traces.values() else f"{folder}: is a run"
                    raise FileProblem(
                        f"{what} of `phloem {owner}`, not of `phloem {self.kind.name}`. Name another directory."
                    )

    def newest_checkpoint(self, notice: Callable[[str], None]) -> Checkpoint[Config, Inputs] | None:
        """What the run can resume from, if anything; the user gets a notice of damaged checkpoints."""
        found, problems = self.checkpoints.newest()
        if found is None:
            if problems:
                raise BadArgument(f"{problems[0]} No other checkpoint of the run is whole. Start again with --force.")
            return None
        for problem in problems:
            notice(f"{problem} That of step {found.step:,} is whole.")
        return found

    def saved_steps(self) -> tuple[int, ...]:
        """The steps that stopped runs resume from, one for each; 0 for a run that has not taken any."""
        with suppress(FileProblem):
            found = [run.checkpoints.newest()[0] for run in self.runs()]
            return tuple(0 if checkpoint is None else checkpoint.step for checkpoint in found)
        return ()

    def is_in_use(self) -> bool:
        """Whether a process is at work here."""
        if not (self.path / LOCK).exists():
            return False
        try:
            with FileLock(self.path / LOCK, timeout=0):
                return False
        except Timeout:
            return True
        except OSError:  # a directory that we may not write to: nothing is known
            return False

    def how_to_finish(self) -> str:
        """What to do about a run that is not finished, in a sentence."""
        if self.is_in_use():
            return "Another process is at work on it: wait for it."
        return f"Resume it: phloem {self.kind.name} --resume."

    def make(self) -> None:
        """Create the directory, if it does not exist yet."""
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as problem:
            raise cannot_write(self.path, problem) from None

    def refuse_links(self) -> None:
        """Raise if anything that a run writes or removes here, or below, is a link to somewhere else."""
        folders = [folder.name for folder in run_folders(self.path)] if self.kind.several else []
        files = (*self.needed, *self.kind.exports, CHECKSUMS, LOCK)
        refuse_links(self.path, (*files, CHECKPOINTS, TENSORBOARD, *self.kind.beginnings, *folders))
        refuse_links(self.checkpoints.path, (path.name for path in checkpoint_files(self.checkpoints.path)))
        for name in folders:
            RunDirectory(self.path / name, self.kind).refuse_links()

    def clear(self) -> None:
        """Remove a run, and nothing that is not phloem's or belongs to another command."""
        self.refuse_others()
        self.refuse_links()
        try:
            for name in (*self.needed, *self.kind.exports, CHECKSUMS):
                (self.path / name).unlink(missing_ok=True)
            self.checkpoints.clear()
            for path in self.tensorboard.glob("events.out.tfevents.*"):
                path.unlink()
            for folder in (self.checkpoints.path, self.tensorboard):
                with suppress(OSError):  # it holds somebody else's files
                    folder.rmdir()
            for child in self.children():
                child.clear()
                (child.path / LOCK).unlink(missing_ok=True)
                with suppress(OSError):
                    child.path.rmdir()
        except OSError as problem:
            raise cannot_write(self.path, problem) from None

    def has_results(self) -> bool:
        """Whether all results are as they were written. Others can be made again from the last checkpoint."""
        return self.checksums.problem(self.needed) is None

    def has_exports(self) -> bool:
        """Whether the files for other programs exist. Their users may have changed them, as FigTree does."""
        return all((self.path / name).exists() for name in self.kind.exports)

    def seal_exports(self) -> None:
        """List the files for other programs as they are now."""
        self.checksums.add(self.kind.exports)

    def notice_changes(self, notice: Callable[[str], None]) -> None:
        """Tell the user of files that were damaged or edited, here and below. A resumed run makes results again."""
        for run in (self, *self.children()):
            for name in run.checksums.changed():
                is_export = name in self.kind.exports
                what = "It is left as it is: delete it to have it made again." if is_export else "It is made again."
                notice(f"{run.path / name}: is damaged, or was changed after phloem wrote it. {what}")

    def read_config(self) -> Config | None:
        """The settings in `config.toml`; None if it does not exist or was changed: checkpoints have them too."""
        path = self.path / CONFIG
        if not path.exists() or CONFIG in self.checksums.changed():
            return None
        return self.kind.schema.read_record(read_bytes(path).decode(errors="replace"), str(path))

    def record(self, config: Config, inputs: Mapping[str, Any], *, seed: int, command: str) -> None:
        """Write down what the run is: where it comes from, with a line for this session, then its settings.

        Only `provenance.json` has the time of day: settings and results do not depend on it.

        inputs: what the run is made from, by name, among them `trees`, a list; what is empty stays as it was.
        """
        before = {} if PROVENANCE in self.checksums.changed() else read_provenance(self.path / PROVENANCE)
        began = datetime.now(UTC).isoformat(timespec="seconds")
        self.write_json(
            PROVENANCE,
            {
                "kind": self.kind.name,
                **{name: given or before.get(name, given) for name, given in inputs.items()},
                "seed": seed,
                "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
                "system": platform.platform(),
                "sessions": [*before.get("sessions", ()), {"began": began, "command": command}],
            },
        )
        self.write(CONFIG, self.kind.schema.to_toml(config))
        self.checksums.add((CONFIG, PROVENANCE))

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write the summary of new results, and the checksums of all, last: where they are, all else is.

        Exports of earlier results are removed first: they must not seem current.
        """
        try:
            for name in self.kind.exports:
                (self.path / name).unlink(missing_ok=True)
        except OSError as problem:
            raise cannot_write(self.path, problem) from None
        self.write_json(SUMMARY, summary)
        self.checksums.add(self.needed)

    def refuse_overwriting(self, path: Path) -> None:
        """Raise if a file to be written is one that the run, or one of several, needs."""
        target = path.resolve()
        home = self.path.resolve()
        if target.parent == home and target.name in (*self.needed, CHECKSUMS):
            raise BadArgument(f"{path}: is a file of the run itself. Name another one.")
        if target.parent == home / CHECKPOINTS:
            raise BadArgument(f"{path}: is where the run keeps its checkpoints. Name another file.")
        if path.parent.resolve().is_relative_to(home):
            refuse_links(path.parent, [path.name])
        for child in self.children():
            child.refuse_overwriting(path)

    def write(self, name: str, content: str) -> None:
        """Write a text file, whole or not at all."""
        write_text(self.path / name, content)

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file for people and programs."""
        self.write(name, json.dumps(content, indent=2) + "\n")


@contextmanager
def claimed(
    directory: RunDirectory[Config, Inputs], *, resume: bool = False, force: bool = False, patience: float = 0.0
) -> Iterator[RunDirectory[Config, Inputs]]:
    """A run directory that no one else can use meanwhile: a new one, or one whose run is resumed or replaced.

    patience: seconds to wait for another run in it. A new directory in which nothing was written is removed.
    """
    path = directory.path
    if resume and force:
        raise BadArgument("--resume and --force: a run is either resumed or replaced. Give one of them.")
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        if not missing and not path.is_dir():
            raise FileProblem(f"{path}: is not a directory. Name a new or an empty one for --out.")
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        raise cannot_write(path, problem) from None
    directory.refuse_links()
    had_lock = (path / LOCK).exists()
    lock = FileLock(path / LOCK, timeout=patience)
    try:
        lock.acquire()
    except Timeout:
        raise FileProblem(f"{path}: is in use by another run. Wait for it, or name another --out.") from None
    except OSError as problem:
        raise cannot_write(path, problem) from None
    try:
        _check_usable(directory, resume, force)
        yield directory
    finally:
        if not had_lock and not directory.holds_run():
            with suppress(OSError):
                (path / LOCK).unlink()
        for folder in missing:  # created for a run that did not begin, innermost first
            with suppress(OSError):
                folder.rmdir()
        lock.release()


def _check_usable(directory: RunDirectory[Any, Any], resume: bool, force: bool) -> None:
    path, kind = directory.path, directory.kind
    directory.refuse_others()
    check_can_write(path / CONFIG)
    if directory.holds_run():
        remove_leftovers(path, re.compile("|".join(map(re.escape, (*directory.needed, *kind.exports, CHECKSUMS)))))
        remove_leftovers(directory.checkpoints.path, CHECKPOINT_NAME)
        if not resume and not force:
            raise FileProblem(
                f"{path}: holds a run. Resume it (--resume), replace it (--force), or name another --out."
            )
        return
    try:
        others = sorted(entry.name for entry in path.iterdir() if entry.name not in (LOCK, *kind.beginnings))
    except OSError as problem:
        raise cannot_write(path, problem) from None
    if others:
        raise FileProblem(f"{path}: holds {others[0]} and no run. Name a new or an empty directory for --out.")


@dataclass(frozen=True, slots=True)
class SavedRuns(Generic[Config, Inputs]):
    """What earlier sessions left in a directory: settings, and the newest checkpoint of each run, if any."""

    directory: RunDirectory[Config, Inputs]
    config: Config | None = None
    checkpoints: tuple[Checkpoint[Config, Inputs] | None, ...] = ()
    several: bool = False  # whether the runs have directories of their own
    trees: tuple[str, ...] = ()  # that were given when the run began

    @classmethod
    def find(
        cls, directory: RunDirectory[Config, Inputs], notice: Callable[[str], None]
    ) -> "SavedRuns[Config, Inputs]":
        """Read the settings and checkpoints in a directory; the user gets a notice of damaged files."""
        directory.notice_changes(notice)
        children = directory.children()
        checkpoints = tuple(run.newest_checkpoint(notice) for run in directory.runs())
        config: Any = directory.read_config()
        if config is None and checkpoints[0] is not None:
            config = checkpoints[0].config
            config = replace(config, runs=len(children)) if children else config
        trees = read_provenance(directory.path / PROVENANCE).get("trees", ())
        return cls(directory, config, checkpoints, several=bool(children), trees=tuple(map(str, trees)))

    @property
    def first(self) -> Checkpoint[Config, Inputs] | None:
        """Any checkpoint: all have the same inputs."""
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint is not None), None)

    def check_config(self, config: Config, of_each_run: Sequence[Config]) -> None:
        """Raise unless every checkpoint has these settings. of_each_run: those of the several runs, or of the one."""
        if self.first is None:
            return
        saved = [None if checkpoint is None else checkpoint.config for checkpoint in self.checkpoints]
        pairs = [(self.config, config), *zip(saved, of_each_run, strict=False)]
        schema = self.directory.kind.schema
        different = [line for one, two in pairs if one is not None for line in schema.differences(one, two)]
        if self.several != (len(of_each_run) > 1) or len(self.checkpoints) > len(of_each_run):
            different = [f"runs is {len(self.checkpoints)}, not {len(of_each_run)}"]
        if different:
            raise FileProblem(
                f"{self.directory.path}: is a run with other settings: {different[0]}. Leave the settings out to "
                "resume with its own, or start again with --force."
            )


def find_traces(path: Path, *, expected: str) -> dict[Path, str | None]:
    """The files that show a run, each with the words after `phloem` of the command that it belongs to.

    Settings, provenance and checkpoints each say it, as others may be lost. None for a checkpoint that is too damaged
    to say. expected: what they are likely to say, which is quicker.
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
    """Folders that are named like those of several runs, with their numbers."""
    names = {folder: RUN_NAME.fullmatch(folder.name) for folder in sorted(path.glob("run-*"))}
    return {folder: int(name[1]) for folder, name in names.items() if name}


def read_provenance(path: Path) -> dict[str, Any]:
    """What `provenance.json` says; nothing if phloem did not write it, which is not an error: it is for the records."""
    try:
        found = json.loads(path.read_bytes())
        known = isinstance(found["sessions"], list) and isinstance(found["trees"], list) and found["versions"]["phloem"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(found) if known else {}


def describe_file(path: Path) -> dict[str, str]:
    """A file that a run is made from: its name, and a hash of its content."""
    try:
        with path.open("rb") as stream:
            return {"source": str(path), "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}
    except (OSError, ValueError) as problem:
        raise cannot_read(path, problem) from None
