"""Long jobs in threads, which no Ctrl-C ends half-way: what a search reports, what it finds, and when it must stop."""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice
from queue import SimpleQueue
from threading import Event
from typing import NamedTuple, TypeVar

import numpy as np

from phloem.arrays import FloatArray
from phloem.interrupts import held
from phloem.target.substitution import SubstitutionModel
from phloem.threads import single_threaded_products
from phloem.trees.consensus import SummaryTree
from phloem.trees.sample import TreeSample
from phloem.trees.splits import nontrivial_splits, split_frequencies
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree

REPORT_SECONDS = 0.1
News = TypeVar("News")
Result = TypeVar("Result")


class Stopped(Exception):
    """The search was told to stop before it was done."""


class SearchProgress(NamedTuple):
    """How far a search is, by its own estimate."""

    fraction: float  # below 1
    log_likelihood: float  # of the best tree so far
    climbs: int


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The best tree, under the model estimated on it, and the bootstrap trees."""

    topology: TopologyBatch  # one
    branch_lengths: FloatArray  # (2n-3,)
    log_likelihood: float
    model: SubstitutionModel
    bootstrap: TreeSample  # one tree a replicate, in order
    best: TreeSample  # the best trees of all, best first, as many as were asked for
    climbs: int
    correlation: float  # of the split supports after half of the climbs and after all
    is_stable: bool  # whether they agree well enough

    @property
    def tree(self) -> SummaryTree:
        """The best tree with its lengths, and for every branch the share of the bootstrap trees that have it."""
        frequencies = split_frequencies(self.bootstrap)
        share = {row.tobytes(): part for row, part in zip(frequencies.members, frequencies.frequencies, strict=True)}
        supports = [share.get(row.tobytes(), 0.0) for row in nontrivial_splits(self.topology)[0]]
        taxon_count = self.topology.taxon_count
        unknown = np.full(self.topology.node_count, np.nan)
        return SummaryTree(
            self.bootstrap.taxa,
            Tree(self.topology.parent[0], taxon_count),
            np.concatenate([np.ones(taxon_count), supports, [np.nan]]),
            np.append(self.branch_lengths, np.nan),
            unknown,
            unknown,
        )


class TimeLimit(Event):
    """An event that is set once another one is, or after some seconds."""

    def __init__(self, stop: Event, seconds: float) -> None:
        super().__init__()
        self._stop = stop
        self._deadline = time.monotonic() + seconds

    def is_set(self) -> bool:
        """Whether it is time to stop."""
        return self._stop.is_set() or self.is_over

    @property
    def is_over(self) -> bool:
        """Whether the seconds are."""
        return time.monotonic() > self._deadline


def run_jobs(
    jobs: Sequence[int],
    threads: int,
    work: Callable[[int, Event, Callable[[News], None]], Result],
    *,
    heard: Callable[[int, News], None],
    ended: Callable[[int, Result], None],
) -> None:
    """Do all jobs, so many at a time. `work` gets the job, an event that tells it to stop, and whom to tell its news.

    `heard` and `ended` are called from the calling thread. If a job fails, or the calling thread is interrupted, those
    at work are told to stop, and all threads have ended when this does.
    """
    stop = Event()
    told: SimpleQueue[tuple[int, News]] = SimpleQueue()
    waiting = iter(jobs)
    running: dict[Future[Result], int] = {}

    def tell(job: int, news: News) -> None:
        told.put((job, news))

    def start(pool: ThreadPoolExecutor, starting: Iterable[int]) -> None:
        with held():  # a thread whose start is interrupted would keep Python from ever ending
            for job in starting:
                running[pool.submit(work, job, stop, partial(tell, job))] = job

    with single_threaded_products(), ThreadPoolExecutor(max(1, min(threads, len(jobs)))) as pool:
        try:
            start(pool, islice(waiting, threads))
            while running:
                finished, _ = wait(running, timeout=REPORT_SECONDS, return_when=FIRST_COMPLETED)
                while not told.empty():
                    heard(*told.get())
                for future in finished:
                    result = future.result()
                    ended(running.pop(future), result)
                start(pool, islice(waiting, len(finished)))
        finally:
            stop.set()


def shared_threads(jobs: int, threads: int) -> list[int]:
    """How many threads each of the jobs may use: one, and all of them are for the last where fewer jobs are left."""
    last = jobs % threads
    return [1] * (jobs - last) + [threads // last + (place < threads % last) for place in range(last)]
