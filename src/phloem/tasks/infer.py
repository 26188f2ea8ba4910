"""Alignment → posterior: support, training, evaluation, report; one run or several, new or resumed."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phloem.config import InferConfig, read_config, to_toml
from phloem.config.settings import differences
from phloem.data.alignment import Alignment
from phloem.data.patterns import SitePatterns, compress, summarize
from phloem.data.reading import read_alignment
from phloem.display.events import News, Notice, Overview, Phase
from phloem.errors import BadArgument, FileProblem, PhloemError
from phloem.inference.training import Training
from phloem.interrupts import stoppable
from phloem.kernels.jit import has_compiled
from phloem.runs.directory import CONFIG, PROVENANCE, claimed, read_provenance, write_provenance
from phloem.runs.history import History
from phloem.search.replicates import alignment_hash
from phloem.storage.files import read_bytes
from phloem.tasks.exports import make_exports
from phloem.tasks.models import build_model, build_target
from phloem.tasks.opening import combine_runs
from phloem.tasks.posterior import Posterior, TemporaryHome, can_be_loaded, is_finished, load_from
from phloem.tasks.run_directory import Checkpoint, RunDirectory
from phloem.tasks.several import complete_runs
from phloem.tasks.support import SupportSource, Trees
from phloem.tasks.training import Progress, RunOptions, check_tensorboard, complete_run
from phloem.threads import physical_cores
from phloem.trees.sample import TreeSample
from phloem.variational.support import SubsplitSupport, support_arrays


@dataclass(frozen=True, slots=True)
class SavedRuns:
    """The settings that a directory's run was begun with, and the newest checkpoint of each of its runs, if any."""

    path: Path
    config: InferConfig | None = None
    checkpoints: tuple[Checkpoint | None, ...] = ()
    several: bool = False  # whether the runs have directories of their own
    trees: tuple[str, ...] = ()  # that were given for the support

    @property
    def first(self) -> Checkpoint | None:
        """Any checkpoint: all are of the same alignment and support."""
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint is not None), None)

    @property
    def support(self) -> SubsplitSupport:
        """That of the checkpoints, of which there must be one."""
        assert self.first is not None
        return self.first.support

    def check_trees(self, trees: Trees) -> None:
        """Raise if trees were given to a run that has no checkpoint yet, and are not given again."""
        if self.first is None and self.trees and not trees:
            raise BadArgument(
                f"{self.path}: the run was begun with --trees {' '.join(self.trees)} and has no checkpoint yet. "
                "Give them again."
            )

    def check_config(self, config: InferConfig) -> None:
        """Raise unless every checkpoint is of these settings."""
        if self.first is None:
            return
        before = [self.config, *(read_config(found.config, str(self.path)) for found in self.checkpoints if found)]
        wanted = [config, *(own for own, found in zip(run_configs(config), self.checkpoints, strict=False) if found)]
        different = [line for one, two in zip(before, wanted, strict=False) if one for line in differences(one, two)]
        if self.several != (config.runs > 1) or len(self.checkpoints) > config.runs:
            different = [f"runs is {len(self.checkpoints)}, not {config.runs}"]
        if different:
            raise FileProblem(
                f"{self.path}: is a run with other settings: {different[0]}. Leave the settings out to go on with its "
                "own, or start anew with --force."
            )

    def check_alignment(self, alignment: Alignment, source: str) -> None:
        """Raise unless every checkpoint is of this alignment."""
        for checkpoint in self.checkpoints:
            if checkpoint is not None and not _is_alignment_of(checkpoint.patterns, alignment):
                raise FileProblem(
                    f"{self.path}: is a run on another alignment than {source}, or {source} has changed since. "
                    "Use the alignment that the run began with, or start anew with --force."
                )

    def check_support(self, support: SubsplitSupport) -> None:
        """Raise unless every checkpoint has this support."""
        for checkpoint in self.checkpoints:
            if checkpoint is not None and not _is_same_support(checkpoint.support, support):
                raise FileProblem(
                    f"{self.path}: is a run with another support than these trees give. Leave --trees out to go on "
                    "with its own, or start anew with --force."
                )


