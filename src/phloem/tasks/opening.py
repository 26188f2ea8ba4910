"""A run as it is: finished, at its last checkpoint, or drawn from anew; and several runs as one posterior."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phloem.config import EvaluationConfig, InferConfig
from phloem.errors import FileProblem
from phloem.inference.agreement import compare_runs
from phloem.inference.chain_check import ChainCheck
from phloem.inference.chain_posterior import check_draws
from phloem.inference.draws import Draws, join
from phloem.inference.evaluation import Estimated
from phloem.inference.measurement import Annealed, checked_measurement, measure, measure_annealed
from phloem.inference.summary import Summary, summarize_draws
from phloem.inference.trust import judge
from phloem.runs.directory import SUMMARY
from phloem.runs.ranks import ALONE, Ranks
from phloem.tasks.own_parts import family_of
from phloem.tasks.posterior import Posterior, TrainedRun, free_parameters, is_finished, load_posterior
from phloem.tasks.run_files import (
    InferCheckpoint,
    InferRun,
    Results,
    infer_run,
    restore_training,
    summarize,
    write_tables,
)
from phloem.threads import physical_cores, single_threaded_products

CHECK_SHARE = 0.3  # of the time of drawing anew, roughly, which chains take
FEW_REPEATS = 10  # at most, for a run that has not had its own evaluation

Progress = Callable[[float], None]


class Drawing(NamedTuple):
    """How to draw anew. None means as the run itself did."""

    samples: int | None = None
    repeats: int | None = None
    seed: int | None = None
    anneal: int | None = None  # draws to anneal instead

    def of(self, config: InferConfig) -> tuple[EvaluationConfig, int]:
        """How many draws to make from a run, and from which seed."""
        usual = config.evaluation
        evaluation = EvaluationConfig(
            samples=self.samples or usual.samples,
            repeats=self.repeats or usual.repeats,
            anneal=0,
            chains=usual.chains,
        )
        return evaluation, config.seed if self.seed is None else self.seed


def open_posterior(
    path: str | Path,
    *,
    drawing: Drawing | None = None,
    threads: int | None = None,
    progress: Progress = lambda _: None,
) -> Posterior:
    """The posterior of a run. One that is not finished is drawn from at its last checkpoint.

    drawing: draw anew, also from a finished run. progress: gets the share of the drawing that is done.
    """
    directory = _existing(path)
    if drawing is None and (directory.path / SUMMARY).exists():
        return load_posterior(path)
    children = directory.children()
    found = [(run, checkpoint) for run in directory.runs() if (checkpoint := _trained(run))]
    if not found:
        raise FileProblem(f"{path}: no training step is saved yet. {directory.how_to_finish()}")
    in_use = directory.is_in_use()
    drawn = 1 - CHECK_SHARE if children and drawing is not None else 1.0
    runs = []
    for number, (run, checkpoint) in enumerate(found):
        has_results = is_finished(run)
        if has_results and drawing is None:
            runs.append(load_posterior(run.path))
        else:
            if has_results and checkpoint.step != load_posterior(run.path).summary.steps:
                raise FileProblem(f"{run.path}: the last checkpoint is lost. Make it again: phloem infer --resume.")
            show = _part(progress, number / len(found) * drawn, (number + 1) / len(found) * drawn)
            alone = not children
            runs.append(
                _draw_from(run, checkpoint, drawing, in_use=in_use, checked=alone, threads=threads, progress=show)
            )
    if not children:
        return runs[0]
    draws = join([run.draws.own for run in runs])
    config = directory.read_config() or replace(runs[0].config, runs=len(children))
    check = None
    if drawing is not None and all(run.is_finished for run in runs):
        seed, show = drawing.of(config)[1], _part(progress, drawn, 1.0)
        check = _check_runs(runs, draws, config, seed, threads or physical_cores(), show)
    summary = summarize_runs(runs, draws, config, check, in_use=in_use)
    return Posterior.from_draws(directory.path, config, summary, draws, runs=tuple(runs))


def combine_runs(
    directory: InferRun,
    config: InferConfig,
    *,
    runs: Sequence[Posterior],
    threads: int = 1,
    progress: Progress = lambda _: None,
    ranks: Ranks = ALONE,
) -> Posterior:
    """Write topologies, clades and a summary of finished runs together, into the directory above theirs.

    Chains from the draws of all of them check the result. ranks: share the chains out, with the same target.
    """
    draws = join([run.draws.own for run in runs])
    check = _check_runs(runs, draws, config, config.seed, threads, progress, ranks)
    summary = summarize_runs(runs, draws, config, check)
    write_tables(directory, draws)
    directory.write_summary(summary.as_json())
    return Posterior.from_draws(directory.path, config, summary, draws, runs=tuple(runs), home=runs[0].home)


def _check_runs(
    runs: Sequence[Posterior],
    draws: Draws,
    config: InferConfig,
    seed: int,
    threads: int,
    progress: Progress,
    ranks: Ranks = ALONE,
) -> ChainCheck | None:
    if config.evaluation.chains == 0:  # before models are read
        return None
    with single_threaded_products():
        return check_draws(
            draws,
            runs[0].target,
            [run.model.network for run in runs],
            chains=config.evaluation.chains,
            seed=seed,
            adding=False,
            threads=threads,
            progress=progress,
            ranks=ranks,
        ).check


def summarize_runs(
    runs: Sequence[Posterior],
    draws: Draws,
    config: InferConfig,
    check: ChainCheck | None = None,
    *,
    in_use: bool = False,
) -> Summary:
    """All runs in a few numbers. The bounds are the best run's; the marginal likelihood is that of all draws.

    check: by chains from all draws. in_use: whether another process is training them.
    """
    agreement = compare_runs([run.draws.own for run in runs])
    finished = all(run.is_finished for run in runs) and len(runs) == config.runs
    steps = min(run.summary.steps for run in runs)
    trust = judge(
        draws.own_log_weights,
        agreement,
        check,
        steps_done=steps,
        steps=config.training.steps,
        finished=finished,
        branches=config.branches,
        family=family_of(config),
        runs=config.runs,
        in_use=in_use,
    )
    best = int(np.argmax(agreement.shares))
    summary = runs[best].summary
    return replace(
        summary,
        seed=config.seed,
        runs=len(runs),
        best_run=best + 1,
        finished=finished,
        steps=steps,
        evaluation=summary.evaluation._replace(log_marginal_likelihood=_mixed_likelihood(runs, agreement.shares)),
        agreement=agreement,
        annealed=_annealed(runs, summary.annealed),
        check=check,
        found=summarize_draws(draws, trust, free_parameters(runs[best])),
        stopped_early=False,
        skipped_steps=0,
    )


def _annealed(runs: Sequence[Posterior], best: Annealed | None) -> Annealed | None:
    """How the draws of several runs were annealed, some of them or all: as those of the best run if they were."""
    found = [run.summary.annealed for run in runs if run.summary.annealed]
    return (best or found[0])._replace(draws=sum(one.draws for one in found), plain=None) if found else None


def _mixed_likelihood(runs: Sequence[Posterior], shares: Sequence[float]) -> Estimated:
    """Mean and deviation of an estimate that is the mean of the runs' own."""
    means = np.array([run.log_marginal_likelihood.mean for run in runs])
    deviations = [run.log_marginal_likelihood.std for run in runs]
    mean = float(means.max() + math.log(np.exp(means - means.max()).mean()))
    if any(deviation is None for deviation in deviations):
        return Estimated(mean, None)
    return Estimated(mean, float(np.linalg.norm(np.array(shares) * np.array(deviations, float))))


