"""A search that can be interrupted at any time."""

from collections.abc import Callable
from threading import Event

from phloem.config.search import SearchConfig
from phloem.data.alignment import Alignment
from phloem.search.embedded import search_trees
from phloem.search.jobs import run_jobs
from phloem.search.records import SearchProgress, SearchResult


def find_likelihood_tree(
    alignment: Alignment, config: SearchConfig, *, progress: Callable[[SearchProgress], None] | None = None
) -> SearchResult:
    """Search in a thread of its own: an interruption ends it, and no thread is busy afterwards.

    `progress` is called from the calling thread.
    """
    tell = progress or (lambda _news: None)
    found: list[SearchResult] = []

    def work(_job: int, stop: Event, report: Callable[[SearchProgress], None]) -> SearchResult:
        return search_trees(alignment, config, stop=stop, report=report)

    run_jobs([0], 1, work, heard=lambda _job, news: tell(news), ended=lambda _job, result: found.append(result))
    return found[0]
