"""Bootstrap trees and maximum-likelihood trees: from files to files, or in a script."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from phloem.config import BootstrapConfig
from phloem.config.search import SearchConfig
from phloem.data.alignment import Alignment
from phloem.data.patterns import AlignmentSummary, summarize
from phloem.data.reading import read_alignment
from phloem.errors import BadArgument
from phloem.interrupts import held, stoppable
from phloem.search.bootstrap import BootstrapProgress as BootstrapProgress
from phloem.search.bootstrap import ShareDone as ShareDone
from phloem.search.bootstrap import bootstrap_files, bootstrap_samples
from phloem.search.embedded import find_likelihood_tree
from phloem.search.jobs import SearchProgress as SearchProgress
from phloem.search.jobs import SearchResult
from phloem.storage.files import check_can_write
from phloem.trees.sample import TreeSample
from phloem.trees.writing import format_supported, is_nexus_name, write_supported, write_trees


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
    long_names: bool = False,
    progress: Callable[[BootstrapProgress], None] | None = None,
) -> BootstrapRun:
    """Make the replicates that are missing in `directory`."""
    start = time.monotonic()
    alignment = read_alignment(source, long_names=long_names)
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


@dataclass(frozen=True, slots=True)
class SearchFiles:
    """Where the best tree goes, and where bootstrap trees and the best trees of all go if they are wanted."""

    tree: Path
    bootstrap_trees: Path | None = None
    best_trees: Path | None = None

    def check(self) -> None:
        """Raise for files that cannot be written, and for one that would be written twice."""
        named = [path for path in (self.tree, self.bootstrap_trees, self.best_trees) if path]
        for path in named:
            is_nexus_name(path)
            check_can_write(path)
        if len({path.resolve() for path in named}) < len(named):
            raise BadArgument(f"{named[0]}: one file cannot hold several results. Name another for each.")


@dataclass(frozen=True, slots=True)
class SearchRun:
    """What was found, and where it is."""

    alignment: AlignmentSummary
    config: SearchConfig
    found: SearchResult
    files: SearchFiles
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """All but the trees of the bootstrap."""
        found, files = self.found, self.files
        return {
            "alignment": self.alignment._asdict(),
            "log_likelihood": found.log_likelihood,
            "model": found.model.describe(),
            "newick": format_supported(found.tree),
            "bootstrap_count": len(found.bootstrap),
            "best_count": len(found.best),
            "climbs": found.climbs,
            "correlation": found.correlation if math.isfinite(found.correlation) else None,
            "is_stable": found.is_stable,
            "tree": str(files.tree),
            "bootstrap_trees": str(files.bootstrap_trees) if files.bootstrap_trees else None,
            "best_trees": str(files.best_trees) if files.best_trees else None,
            "seconds": self.seconds,
        }


def run_search(
    source: str | Path,
    files: SearchFiles,
    config: SearchConfig,
    *,
    long_names: bool = False,
    progress: Callable[[SearchProgress], None] | None = None,
) -> SearchRun:
    """Search, and write all files or, if it is interrupted, none."""
    start = time.monotonic()
    if bool(config.keep) != bool(files.best_trees):
        raise BadArgument("--keep says how many of the best trees go to --best-trees FILE: give both or neither.")
    alignment = read_alignment(source, long_names=long_names)
    files.check()
    with stoppable():
        found = find_likelihood_tree(alignment, config, progress=progress)
        with held():
            write_supported(found.tree, files.tree)
            if files.bootstrap_trees:
                write_trees(found.bootstrap, files.bootstrap_trees)
            if files.best_trees:
                write_trees(found.best, files.best_trees)
    return SearchRun(summarize(alignment), config, found, files, time.monotonic() - start)


def bootstrap(
    alignment: str | Path | Alignment,
    *,
    count: int = 1000,
    replicates: int = 10,
    seed: int = 1,
    model: str = "JC",
    method: str = "auto",
    keep: int = 0,
    within: float = 10.0,
    threads: int | None = None,
    long_names: bool = False,
    progress: Callable[[BootstrapProgress], None] | None = None,
) -> list[TreeSample]:
    """Bootstrap trees of an alignment (a file, a bundled example's name, or an `Alignment`), one sample a replicate.

    method: `iqtree`, `embedded`, or `auto`, which is IQ-TREE where it is installed. model: in IQ-TREE's words. keep,
    within: as many of the best trees of an embedded search, no more log-likelihood units below the very best, come
    after its bootstrap trees. The same seed gives the same trees. `bootstrap_files` keeps them in files as they come.
    """
    config = BootstrapConfig(
        count=count,
        replicates=replicates,
        seed=seed,
        model=model,
        method=method,
        keep=keep,
        within=within,
        threads=threads,
    )
    return bootstrap_samples(_read(alignment, long_names), config, progress=progress)


def maximum_likelihood_tree(
    alignment: str | Path | Alignment,
    *,
    count: int = 1000,
    model: str = "JC",
    seed: int = 1,
    keep: int = 0,
    within: float = 10.0,
    threads: int | None = None,
    long_names: bool = False,
    progress: Callable[[SearchProgress], None] | None = None,
) -> SearchResult:
    """The maximum-likelihood tree of an alignment (a file, a bundled example's name, or an `Alignment`).

    Its `tree` has lengths and, from `count` bootstrap trees, supports. model: JC, K80, F81, HKY, TN93, SYM or GTR,
    alone or with +I and +G4; its parameters are estimated. keep, within: how many of the best trees to give besides,
    and how many log-likelihood units below the very best they may be. The same seed gives the same result.
    """
    config = SearchConfig(count=count, model=model, seed=seed, keep=keep, within=within, threads=threads)
    return find_likelihood_tree(_read(alignment, long_names), config, progress=progress)


def _read(alignment: str | Path | Alignment, long_names: bool) -> Alignment:
    return alignment if isinstance(alignment, Alignment) else read_alignment(alignment, long_names=long_names)
