"""Alignment → posterior: support, training, evaluation; one run or several, begun or gone on with."""

from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from phloem.config import InferConfig, to_toml
from phloem.data.alignment import Alignment
from phloem.data.patterns import SitePatterns, compress
from phloem.data.reading import read_alignment
from phloem.data.summary import summarize
from phloem.display.news import News, Notice, Overview, Phase
from phloem.errors import BadArgument
from phloem.inference.checkpoints import Checkpoint
from phloem.inference.history import History
from phloem.inference.training import Training
from phloem.interrupts import stoppable
from phloem.kernels.jit import has_compiled
from phloem.pipeline.combination import combine_runs
from phloem.pipeline.completion import Progress, RunOptions, complete_run
from phloem.pipeline.events import check_tensorboard
from phloem.pipeline.model_building import build_model, build_target
from phloem.pipeline.posterior import Posterior, TemporaryHome, load_from
from phloem.pipeline.provenance import write_provenance
from phloem.pipeline.run_directory import CONFIG, RunDirectory, claimed
from phloem.pipeline.saved_runs import SavedRuns, alignment_of, find_saved, run_configs
from phloem.pipeline.several_runs import complete_runs
from phloem.pipeline.support_source import SupportSource, Trees
from phloem.target.threads import physical_cores
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
    """A run was stopped, at the end of a step that is saved or, with None, before there was anything to save."""

    def __init__(self, directory: Path, step: int | None) -> None:
        saved = "before the first step" if step is None else f"and saved at step {step:,}"
        super().__init__(f"stopped {saved}. Go on with phloem.infer(…, out={str(directory)!r}, resume=True).")
        self.directory = directory
        self.step = step


def run_inference(request: Request, options: RunOptions, progress: Progress) -> Posterior:
    """Infer a posterior, in a directory of its own that a stopped run goes on from."""
    options = options._replace(threads=options.threads or physical_cores())
    if options.tensorboard:
        check_tensorboard()
    with claimed(request.directory, resume=request.resume, force=request.force) as directory:
        try:
            with stoppable():
                _infer(directory, request, options, progress)
        except KeyboardInterrupt:
            raise Interrupted(directory.path, _saved_step(directory)) from None
        return load_from(directory.path, request.home)


def _infer(directory: RunDirectory, request: Request, options: RunOptions, progress: Progress) -> None:
    saved = SavedRuns(directory.path)
    if request.resume:
        saved = find_saved(directory, lambda text: progress(Notice(text)))
    config = request.resolve(saved.config)
    saved.check_config(config)
    source, alignment = _alignment(request, saved)
    patterns = compress(alignment)
    target = build_target(patterns, config)
    progress(
        Overview(
            source=source,
            alignment=summarize(alignment),
            model=target.likelihood.model.in_words(),
            branches=config.branches,
            steps=config.training.steps,
            runs=config.runs,
            directory=directory.path,
        )
    )
    if not has_compiled():
        progress(Notice("the first use compiles phloem's kernels, which takes a minute, once"))
    support = _support(directory, request, saved, source, alignment, config, options, progress)
    directory.write(CONFIG, to_toml(config))
    write_provenance(directory, alignment, source, config, request.command)
    runs = [directory] if config.runs == 1 else [directory.child(number + 1) for number in range(config.runs)]
    begun: list[Checkpoint] = []
    for run, own_config, found in zip_longest(runs, run_configs(config), saved.checkpoints):
        begun.append(found or _begin(run, own_config, source, patterns, support))
        if run is not directory:
            write_provenance(run, alignment, source, own_config, request.command)
    if request.resume:
        progress(Notice(_where_from(begun, config)))
    if config.runs == 1:
        if not directory.is_finished():
            complete_run(directory, begun[0], options, progress)
    else:
        complete_runs(runs, options, progress)
        combine_runs(directory, config)


def _alignment(request: Request, saved: SavedRuns) -> tuple[str, Alignment]:
    """The alignment's name, and the alignment, which must be that of the checkpoints."""
    if request.source is None:
        if saved.first is None:
            raise BadArgument(f"{request.directory}: has no checkpoint to go on from. Name the alignment.")
        return saved.first.source, alignment_of(saved.first.patterns)
    if isinstance(request.source, Alignment):
        source, alignment = "alignment", request.source
    else:
        source, alignment = str(request.source), read_alignment(request.source)
    saved.check_alignment(alignment, source)
    return source, alignment


def _support(
    directory: RunDirectory,
    request: Request,
    saved: SavedRuns,
    source: str,
    alignment: Alignment,
    config: InferConfig,
    options: RunOptions,
    progress: Progress,
) -> SubsplitSupport:
    """The support of the checkpoints or, where there are none yet, a new one. Its trees must be there before a run
    that is in the way is removed."""
    if saved.first is not None and not request.trees:
        return saved.first.support
    trees = SupportSource(source, alignment, config, request.trees)
    if request.force:
        directory.clear()
    phase: Phase = "bootstrap" if trees.is_bootstrap else "support"
    progress(News(1, phase, 0.0))
    support = trees.collect(
        directory.bootstrap,
        options.threads,
        replace=request.force,
        progress=lambda share: progress(News(1, phase, share)),
    )
    saved.check_support(support)
    return support


def _begin(
    run: RunDirectory, config: InferConfig, source: str, patterns: SitePatterns, support: SubsplitSupport
) -> Checkpoint:
    """The checkpoint before the first step."""
    run.make()
    training = Training(build_model(support, config), build_target(patterns, config), config.training, seed=config.seed)
    checkpoint = Checkpoint(source, to_toml(config), patterns, support, training.state(), History())
    run.checkpoints.add(checkpoint)
    return checkpoint


def _where_from(begun: list[Checkpoint], config: InferConfig) -> str:
    steps = [checkpoint.step for checkpoint in begun]
    if not any(steps):
        return "no checkpoint yet: starting from the beginning"
    return f"going on from step {', '.join(f'{step:,}' for step in steps)} of {config.training.steps:,}"


def _saved_step(directory: RunDirectory) -> int | None:
    """The step that a stopped run can go on from: of several runs the least."""
    steps = [step for run in directory.children() or [directory] if (step := run.checkpoints.newest_step()) is not None]
    return min(steps, default=None)
