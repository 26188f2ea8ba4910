"""Where the trees of a support come from: the user, all trees of few taxa, or a bootstrap."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from phloem.config import BootstrapConfig, InferConfig, iqtree_model
from phloem.data.alignment import Alignment
from phloem.errors import AlignmentError, FileProblem
from phloem.pipeline.tree_files import read_samples
from phloem.search.bootstrap import BootstrapProgress, bootstrap_files, plan_bootstrap
from phloem.search.methods import build_method, check_bootstrap_alignment, settled_method
from phloem.search.replicates import ReplicateDirectory, remove_replicates
from phloem.trees.generation import all_topologies
from phloem.trees.sample import TreeSample
from phloem.variational.collection import FEWEST_TAXA, collect_support
from phloem.variational.support import SubsplitSupport

MOST_TAXA_FOR_ALL = 6  # they have 105 topologies; with 7 there would be 945

Trees = Sequence[str | Path | TreeSample]


class SupportSource:
    """The trees for the support of an alignment. What is missing for them is known when this is made."""

    def __init__(
        self,
        source: str | Path,
        alignment: Alignment,
        config: InferConfig,
        trees: Trees,
        directory: Path,
        *,
        may_replace: bool = False,
    ) -> None:
        """Bootstrap trees go to the directory, and those of the same alignment and settings are not made again; others
        are in the way, unless they may be replaced."""
        self._alignment = alignment
        self._directory = directory
        self._may_replace = may_replace
        if len(alignment.taxa) < FEWEST_TAXA:
            raise AlignmentError(
                f"{source}: {len(alignment.taxa)} taxa have one unrooted topology only, so there is nothing to infer. "
                f"Give at least {FEWEST_TAXA}."
            )
        self._samples = [sample for tree in trees for sample in _read(tree, alignment)]
        self._credible = config.support.credible
        if not self._samples and len(alignment.taxa) <= MOST_TAXA_FOR_ALL:
            self._samples = [_every_topology(alignment)]
            self._credible = 1.0
        self._bootstrap = None if self._samples else self._plan(config)

    def collect(self, threads: int | None, *, progress: Callable[[float], None]) -> SubsplitSupport:
        """The support. `progress` gets the share of the bootstrap that is done, which never falls."""
        settings = self._bootstrap
        if settings is None:
            return collect_support(self._samples, credible=self._credible)
        if self._may_replace:
            _remove_other_replicates(self._directory, self._alignment, settings)
        replicates = settings.replicates
        at_work: dict[int, float] = {}
        highest = 0.0

        def show(news: BootstrapProgress) -> None:
            nonlocal highest
            at_work[news.replicate] = news.fraction if news.fraction < 1 else 0.0  # else it is among the done
            highest = max(highest, (news.done + sum(at_work.values())) / replicates)
            progress(highest)

        files = bootstrap_files(
            self._alignment, self._directory, replace(settings, threads=threads), progress=show
        ).files
        return collect_support(read_samples(files, taxa=self._alignment.taxa), credible=self._credible)

    @property
    def bootstrap(self) -> str:
        """What a bootstrap is made by, in words; nothing where none is needed."""
        if self._bootstrap is None:
            return ""
        by = "IQ-TREE" if self._bootstrap.method == "iqtree" else "the embedded search"
        return (
            f"bootstrap by {by}, {self._bootstrap.replicates:,} replicates of {self._bootstrap.count:,} trees "
            f"under {self._bootstrap.model}"
        )

    def _plan(self, config: InferConfig) -> BootstrapConfig:
        """The settings of the bootstrap. What stands in its way is an error."""
        method = settled_method(config.support.method, None if self._may_replace else self._directory)
        support = replace(config.support, method=method)  # an error, in the words of `phloem infer`, if it does not fit
        settings = BootstrapConfig(
            count=support.count,
            replicates=support.replicates,
            seed=config.seed,
            model=support.model or iqtree_model(config.model),
            method=method,
        )
        if self._may_replace:
            check_bootstrap_alignment(self._alignment, method)
            build_method(self._alignment, settings)
        else:
            plan_bootstrap(self._alignment, self._directory, settings)
        return settings


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
