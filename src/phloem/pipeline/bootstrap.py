"""Alignment → files of bootstrap trees."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from phloem.config import BootstrapConfig
from phloem.data.reading import read_alignment
from phloem.interrupts import stoppable
from phloem.search.bootstrap import BootstrapProgress as BootstrapProgress
from phloem.search.bootstrap import bootstrap_files


@dataclass(frozen=True, slots=True)
class BootstrapRun:
    """What is in the directory now."""

    directory: Path
    files: tuple[Path, ...]
    taxa: int
    count: int  # trees a replicate
    found: int  # replicates that were there already
    method: str
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
    with stoppable():
        made = bootstrap_files(alignment, directory, config, progress=progress)
    return BootstrapRun(
        directory=directory,
        files=made.files,
        taxa=len(alignment.taxa),
        count=config.count,
        found=made.found,
        method=made.method,
        program=", ".join(made.programs),
        seconds=time.monotonic() - start,
    )
