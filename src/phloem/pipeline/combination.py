"""Several runs as one posterior: each counts with its marginal likelihood, and they are compared."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from phloem.config import InferConfig
from phloem.inference.agreement import Agreement, compare_runs
from phloem.inference.draws import Draws, join
from phloem.inference.trust import judge
from phloem.pipeline.posterior import Posterior, load_posterior
from phloem.pipeline.results import describe_draws, write_tables
from phloem.pipeline.run_directory import RunDirectory

SHARED = ("names", "taxa", "sites", "patterns", "model", "branches", "support", "evaluation")


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
