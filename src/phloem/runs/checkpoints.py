"""A run's checkpoints: the folder, when one is written, and what happens if that fails."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from phloem.errors import BadArgument, DiskFull, FileProblem
from phloem.interrupts import held
from phloem.storage.arrays import OtherFormat, OtherKind
from phloem.storage.files import cannot_read, cannot_write

KEPT = 2  # the newest and the one before it
FILE_NAME = re.compile(r"step-\d+\.safetensors")
RETRY_SECONDS = 10.0
PATIENCE_SECONDS = 600.0  # at the end of training, when there is nothing else left to do
UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


class AtStep(Protocol):
    """Something at the end of a step, all that a run needs to go on from there."""

    @property
    def step(self) -> int: ...


C = TypeVar("C", bound=AtStep)


class CheckpointFolder(Generic[C]):
    """The last two checkpoints of a run, each named after its step."""

    def __init__(self, path: Path, read: Callable[[Path], C], write: Callable[[C, Path], None]) -> None:
        self.path = path
        self._read = read
        self._write = write

    def add(self, checkpoint: C) -> None:
        """Write one, then remove those that are too old."""
        name = f"step-{checkpoint.step:09}.safetensors"
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as problem:
            raise cannot_write(self.path, problem) from None
        self._write(checkpoint, self.path / name)
        older = [path for path in checkpoint_files(self.path) if path.name < name]
        # These are damaged, or this run would have gone on from them.
        later = [path for path in checkpoint_files(self.path) if path.name > name]
        for path in [*older[KEPT - 1 :], *later]:
            with suppress(OSError):
                path.unlink()

    def clear(self) -> None:
        """Remove all checkpoints."""
        for path in checkpoint_files(self.path):
            path.unlink()

    def newest(self) -> tuple[C | None, list[str]]:
        """The checkpoint with the most steps that is whole, and what is wrong with the others.

        Files are known by what they hold: their names may have been swapped.
        """
        found: list[C] = []
        problems: list[str] = []
        for path in checkpoint_files(self.path):
            try:
                found.append(self._read(path))
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


class Steps(Protocol):
    """A training, which counts its steps."""

    steps_done: int


class Saver(Generic[C]):
    """Keeps a run's checkpoints up to date."""

    def __init__(
        self,
        folder: CheckpointFolder[C],
        training: Steps,
        capture: Callable[[], C],
        interval: CheckpointInterval,
        notice: Callable[[str], None],
    ) -> None:
        """training: as it was saved last. capture: makes a checkpoint of it as it is."""
        self._folder = folder
        self._training = training
        self._capture = capture
        self._interval = interval
        self._notice = notice
        self._due = self._next_due()
        self._retry_at = 0.0
        self._problem: FileProblem | None = None
        self.saved_step = training.steps_done

    def after_step(self) -> None:
        """Save if it is time."""
        now = time.monotonic()
        step = self._training.steps_done
        steps = self._interval.steps
        if (now >= self._due if steps is None else step - self.saved_step >= steps) and now >= self._retry_at:
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
        if self._training.steps_done > self.saved_step:
            self.save_patiently()

    def save(self) -> None:
        """Write a checkpoint of the training as it is."""
        self._folder.add(self._capture())
        self.saved_step = self._training.steps_done
        self._due = self._next_due()

    def save_if_possible(self, meanwhile: str = "training goes on") -> bool:
        """Save; a disk that is full is told of, once, and tried again after a while."""
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
            self._notice(f"the run could be saved again, at step {self.saved_step:,}")
            self._retry_at = 0.0
        return True

    def save_patiently(self) -> None:
        """Save, and wait for a disk that is full: nothing else is left to do and much to lose."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not self.save_if_possible("waiting for space"):
            if not isinstance(self._problem, DiskFull) or time.monotonic() + RETRY_SECONDS > give_up:
                self.save()
            time.sleep(RETRY_SECONDS)

    def _next_due(self) -> float:
        return time.monotonic() + (self._interval.seconds or 0.0)
