"""Lengths and model parameters as figures: intervals branch by branch, and distributions."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phloem.arrays import BoolArray, FloatArray
from phloem.errors import BadArgument
from phloem.plot.style import (
    BLUE,
    INK,
    MUTED,
    ONE_COLUMN,
    SMALL_SIZE,
    TEXT_SIZE,
    TWO_COLUMNS,
    VERMILION,
    axes_for,
    figure_of,
    styled,
    write,
)
from phloem.trees.branch_lengths import SplitLengths, shortest_interval
from phloem.trees.branch_lengths import tree_lengths as sums_of_lengths
from phloem.trees.consensus import SummaryTree
from phloem.trees.sample import GroupedTrees
from phloem.trees.tree import members_below

ROW = 0.125  # inches per branch
FRAME = 0.55  # inches for the axis and its label
FEWEST_BINS, MOST_BINS = 10, 60
PARAMETER_PANEL = 1.8, 1.15  # inches
SHOWN = 0.998  # of a parameter's weight: a single light draw far away would take up the axis


def clade_name(taxa: Sequence[str], members: BoolArray, limit: int = 2) -> str:
    """The taxa on the smaller side of a split: the first few, and how many more."""
    side = members if 2 * int(members.sum()) <= len(taxa) else ~members
    names = [taxa[taxon] for taxon in np.flatnonzero(side).tolist()]
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} + {len(names) - limit}"


class _Branches(NamedTuple):
    """What is drawn of each branch, (branches,) except for the members."""

    members: BoolArray  # (branches, n)
    frequency: FloatArray
    mean: FloatArray
    lower: FloatArray
    upper: FloatArray


def branch_lengths(
    lengths: SummaryTree | SplitLengths,
    *,
    frequency: float = 0.5,
    most: int = 60,
    width: float = TWO_COLUMNS,
    ax: Axes | None = None,
) -> Figure:
    """Mean and 95 % interval of each branch of a tree, or of each frequent one of a sample, the longest at the top.

    frequency: the least for a branch to be drawn. most: draw at most this many, the longest ones.
    """
    if most < 1:
        raise BadArgument(f"branch length plot: {most} branches. Draw at least 1.")
    if not 0 <= frequency <= 1:
        raise BadArgument(f"branch length plot: frequency {frequency:g}. Give a number from 0 to 1.")
    branches = _of_tree(lengths) if isinstance(lengths, SummaryTree) else _of_splits(lengths)
    known = np.flatnonzero(np.isfinite(branches.mean) & (branches.frequency >= frequency))
    if not len(known):
        raise BadArgument("branch length plot: no branch that is frequent enough has a length. Lower the frequency.")
    chosen = known[np.argsort(-branches.mean[known], kind="stable")][:most]
    is_pendant = branches.members[chosen].sum(axis=1) == 1
    rows = np.arange(len(chosen))
    with styled():
        ax = axes_for(ax, width, len(chosen) * ROW + FRAME)
        for kind, color, words in ((is_pendant, BLUE, "leading to a taxon"), (~is_pendant, VERMILION, "interior")):
            if not kind.any():
                continue
            branch = chosen[kind]
            ax.hlines(rows[kind], branches.lower[branch], branches.upper[branch], colors=color, linewidths=1.2)
            ax.plot(branches.mean[branch], rows[kind], "o", color=color, markersize=3, markeredgewidth=0, label=words)
        ax.set_yticks(rows, [_label(lengths.taxa, branches, branch) for branch in chosen.tolist()])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xlim(left=0)
        ax.set_xlabel("Branch length, mean and 95 % interval")
        ax.legend(loc="lower right")
        if len(known) > len(chosen):
            ax.set_title(f"The {len(chosen)} longest of {len(known)} branches", color=MUTED, size=SMALL_SIZE)
    return figure_of(ax)


def _label(taxa: tuple[str, ...], branches: _Branches, branch: int) -> str:
    """The clade, with its frequency unless it is certain."""
    name = clade_name(taxa, branches.members[branch])
    frequency = branches.frequency[branch]
    return name if frequency >= 0.995 else f"{name} ({100 * frequency:.0f} %)"


def _of_splits(lengths: SplitLengths) -> _Branches:
    return _Branches(lengths.members, lengths.frequency, lengths.mean, lengths.lower, lengths.upper)


def _of_tree(summary: SummaryTree) -> _Branches:
    """All branches of a tree; the two at a root of degree two are drawn separately."""
    parts = (summary.support, summary.length, summary.lower, summary.upper)
    return _Branches(members_below(summary.tree)[:-1], *(part[:-1] for part in parts))


def tree_lengths(trees: GroupedTrees, *, width: float = ONE_COLUMN, ax: Axes | None = None) -> Figure:
    """A weighted histogram of the sums of branch lengths, with the mean and the shortest 95 % interval.

    It has as many bins as the trees can fill: the square root of their effective number.
    """
    sums = sums_of_lengths(trees)
    mean = float(sums @ trees.weights)
    lower, upper = shortest_interval(sums, trees.weights)
    with styled():
        ax = axes_for(ax, width)
        top = draw_density(ax, sums, trees.weights)
        write(ax, [f"mean {mean:.3g}"], [mean], [1.06 * top], (0, 0), ha="center", va="bottom", size=SMALL_SIZE)
        interval = f"95 % within {lower:.3g} to {upper:.3g}"
        ax.text(0.99, 0.97, interval, transform=ax.transAxes, ha="right", va="top", size=SMALL_SIZE)
        ax.set_ylim(-0.06 * top, 1.2 * top)
        ax.set_xlabel("Tree length, substitutions per site")
        ax.set_ylabel("Posterior density")
    return figure_of(ax)


def draw_density(ax: Axes, values: FloatArray, weights: FloatArray, share: float = 1.0) -> float:
    """Draw a weighted histogram with the mean and the shortest 95 % interval of values, (draws,); return its height.

    share: of the weight, which the shortest interval that is shown holds. There are as many bins as the draws can fill:
    the square root of their effective number.
    """
    mean = float(values @ weights)
    lower, upper = shortest_interval(values, weights)
    low, high = shortest_interval(values, weights, share)
    bins = int(np.clip(np.sqrt(1 / float(np.square(weights).sum())), FEWEST_BINS, MOST_BINS))
    shown = (weights > 0) & (values >= low) & (values <= high)
    heights, edges = np.histogram(values[shown], bins, weights=weights[shown], density=True)
    top = float(heights.max())
    ax.stairs(heights, edges, fill=True, color=BLUE, alpha=0.3, linewidth=0)
    ax.stairs(heights, edges, color=BLUE, linewidth=0.8)
    ax.vlines(mean, 0, 1.04 * top, colors=INK, linewidths=0.9)
    ax.hlines(-0.03 * top, lower, upper, colors=INK, linewidths=2)
    ax.set_ylim(-0.06 * top, 1.08 * top)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    return top


def parameters(values: Mapping[str, FloatArray], weights: FloatArray, *, width: float = TWO_COLUMNS) -> Figure:
    """A small weighted histogram of each parameter, with its mean and the shortest 95 % interval.

    values: of each parameter in every draw, (draws,), by name, as in `Posterior.parameter_values`. weights: of the
    draws, (draws,).
    """
    if not values:
        raise BadArgument("parameter plot: there are no parameters. Plot a run that inferred some.")
    columns = min(len(values), max(1, int(width / PARAMETER_PANEL[0] + 1e-9)))
    rows = math.ceil(len(values) / columns)
    with styled():
        figure = Figure(figsize=(width, rows * PARAMETER_PANEL[1]), layout="constrained")
        for number, (name, held) in enumerate(values.items(), 1):
            ax = axes_for(figure.add_subplot(rows, columns, number))
            draw_density(ax, np.asarray(held, np.float64), weights, SHOWN)
            ax.locator_params(axis="x", nbins=4)
            ax.set_title(name, color=INK, size=TEXT_SIZE)
    return figure