def taxa_of(path: str | Path) -> tuple[str, ...]:
    """The taxa of a run, in its order."""
    directory = _existing(path)
    for run in directory.runs():
        found, _ = run.checkpoints.newest()
        if found is not None:
            return found.inputs.support.taxa
    raise FileProblem(f"{path}: has no checkpoint that can be read. {directory.how_to_finish()}")


def _existing(path: str | Path) -> InferRun:
    directory = infer_run(path)
    directory.check_holds_run()
    return directory


def _trained(run: InferRun) -> InferCheckpoint | None:
    """The newest checkpoint of a run that has taken a step. A damaged one must not pass for a run not yet begun."""
    found, problems = run.checkpoints.newest()
    if problems and (found is None or found.step != run.checkpoints.newest_step()):
        raise FileProblem(f"{problems[0]} Resume the run from what is whole: phloem infer --resume.")
    return found if found is not None and found.step > 0 else None


def _draw_from(
    run: InferRun,
    checkpoint: InferCheckpoint,
    drawing: Drawing | None,
    *,
    in_use: bool,
    checked: bool,
    threads: int | None,
    progress: Progress,
) -> Posterior:
    """The posterior of a run at a checkpoint: finished if training is, whatever has become of the results.

    checked: by chains, once it is finished.
    """
    config = checkpoint.config
    target = checkpoint.inputs.target(config, threads)
    training = restore_training(checkpoint, target)
    if drawing is None:
        drawing = Drawing(repeats=min(FEW_REPEATS, config.evaluation.repeats))
    evaluated, seed = drawing.of(config)
    particles = config.training.particles
    finished = training.is_done(checkpoint.history.reports)
    chains = evaluated.chains if finished and checked else 0
    show = _part(progress, 0.0, 1 - CHECK_SHARE if chains else 1.0)
    with single_threaded_products():
        if drawing.anneal:
            measured = measure_annealed(
                training.model, target, evaluated, drawing.anneal, particles=particles, seed=seed, progress=show
            )
        else:
            measured = measure(
                training.model,
                target,
                evaluated,
                particles=particles,
                seed=seed,
                progress=lambda _phase, share: show(share),
            )
        checked_draws = check_draws(
            measured.draws,
            target,
            [training.model.network],
            chains=chains,
            seed=seed,
            threads=threads or physical_cores(),
            progress=_part(progress, 1 - CHECK_SHARE, 1.0),
        )
    measured = checked_measurement(measured, checked_draws)
    results = Results.of(training, measured, finished=finished, check=checked_draws.check)
    summary = summarize(checkpoint, results, in_use=in_use)
    trained = TrainedRun(checkpoint, target, training.model)
    return Posterior.from_draws(run.path, config, summary, measured.draws, trained=trained)


def _part(progress: Progress, first: float, last: float) -> Progress:
    """Progress of a part, as progress of the whole."""
    return lambda share: progress(first + share * (last - first))
