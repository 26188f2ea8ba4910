"""Bootstrap replicates: independent searches, several at a time, and one tree file each."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import NamedTuple, TypeVar

from phloem.config import BootstrapConfig
from phloem.data.alignment import Alignment
from phloem.errors import FileProblem, ProgramProblem
from phloem.search.iqtree import FailedRun
from phloem.search.jobs import run_jobs, shared_threads
from phloem.search.methods import Method, build_method, check_bootstrap_alignment, settled
from phloem.search.replicates import ReplicateDirectory
from phloem.target.threads import available_threads
from phloem.trees.sample import TreeSample

Kept = TypeVar("Kept")


class BootstrapProgress(NamedTuple):
    """News of one replicate, and how many are there by now."""

    replicate: int
    fraction: float  # of its search, by the search's own estimate
    done: int


class BootstrapFiles(NamedTuple):
    """The replicates that were asked for."""

    files: tuple[Path, ...]
    found: int  # how many were there already
    method: str
    programs: tuple[str, ...]  # that made them


class BootstrapPlan(NamedTuple):
    """Which replicates are to be made, and how."""

    config: BootstrapConfig  # with a settled method
    replicates: ReplicateDirectory
    missing: list[int]
    method: Method | None  # None if none is missing: then no program is needed


Progress = Callable[[BootstrapProgress], None] | None


def bootstrap_files(
    alignment: Alignment, directory: Path, config: BootstrapConfig, *, progress: Progress = None
) -> BootstrapFiles:
    """One file of bootstrap trees a replicate, in `directory`. Replicates that are there already are not made again.

    If one replicate fails, those at work are stopped; those that were finished stay and the next call goes on
    from them. `progress` is called from the calling thread.
    """
    plan = plan_bootstrap(alignment, directory, config)
    replicates, method = plan.replicates, plan.method
    if method is not None:
        program = method.program
        replicates.prepare()
        _make(
            plan.missing,
            method,
            plan.config,
            progress,
            keep=lambda replicate, trees: replicates.add(replicate, trees, program),
            keep_log=replicates.keep_log,
        )
    wanted = _numbers(config)
    return BootstrapFiles(
        files=tuple(map(replicates.tree_file, wanted)),
        found=len(wanted) - len(plan.missing),
        method=plan.config.method,
        programs=tuple(sorted(set(map(replicates.program, wanted)))),
    )


def plan_bootstrap(alignment: Alignment, directory: Path, config: BootstrapConfig) -> BootstrapPlan:
    """What `bootstrap_files` is about to do; whatever stands in its way is an error, and nothing is changed."""
    config = settled(config, directory)
    check_bootstrap_alignment(alignment, config.method)
    replicates = ReplicateDirectory(directory, alignment, config)
    missing = [replicate for replicate in _numbers(config) if not replicates.is_whole(replicate)]
    return BootstrapPlan(config, replicates, missing, build_method(alignment, config) if missing else None)


def bootstrap_samples(alignment: Alignment, config: BootstrapConfig, *, progress: Progress = None) -> list[TreeSample]:
    """The trees of every replicate, in order. `progress` is called from the calling thread."""
    config = settled(config)
    check_bootstrap_alignment(alignment, config.method)
    wanted = _numbers(config)
    samples = _make(wanted, build_method(alignment, config), config, progress, keep=lambda _replicate, trees: trees)
    return [samples[replicate] for replicate in wanted]


def _numbers(config: BootstrapConfig) -> range:
    return range(1, config.replicates + 1)


def _make(
    missing: Sequence[int],
    method: Method,
    config: BootstrapConfig,
    progress: Progress,
    *,
    keep: Callable[[int, TreeSample], Kept],
    keep_log: Callable[[int, bytes], Path] | None = None,
) -> dict[int, Kept]:
    """Replicates are made and kept in threads. What is kept of each, by its number."""
    tell = progress or (lambda _news: None)
    threads = config.threads or available_threads()
    shares = dict(zip(missing, shared_threads(len(missing), threads), strict=True))
    before = config.replicates - len(missing)
    kept: dict[int, Kept] = {}

    def make(replicate: int, stop: Event, report: Callable[[float], None]) -> Kept:
        report(0.0)
        try:
            return keep(replicate, method.make(replicate, shares[replicate], stop, report))
        except FailedRun as problem:
            what = f"replicate {replicate}: {problem}"
            if keep_log:
                with suppress(FileProblem):
                    what += f" Its log: {keep_log(replicate, problem.log)}"
            raise ProgramProblem(what) from None

    def heard(replicate: int, share: float) -> None:
        tell(BootstrapProgress(replicate, share, before + len(kept)))

    def ended(replicate: int, result: Kept) -> None:
        kept[replicate] = result
        tell(BootstrapProgress(replicate, 1.0, before + len(kept)))

    run_jobs(missing, threads, make, heard=heard, ended=ended)
    return kept
