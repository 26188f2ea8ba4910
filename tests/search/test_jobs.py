"""Jobs in threads: who hears of them, and how many threads each gets."""

import threading

import pytest

from phloem.search.jobs import run_jobs, shared_threads


def test_jobs_tell_their_news_to_the_calling_thread():
    heard, ended = [], []

    def work(job, stop, tell):
        tell(threading.current_thread())
        return 10 * job

    run_jobs(
        [3, 4, 5],
        2,
        work,
        heard=lambda job, thread: heard.append((job, thread is threading.current_thread())),
        ended=lambda job, result: ended.append((job, result)),
    )
    assert sorted(heard) == [(3, False), (4, False), (5, False)]
    assert sorted(ended) == [(3, 30), (4, 40), (5, 50)]


@pytest.mark.parametrize(
    ("jobs", "threads", "shares"),
    [
        (1, 1, [1]),
        (1, 4, [4]),
        (3, 4, [2, 1, 1]),
        (2, 5, [3, 2]),
        (4, 4, [1] * 4),
        (5, 2, [1, 1, 1, 1, 2]),
        (10, 3, [1] * 9 + [3]),
    ],
)
def test_threads_are_shared_out_where_fewer_searches_are_left(jobs, threads, shares):
    assert shared_threads(jobs, threads) == shares
