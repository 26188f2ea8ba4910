"""Amortisation gaps, tree by tree."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from phloem.kernels.arrays import FloatArray, LongArray
from phloem.plot.style import AXIS_WIDTH, BLUE, MUTED, VERMILION, axes_for, figure_of, styled

if TYPE_CHECKING:
    from phloem.inference.gap import AmortizationGaps  # which needs torch, as a figure does not

ERRORS = 2  # standard errors to each side


def gaps(
    found: "AmortizationGaps",
    *,
    ranks: LongArray | None = None,
    weights: FloatArray | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Each tree's gap with two standard errors against its rank in the reference, and their average as a line.

    weights: probabilities in the reference, for an average by weight as well.
    """
    if ranks is None:
        ranks = np.arange(1, len(found) + 1)
    with styled():
        ax = axes_for(ax)
        ax.axhline(0, color=MUTED, linewidth=AXIS_WIDTH)
        ax.errorbar(
            ranks,
            found.gap,
            ERRORS * found.gap_error,
            fmt="o",
            markersize=2.5,
            color=BLUE,
            elinewidth=AXIS_WIDTH,
            label="tree ± 2 errors",
        )
        mean, _ = found.average()
        ax.axhline(mean, color=VERMILION, label=f"average {mean:.2f}")
        if weights is not None:
            weighted, _ = found.average(weights)
            ax.axhline(weighted, color=VERMILION, linestyle="--", label=f"weighted {weighted:.2f}")
        ax.set_xlabel("tree, the most probable first")
        ax.set_ylabel("amortisation gap, nats")
        ax.set_ylim(bottom=min(0.0, float(np.nanmin(found.gap - ERRORS * found.gap_error))))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles, labels = ax.get_legend_handles_labels()
        order = [len(labels) - 1, *range(len(labels) - 1)]  # error bars come last by themselves
        ax.legend(
            [handles[place] for place in order],
            [labels[place] for place in order],
            loc="lower left",
            bbox_to_anchor=(0, 1),
            borderaxespad=0.2,
            columnspacing=1.2,
            ncols=len(labels),
        )
        return figure_of(ax)
