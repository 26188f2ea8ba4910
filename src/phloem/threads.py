"""Work shared between threads: kernels release Python's lock, so ordinary threads are enough.

numba's own parallel loops are not used: their pool would compete with torch's for the cores, and a parallel region must
wait for its slowest thread even if only one thread is asked for.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path

import torch

from phloem.arrays import RealArray
from phloem.interrupts import held


def available_threads() -> int:
    """Cores that this process may use, which a container or a batch system can limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def physical_cores() -> int:
    """Cores that this process may use, once each where a core runs two threads: arithmetic gains nothing from those."""
    if not hasattr(os, "sched_getaffinity"):
        return available_threads()
    siblings = [Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list") for cpu in os.sched_getaffinity(0)]
    try:
        return len({path.read_text() for path in siblings})
    except OSError:  # no such file: every thread counts
        return available_threads()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(available_threads(), thread_name_prefix="phloem")


def share_tasks(tasks: int, threads: int, work: Callable[[int, int], None]) -> None:
    """Call work(first, last) for equal shares of tasks 0..tasks-1, one share a thread, and wait for all of them."""
    shares = min(threads, tasks)
    bounds = [share * tasks // shares for share in range(shares + 1)] if shares else [0, 0]
    waiting = []
    if shares > 1:
        with held():  # a thread whose start is interrupted would keep Python from ever ending
            waiting = [_pool().submit(work, first, last) for first, last in pairwise(bounds[1:])]
    work(bounds[0], bounds[1])
    for share in waiting:
        share.result()


@contextmanager
def single_threaded_products() -> Iterator[None]:
    """Keep torch to one core: its products are so small that more gain nothing, and on a busy machine they wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def matrix_product(left: RealArray, right: RealArray) -> RealArray:
    """left @ right. numpy's own products use all cores, whatever else is at work there."""
    product: RealArray = (torch.from_numpy(left) @ torch.from_numpy(right)).numpy()
    return product
