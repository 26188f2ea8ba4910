"""A posterior for a human at a terminal: the evidence, the best topologies, clade supports on a tree."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from phloem.kernels.arrays import FloatArray
from phloem.report.ascii_tree import draw_tree
from phloem.trees.sample import TreeSample
from phloem.trees.splits import SplitFrequencies, nontrivial_splits
from phloem.trees.topology import TopologyBatch
from phloem.trees.writing import format_newick

SHOWN = 5  # topologies, if they are as probable as this:
LEAST_SHOWN = 0.00005
DISAGREEMENT = 3.0  # errors
SPLIT_DISAGREEMENT = 0.1


def describe_posterior(
    summary: Mapping[str, Any], topologies: TreeSample, clades: SplitFrequencies, *, width: int = 80
) -> Iterator[str]:
    """Lines of at most `width` characters."""
    for title, name in (
        ("log marginal likelihood", "log_marginal_likelihood"),
        ("ELBO", "elbo"),
        ("multi-sample bound", "lower_bound"),
    ):
        mean, std = summary[name]["mean"], summary[name]["std"]
        yield f"{title:<24}{mean:12.3f}" + ("" if std is None else f" ± {std:.3f}")
    how = summary["evaluation"]
    estimates = f"(means and standard deviations of {how['repeats']:,} estimates from {how['samples']:,} trees each)"
    yield from textwrap.wrap(estimates, width)
    if "agreement" in summary:
        yield ""
        for line in _agreement(summary):
            yield from textwrap.wrap(line, width)
    if summary.get("stopped_early"):
        yield f"stopped after {summary['steps']:,} steps: the bound was flat"
    if summary.get("skipped_steps"):
        yield f"{summary['skipped_steps']:,} steps had no finite bound or gradient and were skipped"
    yield ""
    yield from _best(topologies, summary["distinct_topologies"], width)
    yield ""
    yield from textwrap.wrap("clade supports in percent, on the most probable topology", width)
    best = topologies.topologies[0]
    yield from draw_tree(best, topologies.taxa, supports_of(best, clades), width=width)


def supports_of(topology: TopologyBatch, clades: SplitFrequencies) -> FloatArray:
    """The probability of each interior branch's split, (n-3,)."""
    known = {
        members.tobytes(): share for members, share in zip(clades.members, clades.frequencies.tolist(), strict=True)
    }
    return np.array([known.get(members.tobytes(), 0.0) for members in nontrivial_splits(topology)[0]])


def _agreement(summary: Mapping[str, Any]) -> Iterator[str]:
    found = summary["agreement"]
    estimates = ", ".join(f"{estimate['mean']:.2f}" for estimate in found["log_marginal_likelihoods"])
    difference, error = found["marginal_likelihood_difference"], found["marginal_likelihood_error"]
    splits = found["largest_split_difference"]
    agree = (error is None or difference <= DISAGREEMENT * error) and splits <= SPLIT_DISAGREEMENT
    errors = "errors unknown" if error is None else f"errors {error:.2f} together"
    yield f"{summary['runs']} runs {'agree' if agree else 'DISAGREE'}: {estimates} ({errors}),"
    yield f"clade supports differ by {100 * splits:.1f} % at most"
    if not agree:
        yield "A run may have missed part of the posterior: run again with more steps, or more runs."


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
