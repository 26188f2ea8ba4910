"""A run's checkpoints: what one holds, the folder they are in, when one is saved, and what happens if that fails."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from phloem.arrays import AnyArray
from phloem.config.settings import Schema
from phloem.errors import BadArgument, DiskFull, FileProblem
from phloem.interrupts import held
from phloem.runs.history import History
from phloem.storage.arrays import (
    OtherFormat,
    OtherKind,
    Sealed,
    making_sense,
    prefixed,
    read_sealed,
    without_prefix,
    write_sealed,
)
from phloem.storage.files import cannot_read, cannot_write, refuse_links

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

KEPT = 2  # the newest and the one before it
FILE_NAME = re.compile(r"step-\d+\.safetensors")
RETRY_SECONDS = 10.0
PATIENCE_SECONDS = 600.0  # at the end of training, when there is nothing else left to do
UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}

Config = TypeVar("Config", bound="DataclassInstance")
Inputs = TypeVar("Inputs")
Written = TypeVar("Written")


@dataclass(frozen=True, slots=True)
class RunKind(Generic[Config, Inputs]):
    """The runs of one command: their settings, their reports, and which files they have besides checkpoints."""

    schema: Schema[Config]
    report: type[Any]  # a named tuple: a row of the history
    pack: Callable[[Inputs], Sealed]  # what a run is made from, as arrays and texts
    unpack: Callable[[Sealed, Config, Path], Inputs]
    results: tuple[str, ...]  # those that are missing are made again from the last checkpoint
    exports: tuple[str, ...] = ()  # made from the results, for other programs
    beginnings: tuple[str, ...] = ()  # what may be in a directory before a run begins there
    several: bool = False  # whether a directory can hold several runs, below it
    layout: str = "1"  # of checkpoint files

    @property
    def name(self) -> str:
        """The words of the command after `phloem`."""
        return self.schema.command


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint(Generic[Config, Inputs]):
    """A run at the end of a step: all that it needs to resume."""

    config: Config
    inputs: Inputs  # what the run is made from, such as an alignment and a support
    training: dict[str, AnyArray]
    history: History[Any]

    @property
    def step(self) -> int:
        return int(self.training["counters"][0])


def write_checkpoint(kind: RunKind[Config, Inputs], checkpoint: Checkpoint[Config, Inputs], path: Path) -> None:
    """Write a checkpoint; a reader finds all of it or nothing."""
    write_sealed(path, *pack_checkpoint(kind, checkpoint), kind=kind.name, layout=kind.layout)


def pack_checkpoint(kind: RunKind[Config, Inputs], checkpoint: Checkpoint[Config, Inputs]) -> Sealed:
    """A checkpoint as arrays and texts, for a file or for another process."""
    arrays, texts = kind.pack(checkpoint.inputs)
    arrays = {
        **arrays,
        **prefixed("training", checkpoint.training),
        **prefixed("history", checkpoint.history.as_arrays()),
    }
    return Sealed(arrays, {**texts, "config": kind.schema.to_toml(checkpoint.config)})


def read_checkpoint(kind: RunKind[Config, Inputs], path: Path) -> Checkpoint[Config, Inputs]:
    """The checkpoint in a file; an error that says what is wrong with any other file."""
    found = read_sealed(path, kind=kind.name, layout=kind.layout)
    with making_sense(path):
        return unpack_checkpoint(kind, found, path)


def unpack_checkpoint(kind: RunKind[Config, Inputs], found: Sealed, path: Path) -> Checkpoint[Config, Inputs]:
    """The checkpoint. path: whence it comes, for messages."""
    config = kind.schema.read_record(found.texts["config"], str(path))
    return Checkpoint(
        config,
        kind.unpack(found, config, path),
        without_prefix("training", found.arrays),
        History.from_arrays(kind.report, without_prefix("history", found.arrays)),
    )


class CheckpointFolder(Generic[Config, Inputs]):
    """The last two checkpoints of a run, each named after its step."""

    def __init__(self, path: Path, kind: RunKind[Config, Inputs]) -> None:
        self.path = path
        self._kind = kind

    def add(self, checkpoint: Checkpoint[Config, Inputs]) -> None:
        """Write one, then remove those that are too old."""
        name = f"step-{checkpoint.step:09}.safetensors"
        refuse_links(self.path.parent, [self.path.name])  # which may have been made during the run
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as problem:
            raise cannot_write(self.path, problem) from None
        write_checkpoint(self._kind, checkpoint, self.path / name)
        older = [path for path in checkpoint_files(self.path) if path.name < name]
        # Later ones are damaged, or this run would have resumed from them.
        later = [path for path in checkpoint_files(self.path) if path.name > name]
        for path in [*older[KEPT - 1 :], *later]:
            with suppress(OSError):
                path.unlink()

    def clear(self) -> None:
        """Remove all checkpoints."""
        for path in checkpoint_files(self.path):
            path.unlink()

    def newest(self) -> tuple[Checkpoint[Config, Inputs] | None, list[str]]:
        """The whole checkpoint with the most steps, and what is wrong with the others.

        Steps are taken from what files hold, not from their names, which may have been swapped.
        """
        found: list[Checkpoint[Config, Inputs]] = []
        problems: list[str] = []
        for path in checkpoint_files(self.path):
            try:
                found.append(read_checkpoint(self._kind, path))
            except (OtherFormat, OtherKind):
                raise
            except FileProblem as problem:
                problems.append(str(problem))
        return max(found, key=lambda checkpoint: checkpoint.step, default=None), problems

    def newest_step(self) -> int | None:
        """The step that the newest file is named after."""
        return next((int(path.stem.removeprefix("step-")) for path in checkpoint_files(self.path)), None)


def checkpoint_files(folder: Path) -> list[Path]:
    """All checkpoints in a folder by their names, the newest first."""
    try:
        return sorted((path for path in folder.iterdir() if FILE_NAME.fullmatch(path.name)), reverse=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        raise cannot_read(folder, problem) from None


class CheckpointInterval(NamedTuple):
    """How often a run is saved: one of the two is None."""

    seconds: float | None = 120.0
    steps: int | None = None


def parse_interval(text: str) -> CheckpointInterval:
    """`90`, `90s`, `5m` or `1h` of time, or `1000steps`."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d+)?)\s*(s|m|min|h|steps?)?", text.strip())
    if found:
        number, unit = float(found[1]), found[2] or ""
        if not unit.startswith("step"):
            return CheckpointInterval(number * UNITS[unit], None)
        if number >= 1 and number == int(number):
            return CheckpointInterval(None, int(number))
    raise BadArgument(f"--checkpoint-every {text}: give seconds, such as 90s, 5m or 1h, or steps, such as 1000steps.")


