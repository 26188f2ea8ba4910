"""Topologies and clades as figures: how probability is spread, and whether two samples agree."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from phloem.errors import BadArgument, counted
from phloem.plot.lengths import clade_name
from phloem.plot.style import (
    BLUE,
    FAINT,
    INK,
    MUTED,
    ONE_COLUMN,
    SMALL_SIZE,
    VERMILION,
    axes_for,
    figure_of,
    styled,
    write,
    write_below,
)
from phloem.trees.sample import ROUNDING, TreeSample, check_same_taxa
from phloem.trees.splits import SplitFrequencies, split_table, without_first

SHARES = (0.5, 0.9, 0.95, 0.99)
MOST_LINEAR = 30  # topologies; more are ranked on a logarithmic axis
KEY = 27  # points below the axes, under their label, where the key to the numbers begins
LINE = 0.1  # inches per line of the key
LEAST_LABELLED = 0.01  # least difference that gets a label


def topologies(
    sample: TreeSample, *, shares: Sequence[float] = SHARES, width: float = ONE_COLUMN, ax: Axes | None = None
) -> Figure:
    """The probabilities of a sample's topologies, most probable first, and their cumulative sum.

    shares: a dot on the sum marks how many of the topologies hold each of these shares of the probability.
    """
    if not all(0 < share < 1 for share in shares):
        raise BadArgument("topology plot: credible shares must be above 0 and below 1.")
    weights = np.sort(sample.distinct().normalized().weights)[::-1]
    probabilities = weights[weights > 0]
    cumulative = np.cumsum(probabilities)
    rank = np.arange(1, len(probabilities) + 1)
    with styled():
        ax = axes_for(ax, width)
        ax.set_xlabel("Topologies, most probable first")
        ax.set_ylabel("Posterior probability")
        if len(rank) > MOST_LINEAR:
            ax.set_xscale("log")
            ax.minorticks_off()
            ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        else:
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        edges = np.append(rank, rank[-1] + 1) - 0.5
        ax.stairs(probabilities, edges, fill=True, color=BLUE, alpha=0.8, linewidth=0, label="each")
        ax.stairs(cumulative, edges, color=INK, linewidth=0.9, baseline=None, label="sum")
        for share in shares:
            count = int(np.searchsorted(cumulative, share - ROUNDING)) + 1
            ax.hlines(share, edges[0], edges[count], colors=FAINT, linewidths=0.5, zorder=0)
            place = [edges[count]], [cumulative[count - 1]]
            ax.plot(*place, marker="o", markersize=2.8, color=INK, markeredgewidth=0)
            write(ax, [f"{100 * share:g} %: {count:,}"], *place, (3, -1.5), va="top", size=SMALL_SIZE)
        ax.set_xlim(edges[0], edges[-1])
        ax.set_ylim(0, 1.02)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, 0, " %"))
    return figure_of(ax)


def clades(
    one: SplitFrequencies,
    other: SplitFrequencies,
    *,
    names: tuple[str, str] = ("one sample", "other sample"),
    labelled: int = 3,
    width: float = ONE_COLUMN,
    ax: Axes | None = None,
) -> Figure:
    """A dot for each clade of either sample; those that differ most are numbered, and a key below has their taxa.

    Where the samples agree, dots are on the diagonal. The largest difference is in the corner.
    """
    if labelled < 0:
        raise BadArgument(f"clade plot: {labelled} labels. Give 0 or more.")
    check_same_taxa(other.taxa, one.taxa, "clade plot")
    members, frequencies = split_table([one, _with_taxa(other, one.taxa)])
    x, y = frequencies.T
    difference = np.abs(x - y)
    worst = [int(split) for split in np.argsort(-difference, kind="stable")[:labelled]]
    worst = [split for split in worst if difference[split] >= LEAST_LABELLED]
    with styled():
        ax = axes_for(ax, width, width + LINE * len(worst))  # nearly square inside
        ax.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8, zorder=0)
        ax.plot(x, y, "o", color=BLUE, markersize=3.2, alpha=0.6, markeredgewidth=0, clip_on=False)
        ax.plot(x[worst], y[worst], "o", color=VERMILION, markersize=3.2, markeredgewidth=0, clip_on=False)
        numbers = [str(number) for number in range(1, len(worst) + 1)]
        write(ax, numbers, x[worst], y[worst], (3, -1), va="top", size=SMALL_SIZE, color=VERMILION)
        key = [f"{number}  {clade_name(one.taxa, members[split])}" for number, split in enumerate(worst, 1)]
        if key:
            write_below(ax, "\n".join(key), KEY, size=SMALL_SIZE)
        note = f"{counted(len(x), 'clade')}\nlargest difference {difference.max(initial=0):.3f}"
        ax.text(0.02, 0.98, note, transform=ax.transAxes, va="top", size=SMALL_SIZE, color=MUTED)
        ax.set_xlabel(f"Clade frequency, {names[0]}")
        ax.set_ylabel(f"Clade frequency, {names[1]}")
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return figure_of(ax)


def _with_taxa(splits: SplitFrequencies, taxa: tuple[str, ...]) -> SplitFrequencies:
    """The same splits with the taxa in another order."""
    place = {name: taxon for taxon, name in enumerate(splits.taxa)}
    members = splits.members[:, [place[name] for name in taxa]]
    return SplitFrequencies(taxa, without_first(members), splits.frequencies)
