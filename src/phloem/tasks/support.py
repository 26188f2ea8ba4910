"""Trees → support: tree files and bootstraps to collect, and what a support holds and covers."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from torch import Tensor

from phloem.arrays import LongArray
from phloem.config import BootstrapConfig, InferConfig
from phloem.config.search import iqtree_model
from phloem.data.alignment import Alignment
from phloem.data.patterns import summarize
from phloem.data.reading import find_trees
from phloem.errors import AlignmentError, BadArgument, FileProblem, counted
from phloem.inference.chains import can_run_chains
from phloem.inference.exploration import START_LENGTH, Exploration, explore
from phloem.inference.laplace import ParameterStart, start_of
from phloem.random_streams import RandomStream
from phloem.runs.ranks import ALONE, Ranks
from phloem.search.bootstrap import (
    ShareDone,
    bootstrap_files,
    build_method,
    check_bootstrap_alignment,
    plan_bootstrap,
    settled_method,
)
from phloem.search.replicates import ReplicateDirectory, remove_replicates
from phloem.storage.files import cannot_read, check_can_write
from phloem.target.posterior import TreePosterior
from phloem.tasks.following import share_target
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.generation import all_topologies
from phloem.trees.reading import SUFFIXES, read_trees, read_weighted_table
from phloem.trees.sample import TreeSample, merge, pool
from phloem.variational.fitting import first_network
from phloem.variational.sbn import (
    FEWEST_TAXA,
    SubsplitSupport,
    closed_support,
    collect_support,
    frequent_topologies,
    support_of,
    write_support,
)

TREE_FILE = re.compile(r".+\.(nwk|newick|tree|trees|tre|treefile|nex|nexus|t|trprobs|ufboot)(\.gz)?", re.IGNORECASE)
MOST_TAXA_FOR_ALL = 6  # they have 105 topologies; with 7 there would be 945
Trees = Sequence[str | Path | TreeSample]


def list_tree_files(sources: Sequence[str | Path]) -> list[Path]:
    """The files that are meant, those of a directory by name."""
    paths: list[Path] = []
    for source in sources:
        path = find_trees(source)
        try:
            is_file = not path.is_dir()
        except OSError:  # a directory that cannot be searched, a name that is too long: reading it says so
            is_file = True
        paths += [path] if is_file else _tree_files_in(path)
    return paths


def _tree_files_in(directory: Path) -> list[Path]:
    try:
        entries = sorted(directory.iterdir())
    except OSError as problem:
        raise cannot_read(directory, problem) from None
    inside = [entry for entry in entries if TREE_FILE.fullmatch(entry.name) and entry.is_file()]
    if not inside:
        raise FileProblem(f"{directory}: holds no tree files (.nwk, .tre, .nex, .t, .ufboot, …). Name the files.")
    return inside


def read_samples(
    sources: Sequence[str | Path], *, taxa: Sequence[str] | None = None, burnin: int | float = 0
) -> list[TreeSample]:
    """One sample a file, all with the same taxa in the same order: `taxa`, or those of the first file."""
    samples: list[TreeSample] = []
    for path in list_tree_files(sources):
        read = read_weighted_table if path.name.lower().endswith(SUFFIXES) else read_trees
        sample = read(path, taxa=samples[0].taxa if samples else taxa, burnin=burnin)
        if not sample.weights.any():
            raise BadArgument(f"{path}: all trees have weight zero. Leave the file out.")
        if burnin and (sample.weights != sample.weights[0]).any():
            raise BadArgument(
                f"{path}: its trees have weights and are in no order of time, so there is no burn-in to drop. "
                "Leave --burnin out."
            )
        if len(sample.taxa) < FEWEST_TAXA:
            raise BadArgument(f"{path}: {len(sample.taxa)} taxa have one topology only. Give at least {FEWEST_TAXA}.")
        samples.append(sample)
    return samples


def refuse_overwriting(out: Path, sources: Sequence[str | Path]) -> None:
    """Raise if the file to be written is one of those to be read."""
    for source in sources:
        try:
            same = out.samefile(source)
        except OSError:  # one of them does not exist, or cannot be looked at
            same = False
        if same:
            raise BadArgument(f"{out}: is an input as well. Name another file.")


Preparation = Literal["bootstrap", "exploring", "support"]


class LeftOut(NamedTuple):
    """Trees that were given and do not satisfy the constraints."""

    trees: int
    of: int


class Collected(NamedTuple):
    """A support, and from where the training of its network starts."""

    support: SubsplitSupport
    logits: Tensor | None  # None where all are zero
    exploration: Exploration | None
    held: bool = False  # whether the logits are near the posterior, by exploring chains
    theta: ParameterStart | None = None  # where the model's parameters are, if any are inferred
    left_out: LeftOut | None = None  # trees that do not satisfy the constraints, if there are any


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
        constraints: TopologyConstraints | None = None,
    ) -> None:
        """Bootstrap trees go to the directory, and those of the same alignment and settings are not made again; others
        are in the way, unless they may be replaced.

        constraints: that every tree of the support satisfies. Bootstrap trees are made so; of trees that are given the
        others are left out.
        """
        self._constraints = constraints
        self._alignment = alignment
        self._directory = directory
        self._may_replace = may_replace
        if len(alignment.taxa) < FEWEST_TAXA:
            raise AlignmentError(
                f"{source}: {len(alignment.taxa)} taxa have one unrooted topology only, so there is nothing to infer. "
                f"Give at least {FEWEST_TAXA}."
            )
        self._samples = [sample for tree in trees for sample in _read(tree, alignment)]
        self._left_out: LeftOut | None = None
        if constraints is not None and self._samples:
            self._samples, self._left_out = _satisfying(self._samples, constraints)
        self._credible = config.support.credible
        self._config = config
        if not self._samples and len(alignment.taxa) <= MOST_TAXA_FOR_ALL:
            self._samples = [_every_topology(alignment, constraints)]
            self._credible = 1.0
        self._bootstrap = None if self._samples else self._plan(config)

    def collect(
        self,
        target: TreePosterior,
        threads: int | None,
        *,
        progress: Callable[[Preparation, float], None] = lambda _phase, _share: None,
        ranks: Ranks = ALONE,
    ) -> Collected:
        """The support, and where training starts. `progress` gets the share of a phase, which never falls.

        threads: of each of the ranks, which share exploring out. The bootstrap takes those of ranks that wait, too.
        """
        samples, found, left_out = self._samples, None, self._left_out
        if self._bootstrap is not None:
            free = None if threads is None else threads * ranks.sharing
            samples = self._bootstrapped(self._bootstrap, free, progress)
        theta, length = None, START_LENGTH
        if target.parameters is not None:
            peak = start_of(target, merge(samples), stream=RandomStream(self._config.seed, "parameters"))
            theta, length = peak.parameters, float(peak.branch_lengths.mean())
        if self._bootstrap is not None:
            if self._config.support.explore and can_run_chains(target):
                progress("exploring", 0.0)
                share_target(ranks, target, self._config)
                found = explore(
                    target,
                    samples,
                    theta=theta,
                    length=length,
                    chains=self._config.support.explore,
                    stream=RandomStream(self._config.seed, "exploration"),
                    threads=threads or 1,
                    progress=lambda share: progress("exploring", share),
                    ranks=ranks,
                )
                theta = found.theta
        topologies = frequent_topologies(samples, credible=self._credible)
        progress("support", 0.0)
        closure = self._config.support.closure
        if closure == "auto":
            closure = "clades" if found is not None and found.is_wide else "none"
        if closure == "clades":
            trees = topologies if found is None else found.trees
            support = closed_support(trees, identical=_identical(self._alignment), constraints=self._constraints)
            logits = first_network(support, trees).logits.detach()
            return Collected(support, logits, found, found is not None, theta, left_out)
        if found is None:
            return Collected(support_of(topologies.taxa, topologies.topologies), None, None, False, theta, left_out)
        support = support_of(topologies.taxa, merge([topologies, found.trees]).topologies)
        return Collected(support, first_network(support, found.trees).logits.detach(), found, True, theta, left_out)

    def make_bootstrap(self, threads: int | None, *, progress: Callable[[float], None] = lambda _share: None) -> None:
        """Make the bootstrap trees, if any are needed and missing; others with the same settings then find them."""
        if self._bootstrap is not None:
            self._bootstrapped(self._bootstrap, threads, lambda _phase, share: progress(share))

    def _bootstrapped(
        self, settings: BootstrapConfig, threads: int | None, progress: Callable[[Preparation, float], None]
    ) -> list[TreeSample]:
        if self._may_replace:
            _remove_other_replicates(self._directory, self._alignment, settings, self._constraints)
        progress("bootstrap", 0.0)
        share = ShareDone(settings.replicates)
        files = bootstrap_files(
            self._alignment,
            self._directory,
            replace(settings, threads=threads),
            constraints=self._constraints,
            progress=lambda news: progress("bootstrap", share.after(news)),
        ).files
        return read_samples(files, taxa=self._alignment.taxa)

    @property
    def bootstrap(self) -> str:
        """What a bootstrap is made by, in words; nothing where none is needed."""
        if self._bootstrap is None:
            return ""
        by = "IQ-TREE" if self._bootstrap.method == "iqtree" else "the embedded search"
        return (
            f"bootstrap by {by}, {counted(self._bootstrap.replicates, 'replicate')} of "
            f"{counted(self._bootstrap.count, 'tree')} under {self._bootstrap.model}"
            f"{'' if self._constraints is None else ', all with the constraints'}"
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
            plan_bootstrap(self._alignment, self._directory, settings, self._constraints)
        return settings


def _read(trees: str | Path | TreeSample, alignment: Alignment) -> list[TreeSample]:
    if isinstance(trees, TreeSample):
        return [trees.with_taxa(alignment.taxa)]
    return read_samples([trees], taxa=alignment.taxa)


def _satisfying(
    samples: Sequence[TreeSample], constraints: TopologyConstraints
) -> tuple[list[TreeSample], LeftOut | None]:
    """The trees that satisfy the constraints, sample by sample, and how many do not."""
    holds = [constraints.hold(sample.topologies) & (sample.weights > 0) for sample in samples]
    kept = [sample[np.flatnonzero(held)] for sample, held in zip(samples, holds, strict=True) if held.any()]
    trees, satisfying = sum(map(len, samples)), sum(map(len, kept))
    if not kept:
        raise BadArgument(
            f"none of {counted(trees, 'tree')} for the support has the constraints, {constraints.in_words()}. Give "
            "trees that have them, or none: then bootstrap trees are made with them."
        )
    return kept, LeftOut(trees - satisfying, trees) if satisfying < trees else None


def _every_topology(alignment: Alignment, constraints: TopologyConstraints | None) -> TreeSample:
    topologies = all_topologies(len(alignment.taxa))
    if constraints is not None:
        topologies = topologies[np.flatnonzero(constraints.hold(topologies))]
    return TreeSample(alignment.taxa, topologies, np.ones(len(topologies)), None)


def _identical(alignment: Alignment) -> list[LongArray]:
    """Groups of taxa with equal sequences."""
    place = {name: number for number, name in enumerate(alignment.taxa)}
    return [np.array([place[name] for name in names]) for names in summarize(alignment).identical]


def _remove_other_replicates(
    directory: Path, alignment: Alignment, settings: BootstrapConfig, constraints: TopologyConstraints | None
) -> None:
    try:
        ReplicateDirectory(directory, alignment, settings, constraints)
    except FileProblem:
        remove_replicates(directory)


class SupportSummary(NamedTuple):
    """What a support holds."""

    taxa: int
    replicates: int  # tree files
    trees: int  # in all of them
    topologies: int  # distinct ones that the support was collected from
    splits: int  # the trivial ones too
    splits_left_out: int  # seen in trees, but with them a closed support would be too large
    tables: int  # conditional probability tables, that of the root splits included
    parameters: int  # entries of tables with more than one
    reference_trees: int | None  # after its burn-in
    coverage: float | None  # share of the reference's weight on trees that the support can generate


def summarize_support(
    sources: Sequence[str | Path],
    *,
    credible: float,
    minimum_count: float = 0,
    closure: str = "none",
    burnin: int | float = 0,
    covers: Sequence[str | Path] = (),
    out: Path | None = None,
) -> SupportSummary:
    """Collect a support, compare it with a reference sample where one is given, and write it where `out` says.

    The burn-in is that of the reference, a chain, where there is one: the sources are then bootstrap trees, which have
    none. Else it is that of the sources.
    """
    if out is not None:
        refuse_overwriting(out, list_tree_files([*sources, *covers]))
        check_can_write(out)
    samples = read_samples(sources, burnin=0 if covers else burnin)
    support = collect_support(samples, credible=credible, minimum_count=minimum_count, closure=closure)
    reference_trees = coverage = None
    if covers:
        references = read_samples(covers, taxa=support.taxa, burnin=burnin)
        reference_trees = sum(map(len, references))
        reference = pool(references).distinct()
        coverage = float(reference.weights[support.generates(reference.topologies)].sum())
    if out is not None:
        write_support(support, out)
    return SupportSummary(
        taxa=len(support.taxa),
        replicates=len(samples),
        trees=sum(map(len, samples)),
        topologies=support.topology_count,
        splits=len(support.splits),
        splits_left_out=support.splits_left_out,
        tables=support.table_count,
        parameters=support.parameter_count,
        reference_trees=reference_trees,
        coverage=coverage,
    )
