"""A posterior for a human at a terminal: the evidence, the best topologies, clade supports on a tree."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from phloem.inference.evaluation import Estimated
from phloem.inference.reference import ReferenceComparison
from phloem.kernels.arrays import FloatArray
from phloem.report.ascii_tree import draw_tree
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitFrequencies, nontrivial_splits
from phloem.trees.topology import TopologyBatch
from phloem.trees.writing import format_newick

SHOWN = 5  # topologies, if they are as probable as this:
LEAST_SHOWN = 0.00005


def describe_posterior(
    summary: Mapping[str, Any], topologies: TreeSample, clades: SplitFrequencies, *, width: int = 80
) -> Iterator[str]:
    """Lines of at most `width` characters."""
    if not summary["finished"]:
        yield from textwrap.wrap(f"not finished: this is the posterior after {summary['steps']:,} steps", width)
        yield ""
    yield from describe_estimates(summary, width)
    if summary.get("stopped_early"):
        yield f"stopped after {summary['steps']:,} steps: the bound was flat"
    if summary.get("skipped_steps"):
        yield f"{summary['skipped_steps']:,} steps had no finite bound or gradient and were skipped"
    yield ""
    yield from describe_trust(summary, width)
    yield ""
    yield from _best(topologies, summary["distinct_topologies"], width)
    yield from textwrap.wrap(_credible(summary), width)
    yield ""
    yield from textwrap.wrap("clade supports in percent, on the most probable topology", width)
    best = topologies.topologies[0]
    yield from draw_tree(best, topologies.taxa, supports_of(best, clades), width=width)


def describe_estimates(summary: Mapping[str, Any], width: int) -> Iterator[str]:
    """The marginal likelihood and the bounds."""
    for title, name in (
        ("log marginal likelihood", "log_marginal_likelihood"),
        ("ELBO", "elbo"),
        ("multi-sample bound", "lower_bound"),
    ):
        yield f"{title:<24}{describe_estimate(Estimated(**summary[name]))}"
    how = summary["evaluation"]
    estimates, trees = _counted(how["repeats"], "estimate", "estimates"), _counted(how["samples"], "tree", "trees")
    estimates = f"(means and standard deviations of {estimates} from {trees} each)"
    yield from textwrap.wrap(estimates, width)


def describe_estimate(estimate: Estimated) -> str:
    """Mean and deviation, the points below each other."""
    return f"{estimate.mean:12.3f}" + ("" if estimate.std is None else f" ± {estimate.std:.3f}")


def describe_counts(summary: Mapping[str, Any], width: int) -> list[str]:
    """How many topologies were drawn, and how many are probable."""
    return [
        *textwrap.wrap(
            f"{_counted(summary['distinct_topologies'], 'topology', 'topologies')} drawn; {_credible(summary)}", width
        )
    ]


def describe_reference(found: ReferenceComparison) -> Iterator[str]:
    """Distances to a reference, a line each."""
    yield f"against the reference ({_counted(found.topologies, 'topology', 'topologies')})"
    yield f"  its probability outside the support       {found.outside_support:.6f}"
    divergence = "infinite" if found.divergence is None else f"{found.divergence:.4f}"
    yield f"  KL divergence from it to Q(τ)             {divergence}"
    yield f"  total variation to Q(τ)                   {found.total_variation:.4f}"
    yield f"  total variation to the weighted draws     {found.weighted_total_variation:.4f}"
    splits = found.weighted_splits
    yield f"  split frequencies, largest difference     {splits.largest_difference:.4f}"
    yield f"  their standard deviation, largest         {splits.largest:.4f}"
    yield f"  their standard deviation, average         {splits.average:.4f}"
    reference, ours = found.credible_sets
    yield f"  topologies in 95 % credible sets          {reference:,} (reference), {ours:,} (weighted draws)"


def describe_trust(summary: Mapping[str, Any], width: int) -> Iterator[str]:
    """The verdict, what it rests on, and what to do."""
    trust = summary["trust"]
    yield f"can it be trusted? {trust['level'].upper() if trust['level'] != 'good' else 'good'}"
    for finding in trust["findings"]:
        line = f"  {finding['name']}: {finding['value']}, {finding['level']}"
        yield from textwrap.wrap(line, width, subsequent_indent="    ")
    yield from textwrap.wrap(trust["advice"], width, initial_indent="  ", subsequent_indent="  ")


def supports_of(topology: TopologyBatch, clades: SplitFrequencies) -> FloatArray:
    """The probability of each interior branch's split, (n-3,)."""
    known = {
        members.tobytes(): share for members, share in zip(clades.members, clades.frequencies.tolist(), strict=True)
    }
    return np.array([known.get(members.tobytes(), 0.0) for members in nontrivial_splits(topology)[0]])


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _credible(summary: Mapping[str, Any]) -> str:
    sets = ", ".join(
        f"{100 * found['share']:g}\N{NO-BREAK SPACE}%: {found['topologies']:,}" for found in summary["credible_sets"]
    )
    return f"topologies in the credible sets: {sets}"


def _best(topologies: TreeSample, distinct: int, width: int) -> Iterator[str]:
    yield "the only topology that was drawn" if distinct == 1 else f"best topologies ({distinct:,} were drawn)"
    shown = topologies[: max(1, min(SHOWN, int((topologies.weights >= LEAST_SHOWN).sum())))]
    total = 0.0
    for rank, (probability, tree) in enumerate(
        zip(shown.weights.tolist(), format_newick(shown.topologies, shown.taxa), strict=True), 1
    ):
        total += probability
        line = f"{rank:3}  {probability:.4f}  {tree}"
        yield line if len(line) <= width else line[: width - 1] + "…"
    if distinct > len(shown):
        others = distinct - len(shown)
        yield f"     {1 - total:.4f}  {others:,} other{'s' if others > 1 else ''}"
