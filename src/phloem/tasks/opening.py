"""A run directory as it is: finished, as far as it has come, or drawn from anew; several runs as one posterior."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phloem.config import EvaluationConfig, InferConfig, read_config
from phloem.errors import FileProblem
from phloem.inference.agreement import Agreement, compare_runs
from phloem.inference.draws import DrawCollector, Draws, join
from phloem.inference.evaluation import evaluate
from phloem.inference.trust import judge
from phloem.random_streams import RandomStream
from phloem.runs.directory import CONFIG
from phloem.storage.files import read_bytes
from phloem.tasks.models import build_target, restore_training
from phloem.tasks.posterior import Posterior, is_finished, load_posterior
from phloem.tasks.results import Results, describe_draws, summarize, write_tables
from phloem.tasks.run_directory import Checkpoint, RunDirectory
from phloem.threads import single_threaded_products
from phloem.trees.splits import split_frequencies

SHARED = ("names", "taxa", "sites", "patterns", "model", "branches", "support", "evaluation")
FIRST_LOOK = 10  # repeats at most, for a run that has not had its own evaluation
Progress = Callable[[float], None]


def combine_runs(directory: RunDirectory, config: InferConfig) -> None:
    """Write topologies, clades and a summary of all runs together, into the directory above theirs."""
    runs = [load_posterior(child.path) for child in directory.children()]
    draws = join([run.draws for run in runs])
    write_tables(directory, draws.weighted())
    directory.write_summary(summarize_runs(runs, draws, config))


def summarize_runs(runs: Sequence[Posterior], draws: Draws, config: InferConfig) -> dict[str, Any]:
    """All runs in a few numbers. The bounds are the best run's; the marginal likelihood is that of all draws."""
    agreement = compare_runs([run.draws for run in runs])
    finished = all(run.is_finished for run in runs) and len(runs) == config.runs
    steps_done = min(run.summary["steps"] for run in runs)
    trust = judge(draws.log_weights, agreement, steps_done=steps_done, steps=config.training.steps, finished=finished)
    best = int(np.argmax(agreement.shares))
    summary = runs[best].summary
    return {
        **{name: summary[name] for name in SHARED},
        "seed": config.seed,
        "runs": len(runs),
        "best_run": best + 1,
        "finished": finished,
        "steps": steps_done,
        "elbo": summary["elbo"],
        "lower_bound": summary["lower_bound"],
        "log_marginal_likelihood": _mixed_likelihood(runs, agreement.shares),
        "agreement": describe_agreement(agreement),
        **describe_draws(draws, trust),
    }


def describe_agreement(agreement: Agreement) -> dict[str, Any]:
    """Plain numbers."""
    return {
        "log_marginal_likelihoods": [estimate._asdict() for estimate in agreement.log_marginal_likelihoods],
        "shares": list(agreement.shares),
        "marginal_likelihood_difference": agreement.difference._asdict(),
        "average_split_deviation": agreement.splits.average,
        "largest_split_deviation": agreement.splits.largest,
        "largest_split_difference": agreement.splits.largest_difference,
    }


def _mixed_likelihood(runs: Sequence[Posterior], shares: Sequence[float]) -> dict[str, float | None]:
    """Mean and deviation of an estimate that is the mean of the runs' own."""
    means = np.array([run.log_marginal_likelihood.mean for run in runs])
    deviations = [run.log_marginal_likelihood.std for run in runs]
    mean = float(means.max() + math.log(np.exp(means - means.max()).mean()))
    if any(deviation is None for deviation in deviations):
        return {"mean": mean, "std": None}
    return {"mean": mean, "std": float(np.linalg.norm(np.array(shares) * np.array(deviations, float)))}


class Drawing(NamedTuple):
    """How draws are to be made anew. What is None is as the run itself has it."""

    samples: int | None = None
    repeats: int | None = None
    seed: int | None = None

    def of(self, config: InferConfig) -> tuple[EvaluationConfig, int]:
        """How many draws of a run are to be made, and from which seed."""
        usual = config.evaluation
        evaluation = EvaluationConfig(samples=self.samples or usual.samples, repeats=self.repeats or usual.repeats)
        return evaluation, config.seed if self.seed is None else self.seed


