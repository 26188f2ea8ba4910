"""Alignment → posterior: read, support, model, train, evaluate, export; one run or several, new or resumed."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phloem.config import InferConfig
from phloem.config.infer import INFER, USUAL_MODEL
from phloem.config.partition import BY_CODON
from phloem.config.settings import Layer
from phloem.data.alignment import Alignment
from phloem.data.mrbayes_block import MrBayesBlock
from phloem.data.partitions import SitePartition, by_codon, read_partition
from phloem.data.patterns import SitePatterns, compress, summarize
from phloem.data.reading import load_alignment
from phloem.display.events import Event, News, Notice, Overview
from phloem.display.lines import choose_display
from phloem.errors import BadArgument, FileProblem, counted, listed
from phloem.features.convolutions import Convolution
from phloem.inference.chain_posterior import check_draws
from phloem.inference.measurement import checked_measurement, measure
from phloem.inference.particles import Estimator
from phloem.inference.training import Report, Reporter, Training, TrainingStart, start_in
from phloem.inference.trust import TABLES
from phloem.interrupts import held
from phloem.kernels.jit import compiled_count
from phloem.random_streams import RandomStream
from phloem.runs.checkpoints import Checkpoint, parse_interval, write_patiently
from phloem.runs.directory import SavedRuns, claimed
from phloem.runs.driver import Interrupted, RunOptions, RunRequest, Session, session, train
from phloem.runs.history import History, check_tensorboard
from phloem.runs.ranks import ALONE, Ranks
from phloem.runs.several import complete_runs
from phloem.search.replicates import alignment_hash
from phloem.storage.files import check_can_write, write_text
from phloem.target.estimation import typical_log_length
from phloem.target.free_parameters import model_in_words
from phloem.target.posterior import Prior, TreePosterior
from phloem.tasks.exports import make_exports, named_taxa
from phloem.tasks.following import begin
from phloem.tasks.mrbayes_file import MrBayesFile, mrbayes_file, renamed_in_words
from phloem.tasks.mrbayes_settings import TAKEN, block_constraints, block_settings, load_with_block, with_models
from phloem.tasks.opening import combine_runs
from phloem.tasks.own_parts import NOTHING_OWN, OwnParts, branches_of, family_of
from phloem.tasks.posterior import Posterior, TemporaryHome, TrainedRun, can_be_loaded, is_finished, load_posterior
from phloem.tasks.run_files import (
    BOOTSTRAP,
    SUPPORT,
    InferCheckpoint,
    InferRun,
    Results,
    RunInputs,
    build_target,
    infer_run,
    restore_training,
    write_results,
)
from phloem.tasks.support import Collected, SupportSource, Trees
from phloem.threads import single_threaded_products
from phloem.trees.constraint_files import read_constraints
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.rooting import check_outgroup
from phloem.trees.sample import TreeSample
from phloem.variational.families import BranchDistribution
from phloem.variational.sbn import SubsplitNetwork, SubsplitSupport, support_arrays, write_support

EXPLORED = "their trees join the support, and training starts from them"
WIDE = (
    "which is wide: the support has all trees that consist of clades that chains found, and training starts "
    "from how often they found each"
)
USUAL_MODEL_TAKEN = (
    f"model {USUAL_MODEL}, the default, with its parameters inferred; --model JC for the benchmarks' model"
)
FIRST_TREES = 20  # whose lengths say where tables begin
MANY_COORDINATES = 300  # of model parameters: from there on, a step's time grows with their square
Progress = Callable[[Event], None]
InferSession = Session[InferConfig, RunInputs]
Saved = SavedRuns[InferConfig, RunInputs]


class InferRequest(NamedTuple):
    """What to infer, from what, and where the files go."""

    source: str | Path | Alignment | None  # None resumes with the alignment of the run's checkpoint
    run: RunRequest
    trees: Trees = ()
    preset: str | None = None
    settings: Sequence[Layer] = ()
    base: InferConfig | None = None  # a whole configuration to start from
    home: TemporaryHome | None = None  # of the directory, if it is a temporary one
    own: OwnParts = NOTHING_OWN
    long_names: bool = False  # of a FASTA file
    bootstrap: Path | None = None  # the directory of bootstrap trees; by default one within the run's
    mrbayes: bool = False  # whether a new run takes model and priors from the alignment's MRBAYES block
    mrbayes_file: Path | None = None  # where alignment, model and priors go for MrBayes


def run_inference(request: InferRequest, progress: Progress, ranks: Ranks = ALONE) -> Posterior:
    """Infer a posterior, in a directory of its own that a stopped run resumes from.

    ranks: share out all but the bootstrap and what is written, and this process is the first of them.
    """
    options = _checked(request.run.options, ranks)
    if request.mrbayes_file is not None:
        _check_mrbayes_file(request.mrbayes_file, request.source)
    with session(infer_run(request.run.directory), request.run) as directory:
        is_first_use = compiled_count() == 0  # reading trees is a use already
        saved = _find_saved(directory, progress)
        source, alignment, block = _read_alignment(request, saved, progress)
        settings = [*_block_settings(source, block, request, progress), *request.settings]
        config = INFER.resolve(base=request.base or saved.config, preset=request.preset, settings=settings)
        config = request.own.recorded(config)
        saved.check_config(config, run_configs(config))
        _check_particles(config, ranks)
        constraints = _constraints(source, alignment, block, config, saved)
        trees = _support_source(source, alignment, config, request, saved, constraints)
        patterns = compress(alignment, _partition(source, alignment, block, config, saved, progress))
        target = build_target(patterns, config, options.threads, own=request.own, constraints=constraints)
        if config.outgroup is not None:
            check_outgroup(named_taxa(config.outgroup, alignment.taxa), alignment.taxa)
        if request.mrbayes_file is not None:
            _write_mrbayes(request.mrbayes_file, mrbayes_file(patterns, config, target, request.own), progress)
        progress(_overview(source, alignment, target, config, directory))
        if _takes_usual_model(config, settings, request, saved):
            progress(Notice(USUAL_MODEL_TAKEN, urgent=False))
        if target.dimension > MANY_COORDINATES:
            progress(Notice(f"{target.dimension:,} coordinates of model parameters take long: --link shares some"))
        if is_first_use:
            progress(Notice("the first use compiles phloem's kernels, which takes a minute, once", urgent=False))
        if ranks.size > 1:
            share = counted(config.training.particles, "particle")
            progress(Notice(f"{ranks.size} processes share out the {share} of every step", urgent=False))

        provenance = _provenance(source, alignment, trees, request, config, constraints)
        if not request.run.force:  # before the bootstrap, so that a run that is stopped in it knows its settings
            directory.record(config, provenance, seed=config.seed, command=request.run.command)
        collected = _collect(trees, target, saved, options.threads or 1, progress, ranks)
        inputs = RunInputs(source, patterns, collected.support, request.own, constraints)
        stays = collected.held and config.training.refit > 0  # without a last fit nothing else would train Q(τ)
        is_new = not all(_padded(saved.checkpoints, config.runs))
        length = _first_log_length(collected, target, config) if is_new else None
        start = TrainingStart(collected.logits, stays, collected.theta, length)
        trainings = [inputs.training(own_config, target, start) for own_config in run_configs(config)]
        checkpoints = [
            replace(found, inputs=inputs)
            if found
            else Checkpoint(own_config, inputs, training.state(), History(Report))
            for own_config, training, found in zip(
                run_configs(config), trainings, _padded(saved.checkpoints, config.runs), strict=True
            )
        ]
        runs = _begin(directory, request, config, checkpoints, provenance)
        if request.run.resume:
            progress(Notice(_where_from(checkpoints, config), urgent=False))

        if all(map(is_finished, runs)) and can_be_loaded(directory):
            for number in range(1, len(runs) + 1):
                progress(News(number, "done", 1.0))
            posterior = load_posterior(directory.path, home=request.home, own=request.own)
            if directory.has_exports():
                return posterior
        elif config.runs == 1:
            trainings[0].restore(checkpoints[0].training)
            posterior = complete(directory, checkpoints[0], trainings[0], options, progress, ranks=ranks)
            posterior = replace(posterior, home=request.home)
        else:
            if config.own or ranks.size > 1:  # objects of this process, or all processes for one run
                _complete_in_turn(runs, checkpoints, trainings, options, progress, ranks)
            else:
                _complete_several(runs, options, progress)
            loaded = [load_posterior(run.path, home=request.home, own=request.own) for run in runs]
            posterior = combine_runs(
                directory,
                config,
                runs=loaded,
                threads=options.threads or 1,
                progress=lambda share: progress(News(1, "chains", share)),
                ranks=ranks,
            )
            if posterior.summary.check is not None:
                progress(News(1, "done", 1.0))
        make_exports(posterior).write_to_run(directory)
        return posterior


def complete(
    run: InferRun,
    checkpoint: InferCheckpoint,
    training: Training,
    options: RunOptions,
    progress: Progress,
    *,
    number: int = 1,
    checked: bool = True,
    ranks: Ranks = ALONE,
) -> Posterior:
    """Train from a checkpoint to the end, evaluate, and write the results.

    number: of the run among several. checked: by chains, which check several runs together at their end. ranks: share
    all of this out.
    """
    config, inputs = checkpoint.config, checkpoint.inputs
    begin(ranks, checkpoint, training)
    write_support(inputs.support, run.path / SUPPORT)
    with single_threaded_products():
        reporter = Reporter(training, config.evaluation)
        train(run, checkpoint, training, reporter, options, progress, number=number)
        progress(News(number, "evaluation", 0.0, training.steps_done))
        measured = measure(
            training.model,
            training.target,
            config.evaluation,
            particles=config.training.particles,
            seed=config.seed,
            trained=training.steps_done * config.training.particles,
            progress=lambda phase, share: progress(News(number, phase, share, training.steps_done)),
            ranks=ranks,
        )
        checked_draws = check_draws(
            measured.draws,
            training.target,
            [training.model.network],
            chains=config.evaluation.chains if checked else 0,
            seed=config.seed,
            threads=options.threads or 1,
            progress=lambda share: progress(News(number, "chains", share, training.steps_done)),
            ranks=ranks,
        )
    measured = checked_measurement(measured, checked_draws)
    results = Results.of(training, measured, finished=True, check=checked_draws.check)
    summary = write_patiently(lambda: write_results(run, checkpoint, results), lambda text: progress(Notice(text)))
    progress(News(number, "done", 1.0, training.steps_done))
    trained = TrainedRun(checkpoint, training.target, training.model)
    return Posterior.from_draws(run.path, config, summary, measured.draws, trained=trained)


def complete_in_worker(path: Path, number: int, options: RunOptions, progress: Progress, *, patience: float) -> None:
    """Complete one of several runs, in a process of its own."""
    with claimed(infer_run(path), resume=True, patience=patience) as run:
        checkpoint, _ = run.checkpoints.newest()
        assert checkpoint is not None  # whoever started this process has just written or read it
        training = restore_training(checkpoint, checkpoint.inputs.target(checkpoint.config, options.threads))
        complete(run, checkpoint, training, options, progress, number=number, checked=False)


def _complete_several(runs: Sequence[InferRun], options: RunOptions, progress: Progress) -> None:
    waiting = []
    for number, run in enumerate(runs, 1):
        if is_finished(run):
            progress(News(number, "done", 1.0))
        else:
            waiting.append((number, run))
    complete_runs(waiting, f"{__name__}:{complete_in_worker.__name__}", options, progress)


def _complete_in_turn(
    runs: Sequence[InferRun],
    checkpoints: Sequence[InferCheckpoint],
    trainings: Sequence[Training],
    options: RunOptions,
    progress: Progress,
    ranks: Ranks,
) -> None:
    for number, (run, checkpoint, training) in enumerate(zip(runs, checkpoints, trainings, strict=True), 1):
        if is_finished(run):
            progress(News(number, "done", 1.0))
        else:
            training.restore(checkpoint.training)
            complete(run, checkpoint, training, options, progress, number=number, checked=False, ranks=ranks)


def run_configs(config: InferConfig) -> list[InferConfig]:
    """The settings of each of several runs: ordinary runs with seeds of their own."""
    return [replace(config, runs=1, seed=config.seed + number) for number in range(config.runs)]


def _first_log_length(collected: Collected, target: TreePosterior, config: InferConfig) -> float | None:
    """Where tables of branch lengths begin.

    Each of their rows has a long way from a length that fits no data, the longer the rarer its split: topologies are
    then chosen by how far their branches have come, and modes are lost. All branches of a network come along at once.
    """
    if config.branches not in TABLES:
        return None
    network = SubsplitNetwork(collected.support, collected.logits)
    topologies = network.sample(FIRST_TREES, stream=RandomStream(0, "first lengths"))
    return typical_log_length(target.likelihood, topologies)


def _checked(options: RunOptions, ranks: Ranks) -> RunOptions:
    if options.threads is not None and options.threads < 1:
        raise BadArgument(f"--threads {options.threads}: at least 1 is needed.")
    if options.tensorboard:
        check_tensorboard()
    return options._replace(threads=options.threads or ranks.cores())


def _check_particles(config: InferConfig, ranks: Ranks) -> None:
    particles = config.training.particles
    if particles < ranks.size:
        raise BadArgument(
            f"--particles {particles}: {ranks.size} processes cannot share them out. Start no more than {particles}."
        )


def _find_saved(directory: InferSession, progress: Progress) -> Saved:
    if not directory.request.resume:
        return SavedRuns(directory)
    return SavedRuns.find(directory, lambda text: progress(Notice(text)))


def _read_alignment(
    request: InferRequest, saved: Saved, progress: Progress
) -> tuple[str, Alignment, MrBayesBlock | None]:
    """The alignment's name, the alignment, which must be that of the checkpoints, and a new run's MRBAYES block."""
    block = None
    if request.source is None:
        if saved.first is None:
            raise BadArgument(f"{request.run.directory}: has no checkpoint to resume from. Name the alignment.")
        return saved.first.inputs.source, saved.first.inputs.patterns.alignment, None
    if isinstance(request.source, Alignment):
        source, alignment = "alignment", request.source
    else:
        source = str(request.source).encode(errors="backslashreplace").decode()
        # Only long names have blanks in them, so that a run knows by its own names how to read the file again.
        long_names = saved.first is not None and any(" " in name for name in saved.first.inputs.patterns.taxa)
        long_names = request.long_names or long_names
        mrbayes = request.mrbayes and request.base is None
        if mrbayes and saved.config is None:
            alignment, notes, block = load_with_block(request.source, long_names=long_names)
        else:
            alignment, notes = load_alignment(request.source, long_names=long_names, mrbayes=mrbayes)
        for note in notes:
            progress(Notice(note))
    for checkpoint in saved.checkpoints:
        if checkpoint is not None and not _is_same_alignment(checkpoint.inputs.patterns, alignment):
            raise FileProblem(
                f"{request.run.directory}: is a run on another alignment than {source}, or {source} has changed since. "
                "Use the alignment that the run began with, or start again with --force."
            )
    return source, alignment, block


def _block_settings(
    source: str, block: MrBayesBlock | None, request: InferRequest, progress: Progress
) -> Sequence[Layer]:
    """The settings of a MRBAYES block, which those of the user override, and lines about it."""
    if block is None:
        return ()
    given = {key for layer in request.settings for key in INFER.flatten(layer)}
    found = block_settings(source, block, given)
    for line in found.notices:
        progress(Notice(line, urgent=not line.startswith(TAKEN)))
    return [found.layer]


def _check_mrbayes_file(path: Path, source: str | Path | Alignment | None) -> None:
    """Raise if it cannot be written, or is the alignment that it is made from."""
    check_can_write(path)
    if isinstance(source, str | Path) and path.exists() and Path(source).exists() and path.samefile(source):
        raise BadArgument(f"--write-mrbayes {path}: is the alignment itself. Name another file.")


def _write_mrbayes(path: Path, found: MrBayesFile, progress: Progress) -> None:
    write_text(path, found.text)
    progress(Notice(f"{path}: the alignment with the same model and priors for MrBayes", urgent=False))
    if found.renamed:
        progress(Notice(f"{path}: names that MrBayes cannot read are others there: {renamed_in_words(found.renamed)}"))


def _partition(
    source: str,
    alignment: Alignment,
    block: MrBayesBlock | None,
    config: InferConfig,
    saved: Saved,
    progress: Progress,
) -> SitePartition | None:
    """The parts of the alignment: those of a checkpoint, or what the settings name."""
    if saved.first is not None:
        return saved.first.inputs.patterns.partition
    sites = config.partition.sites
    if sites is None:
        return None
    if sites == BY_CODON:
        partition = by_codon(alignment.site_count)
    elif block is not None and block.partition is not None and sites == source:
        partition = block.partition
    else:
        partition = read_partition(sites, alignment.site_count)
        for line in partition.ignored:
            progress(Notice(f"{sites}: {line}"))
    partition = with_models(partition, config.partition.model_names)
    if len(partition) == 1 and partition.models == (None,):
        return None  # the whole alignment
    named = [name for name, model in zip(partition.names, partition.models, strict=True) if model is not None]
    if named and block is None:
        others = "the model and its parameters in the settings are those of the others"
        progress(Notice(f"{listed(named)}: models as {sites} names them; {others}", urgent=False))
    return partition


def _constraints(
    source: str, alignment: Alignment, block: MrBayesBlock | None, config: InferConfig, saved: Saved
) -> TopologyConstraints | None:
    """What every tree must have: as a checkpoint says, with which the file must agree if it is still there."""
    path = config.constrain
    if path is None:
        return None
    if saved.first is None:
        if block is not None and path == source:
            return block_constraints(source, block, alignment.taxa)
        return read_constraints(path, alignment.taxa)
    known = saved.first.inputs.constraints
    if path != source and Path(path).exists():
        found = read_constraints(path, alignment.taxa)
        if not found.equal(known):
            raise FileProblem(
                f"{saved.directory.path}: is a run under other constraints than {path} has now. Put the file back as "
                "it was, or start again with --force."
            )
    return known


def _support_source(
    source: str,
    alignment: Alignment,
    config: InferConfig,
    request: InferRequest,
    saved: Saved,
    constraints: TopologyConstraints | None,
) -> SupportSource | None:
    """Where the trees for the support come from; None if a checkpoint has the support."""
    if saved.first is not None and not request.trees:
        return None
    path = request.run.directory
    if saved.first is None and saved.trees and not request.trees:
        raise BadArgument(
            f"{path}: the run was begun with --trees {' '.join(saved.trees)} and has no checkpoint yet. "
            "Give them again."
        )
    directory = request.bootstrap or path / BOOTSTRAP
    return SupportSource(
        source,
        alignment,
        config,
        request.trees,
        directory,
        may_replace=request.run.force,
        constraints=constraints,
    )


def _overview(
    source: str, alignment: Alignment, target: TreePosterior, config: InferConfig, directory: InferRun
) -> Overview:
    return Overview(
        source=source,
        alignment=summarize(alignment),
        model=model_in_words(target.likelihood.model, target.parameters),
        priors=target.priors_in_words(),
        branches=", ".join(part for part in (branches_of(config), family_of(config)) if part),
        steps=config.training.steps,
        runs=config.runs,
        directory=directory.path,
    )


def _takes_usual_model(config: InferConfig, settings: Sequence[Layer], request: InferRequest, saved: Saved) -> bool:
    """Whether nobody has named a model: neither the user, now or when the run began, nor a preset, nor a block."""
    is_named = any(INFER.flatten(layer).get("model.name") is not None for layer in settings)
    is_new = request.base is None and saved.config is None
    return is_new and not is_named and config.model == USUAL_MODEL


def _provenance(
    source: str,
    alignment: Alignment,
    trees: SupportSource | None,
    request: InferRequest,
    config: InferConfig,
    constraints: TopologyConstraints | None,
) -> dict[str, Any]:
    found = {} if constraints is None else {"constraints": constraints.as_json(str(config.constrain))}
    return {
        "alignment": {"source": source, "sha256": alignment_hash(alignment)},
        **found,
        "trees": ["a tree sample" if isinstance(tree, TreeSample) else str(tree) for tree in request.trees],
        "bootstrap": trees.bootstrap if trees else "",
    }


def _collect(
    trees: SupportSource | None,
    target: TreePosterior,
    saved: Saved,
    threads: int,
    progress: Progress,
    ranks: Ranks,
) -> Collected:
    """The support, which must be that of the checkpoints."""
    if trees is None:
        assert saved.first is not None
        # Checkpoints have what training started from, also for a run that has lost its own.
        start = start_in(saved.first.training)
        return Collected(saved.first.inputs.support, start.logits, None, start.held, start.theta)
    if trees.bootstrap:
        progress(Notice(trees.bootstrap, urgent=False))
    collected = trees.collect(
        target, threads, progress=lambda phase, share: progress(News(1, phase, share)), ranks=ranks
    )
    support = collected.support
    if support.splits_left_out:
        left_out = counted(support.splits_left_out, "split")
        progress(Notice(f"the support leaves out the {left_out} that are the rarest, which would make it too large"))
    for checkpoint in saved.checkpoints:
        if checkpoint is not None and not _is_same_support(checkpoint.inputs.support, support):
            raise FileProblem(
                f"{saved.directory.path}: is a run with another support than these trees give. Leave --trees out to "
                "resume with its own, or start again with --force."
            )
    if collected.left_out is not None:
        lacking, of = collected.left_out
        progress(Notice(f"{lacking:,} of {counted(of, 'tree')} left out of the support: without the constraints"))
    if collected.exploration is not None:
        found = collected.exploration
        told = f"{counted(found.chains, 'chain')} of {counted(found.rounds, 'round')} explored the posterior"
        is_closed = found.is_wide and support.closed
        progress(Notice(f"{told}, {WIDE}" if is_closed else f"{told}: {EXPLORED}", urgent=False))
    return collected


def _begin(
    directory: InferSession,
    request: InferRequest,
    config: InferConfig,
    checkpoints: Sequence[InferCheckpoint],
    provenance: dict[str, Any],
) -> list[InferRun]:
    """Have a checkpoint in the directory of every run; a run that is replaced is removed first."""
    command = request.run.command
    with held():
        directory.replace_old_run()
        if request.run.force:
            directory.record(config, provenance, seed=config.seed, command=command)
        runs: list[InferRun] = [directory]
        if config.runs > 1:
            runs = [directory.child(number + 1) for number in range(config.runs)]
        for run, checkpoint in zip(runs, checkpoints, strict=True):
            if run is not directory:
                run.make()
                run.record(checkpoint.config, provenance, seed=checkpoint.config.seed, command=command)
            if run.checkpoints.newest_step() is None:
                run.checkpoints.add(checkpoint)
    return runs


def _where_from(checkpoints: Sequence[InferCheckpoint], config: InferConfig) -> str:
    steps = [checkpoint.step for checkpoint in checkpoints]
    if not any(steps):
        return "no step is saved: starting from the beginning"
    return f"resuming from step {', '.join(f'{step:,}' for step in steps)} of {config.training.steps:,}"


def _padded(checkpoints: Sequence[InferCheckpoint | None], count: int) -> list[InferCheckpoint | None]:
    return [found for found, _ in zip_longest(checkpoints[:count], range(count))]


def _is_same_alignment(patterns: SitePatterns, alignment: Alignment) -> bool:
    return patterns.taxa == alignment.taxa and np.array_equal(patterns.alignment.states, alignment.states)


def _is_same_support(one: SubsplitSupport, two: SubsplitSupport) -> bool:
    parts, others = support_arrays(one), support_arrays(two)
    return all(np.array_equal(parts[name], others[name]) for name in parts)


def infer(
    alignment: str | Path | Alignment | None,
    trees: str | Path | TreeSample | Sequence[str | Path | TreeSample] | None = None,
    preset: str | None = None,
    *,
    out: str | Path | None = None,
    long_names: bool = False,
    mrbayes: bool = True,
    write_mrbayes: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    config: InferConfig | None = None,
    threads: int | None = None,
    checkpoint_every: str = "2m",
    tensorboard: bool = False,
    progress: bool | Progress = True,
    convolution: Callable[[int, int], Convolution] | None = None,
    family: str | type[BranchDistribution] | None = None,
    prior: Prior | None = None,
    estimator: Estimator | None = None,
    **settings: Any,
) -> Posterior:
    """Infer the posterior of an alignment: a file, a bundled example's name, or an `Alignment`.

    trees: for the support, files or samples; without any, as on the command line. preset: `standard` by default.
    config: a whole configuration to start from. settings: any setting by its name, such as `seed=2`, `runs=1` or
    `training={"steps": 1000}`. out: the run directory; without one the run is in a temporary directory, from where
    `Posterior.save` copies it. long_names, mrbayes, write_mrbayes, resume, force, threads, checkpoint_every,
    tensorboard: as on the command line; beside a `config`, a MrBayes block does not count. progress: whether to show
    it, or a function that gets the events. An interrupted run can be resumed: the message says how.

    convolution, family, prior, estimator: your own in place of phloem's, each tried on a small example first. The run
    directory has their names; to resume such a run, give them again. Several such runs are done one after another.
    A family can also be the name of one of phloem's.
    """
    if isinstance(family, str):
        settings["family"], family = family, None
    own = OwnParts(convolution, family, prior, estimator)
    given = [] if trees is None else [trees] if isinstance(trees, str | Path | TreeSample) else list(trees)
    home = TemporaryHome() if out is None else None
    directory = home.path / "run" if home else Path(str(out))
    options = RunOptions(threads, parse_interval(checkpoint_every), tensorboard)
    run = RunRequest(directory, resume, force, "phloem.infer", options)
    display: AbstractContextManager[Progress]
    display = nullcontext(progress) if callable(progress) else choose_display(plain=False, quiet=not progress)
    try:
        with display as show:
            request = InferRequest(
                alignment,
                run,
                given,
                preset,
                [settings],
                config,
                home,
                own,
                long_names,
                mrbayes=mrbayes,
                mrbayes_file=None if write_mrbayes is None else Path(write_mrbayes),
            )
            return run_inference(request, show)
    except Interrupted:
        if home:
            home.keep()
        raise
