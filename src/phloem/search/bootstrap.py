"""Bootstrap replicates: independent runs of IQ-TREE, several at a time, one tree file each."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import NamedTuple

from phloem.config import BootstrapConfig
from phloem.data.alignment import Alignment
from phloem.errors import FileProblem, ProgramProblem
from phloem.interrupts import held
from phloem.random_streams import RandomStream
from phloem.search.iqtree import FailedRun, check_alignment, find_iqtree, ultrafast_bootstrap
from phloem.search.programs import InstalledProgram
from phloem.search.replicates import ReplicateDirectory
from phloem.target.threads import available_threads

REPORT_SECONDS = 0.1


class BootstrapProgress(NamedTuple):
    """News of one replicate, and how many are there by now."""

    replicate: int
    fraction: float  # of its search, by IQ-TREE's own estimate of the time left
    done: int


class BootstrapFiles(NamedTuple):
    """The replicates that were asked for."""

    files: tuple[Path, ...]
    found: int  # how many were there already
    programs: tuple[str, ...]  # that made them


def bootstrap(
    alignment: Alignment,
    directory: Path,
    config: BootstrapConfig,
    *,
    progress: Callable[[BootstrapProgress], None] | None = None,
) -> BootstrapFiles:
    """One file of bootstrap trees a replicate, in `directory`. Replicates that are there already are not made again.

    If one replicate fails, those at work are stopped; those that were finished stay and the next call goes on
    from them. `progress` is called from the calling thread.
    """
    check_alignment(alignment)
    replicates = ReplicateDirectory(directory, alignment, config)
    wanted = range(1, config.replicates + 1)
    if missing := [replicate for replicate in wanted if not replicates.is_whole(replicate)]:
        program = find_iqtree()
        replicates.prepare()
        _make(missing, replicates, program, alignment, config, progress or (lambda _news: None))
    return BootstrapFiles(
        files=tuple(map(replicates.tree_file, wanted)),
        found=len(wanted) - len(missing),
        programs=tuple(sorted(set(map(replicates.program, wanted)))),
    )


def replicate_seed(seed: int, replicate: int) -> int:
    """IQ-TREE's own seed, a positive 32-bit integer, for one replicate."""
    return int(RandomStream(seed, "bootstrap", replicate).generator().integers(1, 2**31))


def _make(
    missing: Sequence[int],
    replicates: ReplicateDirectory,
    program: InstalledProgram,
    alignment: Alignment,
    config: BootstrapConfig,
    progress: Callable[[BootstrapProgress], None],
) -> None:
    """Replicates are made and written in threads, which no Ctrl-C interrupts half-way; this one waits and reports."""
    stop = Event()
    shares: SimpleQueue[tuple[int, float]] = SimpleQueue()

    def make(replicate: int) -> None:
        shares.put((replicate, 0.0))
        try:
            sample = ultrafast_bootstrap(
                program,
                alignment,
                count=config.count,
                model=config.model,
                seed=replicate_seed(config.seed, replicate),
                timeout=config.timeout,
                stop=stop,
                report=lambda share: shares.put((replicate, share)),
            )
        except FailedRun as problem:
            what = f"replicate {replicate}: {problem}"
            with suppress(FileProblem):
                what += f" Its log: {replicates.keep_log(replicate, problem.log)}"
            raise ProgramProblem(what) from None
        replicates.add(replicate, sample, str(program))

    threads = min(config.threads or available_threads(), len(missing))
    waiting = iter(missing)
    done = config.replicates - len(missing)
    with ThreadPoolExecutor(threads) as pool:
        try:
            running: dict[Future[None], int] = {}
            _start(pool, make, islice(waiting, threads), running)
            while running:
                finished, _ = wait(running, timeout=REPORT_SECONDS, return_when=FIRST_COMPLETED)
                while not shares.empty():
                    progress(BootstrapProgress(*shares.get(), done))
                for future in finished:
                    future.result()
                    done += 1
                    progress(BootstrapProgress(running.pop(future), 1.0, done))
                _start(pool, make, islice(waiting, len(finished)), running)
        finally:
            stop.set()


def _start(
    pool: ThreadPoolExecutor,
    make: Callable[[int], None],
    replicates: Iterable[int],
    running: dict[Future[None], int],
) -> None:
    """Have the pool make replicates. A thread whose start is interrupted would keep Python from ever ending."""
    with held():
        running |= {pool.submit(make, replicate): replicate for replicate in replicates}