def open_posterior(
    path: str | Path,
    *,
    drawing: Drawing | None = None,
    threads: int | None = None,
    progress: Progress = lambda _: None,
) -> Posterior:
    """The posterior of a run. One that is not finished is drawn from as its last checkpoint has it.

    drawing: draw anew, also from a finished run. progress: is told the share of the drawing that is done.
    """
    directory = _existing(path)
    if drawing is None and (directory.path / "summary.json").exists():
        return load_posterior(path)
    children = directory.children()
    found = [(run, checkpoint) for run in children or [directory] if (checkpoint := _trained(run))]
    if not found:
        raise FileProblem(f"{path}: no step of training is done yet. Go on with it: phloem infer --resume.")
    runs = []
    for number, (run, checkpoint) in enumerate(found):
        finished = is_finished(run)
        if finished and drawing is None:
            runs.append(load_posterior(run.path))
        else:
            if finished and checkpoint.step != load_posterior(run.path).summary["steps"]:
                raise FileProblem(f"{run.path}: the last checkpoint is lost. Make it again: phloem infer --resume.")
            show = _part(progress, number, len(found))
            runs.append(_draw_from(run, checkpoint, drawing, finished=finished, threads=threads, progress=show))
    return _as_one(directory, runs) if children else runs[0]


def taxa_of(path: str | Path) -> tuple[str, ...]:
    """The taxa of a run, in its order."""
    directory = _existing(path)
    for run in directory.children() or [directory]:
        found, _ = run.checkpoints.newest()
        if found is not None:
            return found.support.taxa
    raise FileProblem(f"{path}: has no checkpoint that can be read. Go on with it: phloem infer --resume.")


def _existing(path: str | Path) -> RunDirectory:
    directory = RunDirectory(Path(path))
    directory.check_holds_run()
    return directory


def _draw_from(
    run: RunDirectory,
    checkpoint: Checkpoint,
    drawing: Drawing | None,
    *,
    finished: bool,
    threads: int | None,
    progress: Progress,
) -> Posterior:
    """The posterior of a run at a checkpoint."""
    config = read_config(checkpoint.config, str(run.path))
    target = build_target(checkpoint.patterns, config, threads)
    training = restore_training(checkpoint, target)
    if drawing is None:
        drawing = Drawing(repeats=min(FIRST_LOOK, config.evaluation.repeats))
    evaluated, seed = drawing.of(config)
    collector = DrawCollector()
    with single_threaded_products():
        evaluation = evaluate(
            training.model,
            target,
            evaluated,
            particles=config.training.particles,
            stream=RandomStream(seed, "evaluation"),
            keep=collector,
            progress=lambda repeat: progress(repeat / evaluated.repeats),
        )
    draws = collector.draws(checkpoint.support.taxa)
    trees = draws.weighted().topology_sample()
    results = Results(config, training, checkpoint.history, finished, evaluated, evaluation, draws)
    return Posterior(run.path, config, summarize(results), trees, split_frequencies(trees), (), None, draws)


def _as_one(directory: RunDirectory, runs: list[Posterior]) -> Posterior:
    draws = join([run.draws for run in runs])
    trees = draws.weighted().topology_sample()
    config = _config(directory, runs[0].config)
    summary = summarize_runs(runs, draws, config)
    return Posterior(directory.path, config, summary, trees, split_frequencies(trees), tuple(runs), None, draws)


def _config(directory: RunDirectory, of_a_run: InferConfig) -> InferConfig:
    path = directory.path / CONFIG
    if not path.exists():
        return replace(of_a_run, runs=len(directory.children()))
    return read_config(read_bytes(path).decode(errors="replace"), str(path))


def _trained(run: RunDirectory) -> Checkpoint | None:
    """The newest checkpoint of a run that has taken a step."""
    found, problems = run.checkpoints.newest()
    if found is None and problems:
        raise FileProblem(problems[0])
    return found if found is not None and found.step > 0 else None


def _part(progress: Progress, number: int, count: int) -> Progress:
    """Progress of one of several equal parts, told as that of all."""
    return lambda share: progress((number + share) / count)
