"""Several runs as one posterior: each counts with its marginal likelihood, and they are compared."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from phloem.config import InferConfig
from phloem.kernels.arrays import FloatArray
from phloem.pipeline.posterior import Posterior, load_posterior
from phloem.pipeline.results import describe_topologies
from phloem.pipeline.run_directory import RunDirectory
from phloem.pipeline.tables import format_clades, format_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitFrequencies
from phloem.trees.topology import TopologyBatch

SHARED = ("names", "taxa", "sites", "patterns", "model", "branches", "support", "evaluation")


def combine_runs(directory: RunDirectory, config: InferConfig) -> None:
    """Write topologies, clades and a summary of all runs together, into the directory above theirs.

    The draws of run r, weighed by p/Q_r, estimate p(Y) without bias, whichever the run. Taken together they are a
    sample of the posterior in which every run has a share that is proportional to its marginal likelihood: a run that
    has lost a mode has little.
    """
    runs = [load_posterior(child.path) for child in directory.children()]
    shares = run_shares(runs)
    topologies = _mix_topologies(runs, shares)
    clades = _mix_clades(runs, shares)
    directory.write("topologies.csv", format_topologies(topologies))
    directory.write("clades.csv", format_clades(clades))
    directory.write_json("summary.json", _summarize(runs, shares, config) | describe_topologies(topologies))


def run_shares(runs: Sequence[Posterior]) -> FloatArray:
    """The share of each run, (runs,)."""
    means = np.array([run.log_marginal_likelihood.mean for run in runs])
    weights = np.exp(means - means.max())
    return np.asarray(weights / weights.sum())


def _mix_topologies(runs: Sequence[Posterior], shares: FloatArray) -> TreeSample:
    samples = [run.topologies for run in runs]
    joined = TreeSample(
        samples[0].taxa,
        TopologyBatch.concatenate([sample.topologies for sample in samples]),
        np.concatenate([share * sample.weights for share, sample in zip(shares, samples, strict=True)]),
        None,
    ).distinct()
    return joined[np.argsort(-joined.weights, kind="stable")]


def _mix_clades(runs: Sequence[Posterior], shares: FloatArray) -> SplitFrequencies:
    table = split_table(runs)
    mixed = np.array([shares @ row for row in table.values()])
    order = np.argsort(-mixed, kind="stable")
    members = np.array([np.frombuffer(key, np.bool_) for key in table])
    return SplitFrequencies(runs[0].taxa, members[order].reshape(-1, len(runs[0].taxa)), mixed[order])


def split_table(runs: Sequence[Posterior]) -> dict[bytes, FloatArray]:
    """Every split that some run has, with its frequency in each, (runs,)."""
    table: dict[bytes, FloatArray] = {}
    for number, run in enumerate(runs):
        for members, frequency in zip(run.clades.members, run.clades.frequencies.tolist(), strict=True):
            table.setdefault(members.tobytes(), np.zeros(len(runs)))[number] = frequency
    return table


def _summarize(runs: Sequence[Posterior], shares: FloatArray, config: InferConfig) -> dict[str, Any]:
    """The bounds are the best run's; the marginal likelihood is that of all draws."""
    best = int(np.argmax(shares))
    estimates = [run.log_marginal_likelihood for run in runs]
    means = np.array([estimate.mean for estimate in estimates])
    errors = np.array([math.nan if estimate.std is None else estimate.std for estimate in estimates])  # nan: not known
    spread = float(means.max() - means.min())
    differences = [float(row.max() - row.min()) for row in split_table(runs).values()]
    summary = runs[best].summary
    return {
        **{name: summary[name] for name in SHARED},
        "seed": config.seed,
        "runs": len(runs),
        "best_run": best + 1,
        "elbo": summary["elbo"],
        "lower_bound": summary["lower_bound"],
        "log_marginal_likelihood": {
            "mean": float(means.max() + math.log(np.exp(means - means.max()).mean())),
            "std": _known(np.sqrt(((shares * errors) ** 2).sum())),
        },
        "agreement": {
            "log_marginal_likelihoods": [estimate._asdict() for estimate in estimates],
            "marginal_likelihood_difference": spread,
            "marginal_likelihood_error": _known(np.sqrt((errors**2).sum())),
            "largest_split_difference": max(differences, default=0.0),
        },
    }


def _known(error: float) -> float | None:
    return None if math.isnan(error) else float(error)
