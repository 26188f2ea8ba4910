"""Bootstrap trees and the maximum-likelihood tree by phloem's own search."""

from collections.abc import Callable
from threading import Event

from phloem.config.search import SearchConfig
from phloem.data.alignment import Alignment
from phloem.search.records import SearchProgress, SearchResult


def search_trees(
    alignment: Alignment,
    config: SearchConfig,
    *,
    stop: Event | None = None,
    report: Callable[[SearchProgress], None] | None = None,
) -> SearchResult:
    """Search, and resample. `stop`, once set, ends the search early with `Stopped`."""
    raise NotImplementedError
