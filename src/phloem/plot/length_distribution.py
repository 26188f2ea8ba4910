"""The distribution of tree lengths: how much has happened in all."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phloem.plot.lettering import write
from phloem.plot.style import BLUE, INK, ONE_COLUMN, SMALL_SIZE, axes_for, figure_of, styled
from phloem.trees.branch_lengths import tree_lengths as sums_of_lengths
from phloem.trees.grouped import GroupedTrees
from phloem.trees.intervals import shortest_interval

FEWEST_BINS, MOST_BINS = 10, 60


def tree_lengths(trees: GroupedTrees, *, width: float = ONE_COLUMN, ax: Axes | None = None) -> Figure:
    """A weighted histogram of the sums of branch lengths, with the mean and the shortest 95 % interval.

    It has as many bins as the trees can fill: the square root of their effective number.
    """
    sums = sums_of_lengths(trees)
    mean = float(sums @ trees.weights)
    lower, upper = shortest_interval(sums, trees.weights)
    effective = 1 / float(np.square(trees.weights).sum())
    bins = int(np.clip(np.sqrt(effective), FEWEST_BINS, MOST_BINS))
    has_weight = trees.weights > 0
    heights, edges = np.histogram(sums[has_weight], bins, weights=trees.weights[has_weight], density=True)
    with styled():
        ax = axes_for(ax, width)
        ax.stairs(heights, edges, fill=True, color=BLUE, alpha=0.3, linewidth=0)
        ax.stairs(heights, edges, color=BLUE, linewidth=0.8)
        top = float(heights.max())
        ax.vlines(mean, 0, 1.04 * top, colors=INK, linewidths=0.9)
        ax.hlines(-0.03 * top, lower, upper, colors=INK, linewidths=2)
        write(ax, [f"mean {mean:.3g}"], [mean], [1.06 * top], (0, 0), ha="center", va="bottom", size=SMALL_SIZE)
        interval = f"95 % within {lower:.3g} to {upper:.3g}"
        ax.text(0.99, 0.97, interval, transform=ax.transAxes, ha="right", va="top", size=SMALL_SIZE)
        ax.set_ylim(-0.06 * top, 1.2 * top)
        ax.set_xlabel("Tree length, substitutions per site")
        ax.set_ylabel("Posterior density")
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
    return figure_of(ax)