def find_saved(directory: RunDirectory, notice: Callable[[str], None]) -> SavedRuns:
    """Read the newest whole checkpoint of every run in the directory; damaged ones are told of."""
    children = directory.children()
    checkpoints = tuple(run.newest_checkpoint(notice) for run in children or [directory])
    path = directory.path / CONFIG
    config = None
    if path.exists():
        config = read_config(read_bytes(path).decode(errors="replace"), str(path))
    elif checkpoints[0] is not None:
        config = replace(read_config(checkpoints[0].config, str(directory.path)), runs=max(1, len(children)))
    trees = read_provenance(directory.path / PROVENANCE).get("trees", ())
    return SavedRuns(directory.path, config, checkpoints, several=bool(children), trees=tuple(map(str, trees)))


def run_configs(config: InferConfig) -> list[InferConfig]:
    """The settings of each of several runs: ordinary runs with seeds of their own."""
    return [replace(config, runs=1, seed=config.seed + number) for number in range(config.runs)]


def _is_alignment_of(patterns: SitePatterns, alignment: Alignment) -> bool:
    before = patterns.alignment
    return before.taxa == alignment.taxa and np.array_equal(before.states, alignment.states)


def _is_same_support(one: SubsplitSupport, two: SubsplitSupport) -> bool:
    parts, others = support_arrays(one), support_arrays(two)
    return all(np.array_equal(parts[name], others[name]) for name in parts)


class Request(NamedTuple):
    """What is to be inferred, from what, and where the files go."""

    source: str | Path | Alignment | None  # None goes on with the alignment of the run's checkpoint
    directory: Path
    resolve: Callable[[InferConfig | None], InferConfig]  # from the settings of the run to go on with, if there is one
    trees: Trees = ()
    resume: bool = False
    force: bool = False
    command: str = ""  # for the records
    home: TemporaryHome | None = None  # of the directory, if it is a temporary one


class Interrupted(KeyboardInterrupt):
    """A run was stopped, at the end of a step that is saved or, with None, before there was anything to save.

    begun: whether it had begun at all, or the run that it was to replace is still there.
    """

    def __init__(self, directory: Path, step: int | None, *, begun: bool) -> None:
        saved = f"and saved at step {step:,}" if step else "before the first step"
        how = f"Go on with phloem.infer(…, out={str(directory)!r}, resume=True)." if begun else "Nothing has changed."
        super().__init__(f"stopped {saved}. {how}")
        self.directory = directory
        self.step = step
        self.begun = begun


class Plan(NamedTuple):
    """A run that is ready to begin or to go on; nothing that was there has been removed for it."""

    config: InferConfig
    source: str
    alignment: Alignment
    checkpoints: list[Checkpoint]  # of each run, the newest or the one before the first step
    bootstrap: str  # what the trees for the support are from, if they were made for this


def run_inference(request: Request, options: RunOptions, progress: Progress) -> Posterior:
    """Infer a posterior, in a directory of its own that a stopped run goes on from."""
    if options.threads is not None and options.threads < 1:
        raise BadArgument(f"--threads {options.threads}: at least 1 is needed.")
    options = options._replace(threads=options.threads or physical_cores())
    if options.tensorboard:
        check_tensorboard()
    begun = not request.force
    try:
        with (
            stoppable(),
            claimed(RunDirectory(request.directory), resume=request.resume, force=request.force) as directory,
        ):
            plan = _plan(directory, request, options, progress)
            begun = True
            runs = _begin(directory, request, plan)
            if request.resume:
                progress(Notice(_where_from(plan), urgent=False))
            finished = all(map(is_finished, runs)) and can_be_loaded(directory)
            if plan.config.runs > 1:
                complete_runs(runs, options, progress)
                if not finished:
                    combine_runs(directory, plan.config)
            elif not finished:
                complete_run(directory, plan.checkpoints[0], options, progress)
            posterior = load_from(directory.path, request.home)
            if not finished or not directory.has_exports():
                make_exports(posterior).write(directory.path)
            return posterior
    except KeyboardInterrupt:
        directory = RunDirectory(request.directory)
        raise Interrupted(directory.path, _saved_step(directory), begun=begun and directory.holds_run()) from None


