"""`phloem.bootstrap` and `phloem.maximum_likelihood_tree`: searches in a script or a notebook, without files."""

from collections.abc import Callable
from pathlib import Path

from phloem.config import BootstrapConfig
from phloem.config.search import SearchConfig
from phloem.data.alignment import Alignment
from phloem.data.reading import read_alignment
from phloem.search.bootstrap import BootstrapProgress, bootstrap_samples
from phloem.search.likelihood_tree import find_likelihood_tree
from phloem.search.records import SearchProgress, SearchResult
from phloem.trees.sample import TreeSample


def bootstrap(
    alignment: str | Path | Alignment,
    *,
    count: int = 1000,
    replicates: int = 10,
    seed: int = 1,
    model: str = "JC",
    method: str = "auto",
    keep: int = 0,
    within: float = 10.0,
    threads: int | None = None,
    progress: Callable[[BootstrapProgress], None] | None = None,
) -> list[TreeSample]:
    """Bootstrap trees of an alignment (a file, a bundled example's name, or an `Alignment`), one sample a replicate.

    method: `iqtree`, `embedded`, or `auto`, which is IQ-TREE where it is installed. model: in IQ-TREE's words. keep,
    within: as many of the best trees of an embedded search, no more log-likelihood units below the very best, come
    after its bootstrap trees. The same seed gives the same trees. `bootstrap_files` keeps them in files as they come.
    """
    config = BootstrapConfig(
        count=count,
        replicates=replicates,
        seed=seed,
        model=model,
        method=method,
        keep=keep,
        within=within,
        threads=threads,
    )
    return bootstrap_samples(_read(alignment), config, progress=progress)


def maximum_likelihood_tree(
    alignment: str | Path | Alignment,
    *,
    count: int = 1000,
    model: str = "JC",
    seed: int = 1,
    keep: int = 0,
    within: float = 10.0,
    threads: int | None = None,
    progress: Callable[[SearchProgress], None] | None = None,
) -> SearchResult:
    """The maximum-likelihood tree of an alignment (a file, a bundled example's name, or an `Alignment`).

    Its `tree` has lengths and, from `count` bootstrap trees, supports. model: JC, K80, F81, HKY, TN93, SYM or GTR,
    alone or with +I and +G4; its parameters are estimated. keep, within: how many of the best trees to give besides,
    and how many log-likelihood units below the very best they may be. The same seed gives the same result.
    """
    config = SearchConfig(count=count, model=model, seed=seed, keep=keep, within=within, threads=threads)
    return find_likelihood_tree(_read(alignment), config, progress=progress)


def _read(alignment: str | Path | Alignment) -> Alignment:
    return alignment if isinstance(alignment, Alignment) else read_alignment(alignment)
