"""The folder of a run's checkpoints, whatever a checkpoint of that run is."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from phloem.errors import FileProblem
from phloem.files import cannot_read, cannot_write
from phloem.sealed_files import OtherFormat, OtherKind

KEPT = 2  # the newest and the one before it
FILE_NAME = re.compile(r"step-\d+\.safetensors")


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