def _plan(directory: RunDirectory, request: Request, options: RunOptions, progress: Progress) -> Plan:
    """Settings, alignment, support and first parameters. What is wrong with any of them is found here."""
    is_first_use = not has_compiled()  # reading trees is a use already
    saved = SavedRuns(directory.path)
    if request.resume:
        saved = find_saved(directory, lambda text: progress(Notice(text)))
    config = request.resolve(saved.config)
    saved.check_config(config)
    source, alignment = _alignment(request, saved)
    trees = None
    if saved.first is None or request.trees:
        saved.check_trees(request.trees)
        trees = SupportSource(source, alignment, config, request.trees, directory.bootstrap, may_replace=request.force)
    bootstrap = trees.bootstrap if trees else ""
    patterns = compress(alignment)
    progress(
        Overview(
            source=source,
            alignment=summarize(alignment),
            model=build_target(patterns, config).likelihood.model.in_words(),
            branches=config.branches,
            steps=config.training.steps,
            runs=config.runs,
            directory=directory.path,
        )
    )
    if is_first_use:
        progress(Notice("the first use compiles phloem's kernels, which takes a minute, once", urgent=False))
    if not request.force:  # before the bootstrap, so that a run that is stopped in it knows its settings
        _record(directory, request, config, source, alignment, bootstrap)
    support = _collect(trees, options, progress) if trees else saved.support
    saved.check_support(support)
    checkpoints = [
        found or _first_checkpoint(own_config, source, patterns, support)
        for own_config, found in zip_longest(run_configs(config), saved.checkpoints[: config.runs])
    ]
    return Plan(config, source, alignment, checkpoints, bootstrap)


def _begin(directory: RunDirectory, request: Request, plan: Plan) -> list[RunDirectory]:
    """Have a checkpoint in the directory of every run; a run that was there goes if it is to be replaced."""
    if request.force:
        directory.clear()
        _record(directory, request, plan.config, plan.source, plan.alignment, plan.bootstrap)
    config = plan.config
    runs = [directory] if config.runs == 1 else [directory.child(number + 1) for number in range(config.runs)]
    for run, own_config, checkpoint in zip(runs, run_configs(config), plan.checkpoints, strict=True):
        if run is not directory:
            run.make()
            _record(run, request, own_config, plan.source, plan.alignment, plan.bootstrap)
        if run.checkpoints.newest_step() is None:
            run.checkpoints.add(checkpoint)
    return runs


def _record(
    run: RunDirectory, request: Request, config: InferConfig, source: str, alignment: Alignment, bootstrap: str
) -> None:
    """Write down what the run is: where it comes from, then its settings."""
    trees = ["a tree sample" if isinstance(tree, TreeSample) else str(tree) for tree in request.trees]
    named = {"source": source, "sha256": alignment_hash(alignment)}
    inputs = {"alignment": named, "trees": trees, "bootstrap": bootstrap}
    write_provenance(run, inputs, seed=config.seed, command=request.command)
    run.write(CONFIG, to_toml(config))


def _alignment(request: Request, saved: SavedRuns) -> tuple[str, Alignment]:
    """The alignment's name, and the alignment, which must be that of the checkpoints."""
    if request.source is None:
        if saved.first is None:
            raise BadArgument(f"{request.directory}: has no checkpoint to go on from. Name the alignment.")
        return saved.first.source, saved.first.patterns.alignment
    if isinstance(request.source, Alignment):
        source, alignment = "alignment", request.source
    else:
        source = str(request.source).encode(errors="backslashreplace").decode()
        alignment = read_alignment(request.source)
    saved.check_alignment(alignment, source)
    return source, alignment


def _collect(trees: SupportSource, options: RunOptions, progress: Progress) -> SubsplitSupport:
    phase: Phase = "bootstrap" if trees.bootstrap else "support"
    if trees.bootstrap:
        progress(Notice(trees.bootstrap, urgent=False))
    progress(News(1, phase, 0.0))
    return trees.collect(options.threads, progress=lambda share: progress(News(1, phase, share)))


def _first_checkpoint(config: InferConfig, source: str, patterns: SitePatterns, support: SubsplitSupport) -> Checkpoint:
    """The checkpoint before the first step."""
    training = Training(build_model(support, config), build_target(patterns, config), config.training, seed=config.seed)
    return Checkpoint(source, to_toml(config), patterns, support, training.state(), History())


def _where_from(plan: Plan) -> str:
    steps = [checkpoint.step for checkpoint in plan.checkpoints]
    if not any(steps):
        return "no checkpoint yet: starting from the beginning"
    return f"going on from step {', '.join(f'{step:,}' for step in steps)} of {plan.config.training.steps:,}"


def _saved_step(directory: RunDirectory) -> int | None:
    """The step that a stopped run can go on from: of several runs the least."""
    with suppress(PhloemError):
        found = [run.checkpoints.newest()[0] for run in directory.children() or [directory]]
        return min((checkpoint.step for checkpoint in found if checkpoint is not None), default=None)
    return None
