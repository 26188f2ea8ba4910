"""Alignment → files of bootstrap trees."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from phloem.config import BootstrapConfig
from phloem.data.reading import read_alignment
from phloem.search.bootstrap import BootstrapProgress as BootstrapProgress
from phloem.search.bootstrap import bootstrap
from phloem.search.replicates import ReplicateDirectory


@dataclass(frozen=True, slots=True)
class BootstrapRun:
    """What is in the directory now."""

    directory: Path
    files: tuple[Path, ...]
    taxa: int
    count: int  # trees a replicate
    found: int  # replicates that were there already
    program: str
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The same with paths as text."""
        return asdict(self) | {"directory": str(self.directory), "files": [str(path) for path in self.files]}


def run_bootstrap(
    source: str | Path,
    directory: Path,
    config: BootstrapConfig,
    *,
    progress: Callable[[BootstrapProgress], None] | None = None,
) -> BootstrapRun:
    """Make the replicates that are missing in `directory`."""
    start = time.monotonic()
    alignment = read_alignment(source)
    numbers = range(1, config.replicates + 1)
    found = sum(map(ReplicateDirectory(directory, alignment, config).is_whole, numbers))
    files = bootstrap(alignment, directory, config, progress=progress)
    replicates = ReplicateDirectory(directory, alignment, config)
    return BootstrapRun(
        directory=directory,
        files=tuple(files),
        taxa=len(alignment.taxa),
        count=config.count,
        found=found,
        program=", ".join(sorted({replicates.program(number) for number in numbers})),
        seconds=time.monotonic() - start,
    )