class Saveable(Protocol):
    """A training that counts its steps and can give its state."""

    steps_done: int

    def state(self) -> dict[str, AnyArray]: ...


class Saver(Generic[Config, Inputs]):
    """Decides when a run is saved. A full disk must not end a training: the user is told, and it is tried again."""

    def __init__(
        self,
        folder: CheckpointFolder[Config, Inputs],
        checkpoint: Checkpoint[Config, Inputs],
        training: Saveable,
        interval: CheckpointInterval,
        notice: Callable[[str], None],
    ) -> None:
        """checkpoint: the last one. Its history is the one that training extends, so only the state is taken anew."""
        self._folder = folder
        self._checkpoint = checkpoint
        self._training = training
        self._interval = interval
        self._notice = notice
        self._due = self._next_due()
        self._retry_at = 0.0
        self._problem: FileProblem | None = None
        self.saved_step = training.steps_done
        self._saved_reports = len(checkpoint.history.reports)

    def after_step(self) -> None:
        """Save if it is time."""
        now = time.monotonic()
        step = self._training.steps_done
        steps = self._interval.steps
        is_due = now >= self._due if steps is None else step - self.saved_step >= steps
        if is_due and now >= self._retry_at:
            self.save_if_possible()

    @contextmanager
    def saving_the_end(self) -> Iterator[None]:
        """Around a training: save where it stops, because it is done or because it was told to."""
        began = self._training.steps_done
        try:
            yield
        except KeyboardInterrupt:
            # The first step of a session may have been left half-way. Before it nothing had changed.
            if self._training.steps_done > began + 1:
                with held():
                    self.save_if_possible("the steps after it are lost")
            raise
        if self._training.steps_done > self.saved_step or len(self._checkpoint.history.reports) > self._saved_reports:
            self.save_patiently()

    def save(self) -> None:
        """Write a checkpoint of the training as it is."""
        self._folder.add(replace(self._checkpoint, training=self._training.state()))
        self.saved_step = self._training.steps_done
        self._saved_reports = len(self._checkpoint.history.reports)
        self._due = self._next_due()

    def save_if_possible(self, meanwhile: str = "training continues") -> bool:
        """Save; if that fails, as on a full disk, say so once and try again after a while."""
        try:
            self.save()
        except FileProblem as problem:
            if not (run := self._folder.path.parent).is_dir():
                raise FileProblem(f"{run}: the run directory is gone. Start the run again.") from None
            if not self._retry_at:
                self._notice(f"{problem} The last checkpoint is of step {self.saved_step:,}; {meanwhile}.")
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._problem = problem
            return False
        if self._retry_at:
            self._notice(f"the run is saved again, at step {self.saved_step:,}")
            self._retry_at = 0.0
        return True

    def save_patiently(self) -> None:
        """Save, and wait while the disk is full: nothing else is left to do, and there is much to lose."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not self.save_if_possible("waiting for space"):
            if not isinstance(self._problem, DiskFull) or time.monotonic() + RETRY_SECONDS > give_up:
                self.save()  # which raises, unless something has just changed
                return
            time.sleep(RETRY_SECONDS)

    def _next_due(self) -> float:
        return time.monotonic() + (self._interval.seconds or 0.0)


def write_patiently(write: Callable[[], Written], notice: Callable[[str], None]) -> Written:
    """Write results; while the disk is full, wait and try again: they may have taken as long as the training."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    is_told = False
    while True:
        try:
            return write()
        except DiskFull as problem:
            if time.monotonic() + RETRY_SECONDS > give_up:
                raise
            if not is_told:
                notice(f"{problem} The results wait for space.")
                is_told = True
            time.sleep(RETRY_SECONDS)
