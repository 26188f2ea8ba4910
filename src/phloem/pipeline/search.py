"""Alignment → the maximum-likelihood tree with supports, in a file."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phloem.config.search import SearchConfig
from phloem.data.reading import read_alignment
from phloem.data.summary import AlignmentSummary, summarize
from phloem.errors import BadArgument
from phloem.files import check_can_write
from phloem.interrupts import held, stoppable
from phloem.search.likelihood_tree import find_likelihood_tree
from phloem.search.records import SearchProgress as SearchProgress
from phloem.search.records import SearchResult
from phloem.trees.supported import format_supported, write_supported
from phloem.trees.writing import is_nexus_name, write_trees


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
    progress: Callable[[SearchProgress], None] | None = None,
) -> SearchRun:
    """Search, and write all files or, if it is interrupted, none."""
    start = time.monotonic()
    if bool(config.keep) != bool(files.best_trees):
        raise BadArgument("--keep says how many of the best trees go to --best-trees FILE: give both or neither.")
    alignment = read_alignment(source)
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
