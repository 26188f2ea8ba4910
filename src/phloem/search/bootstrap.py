"""Bootstrap replicates: who makes their trees, independent searches in threads, and one tree file each."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from threading import Event
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from phloem.config import BootstrapConfig
from phloem.config.search import SearchConfig
from phloem.data.alignment import Alignment
from phloem.errors import AlignmentError, FileProblem, ProgramProblem
from phloem.random_streams import RandomStream
from phloem.search.embedded import search_trees
from phloem.search.iqtree import IQTREE, FailedRun, check_data, find_iqtree, ultrafast_bootstrap
from phloem.search.jobs import Stopped, TimeLimit, run_jobs, shared_threads
from phloem.search.replicates import ReplicateDirectory, method_in
from phloem.threads import available_threads
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch

FEWEST_TAXA = 4
Kept = TypeVar("Kept")


class Method(Protocol):
    """Makes replicates, each from a seed of its own."""

    @property
    def program(self) -> str:
        """What makes them, with its version."""
        ...

    def make(self, replicate: int, threads: int, stop: Event, report: Callable[[float], None]) -> TreeSample:
        """The trees. `report` gets the share that is done; `stop` ends it early with `Stopped`."""
        ...


class ByIqtree:
    """IQ-TREE's ultrafast bootstrap, on one core."""

    def __init__(
        self, alignment: Alignment, config: BootstrapConfig, constraints: TopologyConstraints | None = None
    ) -> None:
        self._alignment, self._config, self._constraints = alignment, config, constraints
        self._program = find_iqtree()
        self.program = str(self._program)

    def make(self, replicate: int, threads: int, stop: Event, report: Callable[[float], None]) -> TreeSample:
        """One run of IQ-TREE."""
        return ultrafast_bootstrap(
            self._program,
            self._alignment,
            count=self._config.count,
            model=self._config.model,
            seed=replicate_seed(self._config.seed, replicate),
            timeout=self._config.timeout,
            stop=stop,
            report=report,
            constraints=self._constraints,
        )


class ByEmbeddedSearch:
    """The bootstrap trees of phloem's own search, and after them its best trees."""

    def __init__(
        self, alignment: Alignment, config: BootstrapConfig, constraints: TopologyConstraints | None = None
    ) -> None:
        self._alignment, self._config, self._constraints = alignment, config, constraints
        self.program = f"embedded search of phloem {version('phloem')}"

    def make(self, replicate: int, threads: int, stop: Event, report: Callable[[float], None]) -> TreeSample:
        """One search."""
        config = self._config
        settings = SearchConfig(
            count=config.count,
            model=config.model,
            seed=replicate_seed(config.seed, replicate),
            keep=config.keep,
            within=config.within,
            threads=threads,
        )
        limit = TimeLimit(stop, config.timeout)
        try:
            found = search_trees(
                self._alignment,
                settings,
                stop=limit,
                report=lambda news: report(news.fraction),
                constraints=self._constraints,
            )
        except Stopped:
            if limit.is_over and not stop.is_set():
                raise ProgramProblem(
                    f"replicate {replicate}: the search took more than {config.timeout:g} seconds and was stopped. "
                    "Give phloem bootstrap a longer --timeout."
                ) from None
            raise
        trees = TopologyBatch.concatenate([found.bootstrap.topologies, found.best.topologies])
        return TreeSample(self._alignment.taxa, trees, np.ones(len(trees)), None)


def settled(config: BootstrapConfig, directory: Path | None = None) -> BootstrapConfig:
    """The settings with the method that `auto` stands for; what does not go with the method is an error."""
    return replace(config, method=settled_method(config.method, directory))


def settled_method(method: str, directory: Path | None = None) -> str:
    """The method itself, or for `auto` that of the directory's replicates, or else IQ-TREE where it is installed."""
    if method != "auto":
        return method
    there = method_in(directory) if directory else None
    return there or ("iqtree" if IQTREE.is_installed else "embedded")


def check_bootstrap_alignment(alignment: Alignment, method: str) -> None:
    """Raise for alignments that the method cannot take."""
    if len(alignment.taxa) < FEWEST_TAXA:
        raise AlignmentError(f"alignment: {len(alignment.taxa)} taxa. A bootstrap needs at least {FEWEST_TAXA}.")
    if method == "iqtree":
        check_data(alignment)


def build_method(
    alignment: Alignment, config: BootstrapConfig, constraints: TopologyConstraints | None = None
) -> Method:
    """The method of settled settings; IQ-TREE must be there if it is that. constraints: that all trees satisfy."""
    by = ByIqtree if config.method == "iqtree" else ByEmbeddedSearch
    return by(alignment, config, constraints)


def replicate_seed(seed: int, replicate: int) -> int:
    """A positive 32-bit integer for one replicate, IQ-TREE's own seed or that of a search."""
    return int(RandomStream(seed, "bootstrap", replicate).generator().integers(1, 2**31))


class BootstrapProgress(NamedTuple):
    """News of one replicate, and how many are there by now."""

    replicate: int
    fraction: float  # of its search, by the search's own estimate
    done: int


class ShareDone:
    """How much of all replicates is done, which never falls."""

    def __init__(self, replicates: int) -> None:
        self._replicates = replicates
        self._at_work: dict[int, float] = {}
        self._highest = 0.0

    def after(self, news: BootstrapProgress) -> float:
        """The share after these news."""
        self._at_work[news.replicate] = news.fraction if news.fraction < 1 else 0.0  # else it is among the done
        share = (news.done + sum(self._at_work.values())) / self._replicates
        self._highest = max(self._highest, share)
        return self._highest


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
    alignment: Alignment,
    directory: Path,
    config: BootstrapConfig,
    *,
    constraints: TopologyConstraints | None = None,
    progress: Progress = None,
) -> BootstrapFiles:
    """One file of bootstrap trees a replicate, in `directory`. Replicates that are there already are not made again.

    If one replicate fails, those at work are stopped; those that were finished stay and the next call resumes
    from them. `progress` is called from the calling thread.
    """
    plan = plan_bootstrap(alignment, directory, config, constraints)
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


def plan_bootstrap(
    alignment: Alignment, directory: Path, config: BootstrapConfig, constraints: TopologyConstraints | None = None
) -> BootstrapPlan:
    """What `bootstrap_files` is about to do; whatever stands in its way is an error, and nothing is changed."""
    config = settled(config, directory)
    check_bootstrap_alignment(alignment, config.method)
    replicates = ReplicateDirectory(directory, alignment, config, constraints)
    missing = [replicate for replicate in _numbers(config) if not replicates.is_whole(replicate)]
    method = build_method(alignment, config, constraints) if missing else None
    return BootstrapPlan(config, replicates, missing, method)


def bootstrap_samples(
    alignment: Alignment,
    config: BootstrapConfig,
    *,
    constraints: TopologyConstraints | None = None,
    progress: Progress = None,
) -> list[TreeSample]:
    """The trees of every replicate, in order. `progress` is called from the calling thread."""
    config = settled(config)
    check_bootstrap_alignment(alignment, config.method)
    wanted = _numbers(config)
    method = build_method(alignment, config, constraints)
    samples = _make(wanted, method, config, progress, keep=lambda _replicate, trees: trees)
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
