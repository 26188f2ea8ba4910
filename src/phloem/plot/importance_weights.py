"""Importance weights in order: a few large ones are what estimates hang on."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike

from phloem.errors import BadArgument
from phloem.plot.style import BLUE, FAINT, ONE_COLUMN, SMALL_SIZE, VERMILION, axes_for, figure_of, styled

LEAST = 1e-3  # of the mean weight: what is smaller does not count


def weights(
    log_weights: ArrayLike,
    *,
    effective_samples: float | None = None,
    pareto_k: float | None = None,
    width: float = ONE_COLUMN,
    ax: Axes | None = None,
) -> Figure:
    """The weights of draws from Q, the largest first, as multiples of their mean, both axes logarithmic.

    For a Q that is the posterior all weights are 1. The tail to which the Pareto distribution is fitted, the largest
    min(n / 5, 3 √n), has a colour of its own; its slope is about -k̂. The two
    diagnostics are written down where they are given.
    """
    logs = np.asarray(log_weights, np.float64).ravel()
    if not len(logs) or not np.isfinite(logs.max()) or np.isnan(logs).any():
        raise BadArgument("weight plot: at least one weight above zero is needed, and none that is infinite or nan.")
    logs = np.sort(logs)[::-1]
    shifted = np.exp(logs - logs[0])
    relative = shifted / shifted.mean()
    seen = relative > 0
    rank = np.arange(1, len(logs) + 1)
    tail = math.ceil(min(len(logs) / 5, 3 * math.sqrt(len(logs))))
    with styled():
        ax = axes_for(ax, width)
        ax.axhline(1, color=FAINT, linewidth=0.8, zorder=0)
        ax.plot(rank[seen], relative[seen], color=BLUE, linewidth=1)
        ends = rank[:tail], relative[:tail]
        ax.plot(*ends, "o", color=VERMILION, markersize=2.4, markeredgewidth=0, label=f"tail, {tail:,} draws")
        ax.legend(loc="upper right")
        ax.set(xscale="log", yscale="log", xlabel="Draws, largest weight first", ylabel="Weight / mean weight")
        ax.set_ylim(bottom=max(LEAST, relative[-1] / 2))
        ax.minorticks_off()
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        lines = []
        if effective_samples is not None:
            share = 100 * effective_samples / len(logs)
            lines.append(f"effective draws {effective_samples:,.0f} of {len(logs):,} ({share:.0f} %)")
        if pareto_k is not None:
            lines.append(f"Pareto k̂ {pareto_k:.2f}")
        if lines:
            ax.text(0.03, 0.04, "\n".join(lines), transform=ax.transAxes, va="bottom", size=SMALL_SIZE)
    return figure_of(ax)
