"""Where the trees of a support come from: the user, a bundled example, all trees of few taxa, or IQ-TREE."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from phloem.config import BootstrapConfig, InferConfig, iqtree_model
from phloem.data.alignment import Alignment
from phloem.data.examples import EXAMPLES
from phloem.errors import AlignmentError, FileProblem
from phloem.pipeline.tree_files import read_samples
from phloem.search.bootstrap import BootstrapProgress, bootstrap
from phloem.search.iqtree import check_alignment, find_iqtree
from phloem.search.replicates import ReplicateDirectory, remove_replicates
from phloem.trees.generation import all_topologies
from phloem.trees.sample import TreeSample
from phloem.variational.collection import FEWEST_TAXA, collect_support
from phloem.variational.support import SubsplitSupport

MOST_TAXA_FOR_ALL = 6  # they have 105 topologies; with 7 there would be 945

Trees = Sequence[str | Path | TreeSample]


class SupportSource:
    """The trees for the support of an alignment. What is missing for them is known when this is made."""

    def __init__(self, source: str | Path, alignment: Alignment, config: InferConfig, trees: Trees) -> None:
        self._alignment = alignment
        self._config = config
        if len(alignment.taxa) < FEWEST_TAXA:
            raise AlignmentError(
                f"{source}: {len(alignment.taxa)} taxa have one unrooted topology only, so there is nothing to infer. "
                f"Give at least {FEWEST_TAXA}."
            )
        if not trees and str(source) in EXAMPLES and not Path(source).exists():
            trees = [source]
        self._samples = [sample for tree in trees for sample in _read(tree, alignment)]
        self._credible = config.support.credible
        if not self._samples and len(alignment.taxa) <= MOST_TAXA_FOR_ALL:
            self._samples = [_every_topology(alignment)]
            self._credible = 1.0
        if not self._samples:
            check_alignment(alignment)
            find_iqtree()

    def collect(
        self, directory: Path, threads: int | None, *, replace: bool, progress: Callable[[float], None]
    ) -> SubsplitSupport:
        """The support. Bootstrap trees go to the directory, and those of the same alignment and settings are not
        made again; others are in the way, unless they may be replaced."""
        if self._samples:
            return collect_support(self._samples, credible=self._credible)
        settings = self._bootstrap_config(threads)
        if replace:
            _remove_other_replicates(directory, self._alignment, settings)
        at_work: dict[int, float] = {}

        def show(news: BootstrapProgress) -> None:
            at_work[news.replicate] = news.fraction if news.fraction < 1 else 0.0  # else it is among the done
            progress((news.done + sum(at_work.values())) / settings.replicates)

        files = bootstrap(self._alignment, directory, settings, progress=show).files
        return collect_support(read_samples(files, taxa=self._alignment.taxa), credible=self._credible)

    @property
    def is_bootstrap(self) -> bool:
        """Whether IQ-TREE is needed."""
        return not self._samples

    def _bootstrap_config(self, threads: int | None) -> BootstrapConfig:
        support = self._config.support
        return BootstrapConfig(
            count=support.count,
            replicates=support.replicates,
            seed=self._config.seed,
            model=support.model or iqtree_model(self._config.model),
            threads=threads,
        )


def _read(trees: str | Path | TreeSample, alignment: Alignment) -> list[TreeSample]:
    if isinstance(trees, TreeSample):
        return [trees.with_taxa(alignment.taxa)]
    return read_samples([trees], taxa=alignment.taxa)


def _every_topology(alignment: Alignment) -> TreeSample:
    topologies = all_topologies(len(alignment.taxa))
    return TreeSample(alignment.taxa, topologies, np.ones(len(topologies)), None)


def _remove_other_replicates(directory: Path, alignment: Alignment, settings: BootstrapConfig) -> None:
    try:
        ReplicateDirectory(directory, alignment, settings)
    except FileProblem:
        remove_replicates(directory)
