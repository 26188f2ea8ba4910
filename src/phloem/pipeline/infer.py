"""Alignment → posterior: support, training, evaluation, report; one run or several, begun or gone on with."""

from collections.abc import Callable
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from phloem.config import InferConfig, to_toml
from phloem.data.alignment import Alignment
from phloem.data.patterns import SitePatterns, compress
from phloem.data.reading import read_alignment
from phloem.data.summary import summarize
from phloem.display.news import News, Notice, Overview, Phase
from phloem.errors import BadArgument, PhloemError
from phloem.inference.checkpoints import Checkpoint
from phloem.inference.history import History
from phloem.inference.training import Training
from phloem.interrupts import stoppable
from phloem.kernels.jit import has_compiled
from phloem.pipeline.combination import combine_runs
from phloem.pipeline.completion import Progress, RunOptions, complete_run
from phloem.pipeline.events import check_tensorboard
from phloem.pipeline.exports import make_exports
from phloem.pipeline.model_building import build_model, build_target
from phloem.pipeline.owned_directory import claimed
from phloem.pipeline.posterior import Posterior, TemporaryHome, can_be_loaded, is_finished, load_from
from phloem.pipeline.provenance import write_provenance
from phloem.pipeline.run_directory import RunDirectory
from phloem.pipeline.run_traces import CONFIG
from phloem.pipeline.saved_runs import SavedRuns, alignment_of, find_saved, run_configs
from phloem.pipeline.several_runs import complete_runs
from phloem.pipeline.support_source import SupportSource, Trees
from phloem.search.replicates import alignment_hash
from phloem.target.threads import physical_cores
from phloem.trees.sample import TreeSample
from phloem.variational.support import SubsplitSupport


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
        return saved.first.source, alignment_of(saved.first.patterns)
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
