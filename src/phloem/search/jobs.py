"""Long jobs in threads, which no Ctrl-C ends half-way, while the calling thread waits and hears how far they are."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import islice
from queue import SimpleQueue
from threading import Event
from typing import TypeVar

from phloem.interrupts import held
from phloem.target.threads import single_threaded_products

REPORT_SECONDS = 0.1

News = TypeVar("News")
Result = TypeVar("Result")


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
