"""How good is a run? Bounds, the marginal likelihood, diagnostics, and distances to a reference sample."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from phloem.arrays import FloatArray
from phloem.errors import BadArgument, counted
from phloem.inference.agreement import ReferenceComparison, compare_with_reference
from phloem.inference.evaluation import Estimated, multi_sample_bound
from phloem.report.text import (
    describe_counts,
    describe_estimate,
    describe_estimates,
    describe_reference,
    describe_trust,
)
from phloem.storage.files import read_bytes
from phloem.tasks.opening import Drawing, open_posterior, taxa_of
from phloem.tasks.posterior import Posterior
from phloem.tasks.support import list_tree_files, read_samples
from phloem.trees.reading import SUFFIXES
from phloem.trees.sample import TreeSample, pool

USUAL_BOUND = 100
MOST_SUMMARY_TREES = 10  # in a file
# Supports as annotations (MrBayes, BEAST, phloem) or as numbers after a bracket (IQ-TREE, RAxML, phloem).
SUPPORTS = re.compile(rb"\[&[^\]]*\b(?:prob|posterior|support)\b[^=\]]*=|\)\s*'?\d")
WEIGHT = re.compile(rb"\[\s*(?:&W\b|p\s*=)", re.IGNORECASE)


class RunEvaluation(NamedTuple):
    """What was found out about a run, or several runs as one."""

    posterior: Posterior
    bounds: dict[int, Estimated]  # by the number of draws, of the best run
    reference: ReferenceComparison | None

    def as_json(self) -> dict[str, Any]:
        """The summary of these draws, with the bounds and the comparison."""
        bounds = [{"particles": count, **bound._asdict()} for count, bound in self.bounds.items()]
        found: dict[str, Any] = {**self.posterior.summary.as_json(), "bounds": bounds}
        if self.reference is not None:
            comparison = self.reference._asdict()
            comparison["weighted_splits"] = self.reference.weighted_splits._asdict()
            comparison["credible_sets"] = dict(
                zip(("reference", "weighted"), self.reference.credible_sets, strict=True)
            )
            found["reference"] = comparison
        return found

    def describe(self, width: int) -> list[str]:
        """Lines for people."""
        summary = self.posterior.summary
        lines = [] if summary.finished else [f"not finished: evaluated after {counted(summary.steps, 'step')}", ""]
        lines += describe_estimates(summary, width)
        lines += [f"bound of {count:<15,}{describe_estimate(bound)}" for count, bound in self.bounds.items()]
        lines += ["", *describe_trust(summary, width), "", *describe_counts(summary, width)]
        if self.reference is not None:
            lines += ["", *describe_reference(self.reference)]
        return lines


def evaluate_run(
    directory: str | Path,
    *,
    samples: int | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    anneal: int | None = None,
    bounds: Sequence[int] | None = None,
    reference: Sequence[str | Path] = (),
    burnin: int | float = 0,
    threads: int | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> RunEvaluation:
    """Evaluate a run by the draws that it has, or by new ones where their number or a seed is given.

    anneal: so many draws, moved from Q to the posterior, in whole estimates.
    bounds: numbers of draws of multi-sample bounds; without any that of 100, where an estimate has so many. reference:
    tree files of another program, each counting the same; burnin: to drop from the start of each.
    """
    drawing = None
    if anneal is not None and repeats is not None:
        raise BadArgument("--anneal and --repeats: the first says how many draws there are. Leave out the second.")
    if (samples, repeats, seed, anneal) != (None, None, None, None):
        drawing = Drawing(samples, repeats, seed, anneal)
    if any(count < 1 for count in bounds or ()):
        raise BadArgument("--bounds: give numbers of draws from 1 on, such as 10,100.")
    if burnin and not reference:
        raise BadArgument("--burnin: is that of a reference, and there is none. Give --reference, or leave it out.")
    # What is wrong with the reference is known before anything is drawn.
    sample = pool(read_reference(reference, taxa=taxa_of(directory), burnin=burnin)) if reference else None
    posterior = open_posterior(directory, drawing=drawing, threads=threads, progress=progress)
    best = posterior.best_run
    return RunEvaluation(
        posterior=posterior,
        bounds=_bounds(_rows(best), bounds),
        reference=_compare(posterior, sample) if sample else None,
    )


def read_reference(sources: Sequence[str | Path], *, taxa: Sequence[str], burnin: int | float = 0) -> list[TreeSample]:
    """Samples of a posterior, one a file; summary trees are refused, which would pass for a posterior without doubt."""
    samples = read_samples(sources, taxa=taxa, burnin=burnin)
    for path, sample in zip(list_tree_files(sources), samples, strict=True):
        if len(sample) <= MOST_SUMMARY_TREES and _is_summary(path, sample):
            raise BadArgument(
                f"{path}: is a summary, such as a consensus tree, and no sample of a posterior. Give the trees that it "
                "was made from, such as MrBayes' .t or .trprobs files."
            )
    return samples


def _is_summary(path: Path, sample: TreeSample) -> bool:
    """Whether a file of a few trees has supports in it, or a single tree that no weight makes the only one."""
    content = read_bytes(path)
    if SUPPORTS.search(content):
        return True
    is_weighted = path.name.lower().endswith(SUFFIXES) or WEIGHT.search(content) is not None
    return len(sample) == 1 and not is_weighted


def _bounds(rows: FloatArray, counts: Sequence[int] | None) -> dict[int, Estimated]:
    samples = rows.shape[1]
    if counts is None:
        counts = [USUAL_BOUND] if samples >= USUAL_BOUND else []
    if too_many := [count for count in counts if count > samples]:
        raise BadArgument(
            f"--bounds {too_many[0]}: an estimate has {counted(samples, 'draw')}. Ask for no more, or set --samples."
        )
    return {count: multi_sample_bound(rows, count) for count in counts}


def _rows(run: Posterior) -> FloatArray:
    """Log weights by repeat; of draws that are too many to be kept, those of the first repeats."""
    log_weights = run.draws.own_log_weights
    samples = min(run.summary.samples, len(log_weights))
    repeats = len(log_weights) // samples
    return log_weights[: repeats * samples].reshape(repeats, samples)


def _compare(posterior: Posterior, reference: TreeSample) -> ReferenceComparison:
    runs = posterior.runs or (posterior,)
    shares = posterior.summary.agreement.shares if posterior.summary.agreement else (1.0,)
    topologies = posterior.trees.topology_sample()
    return compare_with_reference(reference, [run.model.network for run in runs], shares, topologies)
