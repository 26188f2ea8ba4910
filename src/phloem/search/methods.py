"""How the trees of one bootstrap replicate are made: by IQ-TREE, or by phloem's own search."""

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from threading import Event
from typing import Protocol

import numpy as np

from phloem.config import BootstrapConfig
from phloem.config.search import SearchConfig
from phloem.data.alignment import Alignment
from phloem.errors import AlignmentError, ProgramProblem
from phloem.random_streams import RandomStream
from phloem.search.embedded import search_trees
from phloem.search.iqtree import check_data, find_iqtree, ultrafast_bootstrap
from phloem.search.programs import IQTREE
from phloem.search.records import Stopped
from phloem.search.replicates import method_in
from phloem.search.time_limit import TimeLimit
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch

FEWEST_TAXA = 4


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

    def __init__(self, alignment: Alignment, config: BootstrapConfig) -> None:
        self._alignment, self._config = alignment, config
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
        )


class ByEmbeddedSearch:
    """The bootstrap trees of phloem's own search, and after them its best trees."""

    def __init__(self, alignment: Alignment, config: BootstrapConfig) -> None:
        self._alignment, self._config = alignment, config
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
            found = search_trees(self._alignment, settings, stop=limit, report=lambda news: report(news.fraction))
        except Stopped:
            if limit.is_over and not stop.is_set():
                raise ProgramProblem(
                    f"replicate {replicate}: the search took more than {config.timeout:g} seconds and was stopped. "
                    "Give a longer --timeout."
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


def build_method(alignment: Alignment, config: BootstrapConfig) -> Method:
    """The method of settled settings; IQ-TREE must be there if it is that."""
    return ByIqtree(alignment, config) if config.method == "iqtree" else ByEmbeddedSearch(alignment, config)


def replicate_seed(seed: int, replicate: int) -> int:
    """A positive 32-bit integer for one replicate, IQ-TREE's own seed or that of a search."""
    return int(RandomStream(seed, "bootstrap", replicate).generator().integers(1, 2**31))
