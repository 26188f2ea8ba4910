"""How the probability is spread over topologies: each one's, their sum, and the credible sets."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from phloem.errors import BadArgument
from phloem.plot.lettering import write
from phloem.plot.style import BLUE, FAINT, INK, ONE_COLUMN, SMALL_SIZE, axes_for, figure_of, styled
from phloem.trees.credible import ROUNDING
from phloem.trees.sample import TreeSample

SHARES = (0.5, 0.9, 0.95, 0.99)
MOST_LINEAR = 30  # topologies; more are ranked on a logarithmic axis


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
