"""A summary tree as a phylogram: branches as long as they are, with supports and intervals."""

from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.markers import TICKLEFT

from phloem.errors import BadArgument, quoted
from phloem.kernels.arrays import FloatArray, LongArray
from phloem.plot.lettering import axes_points, text_widths, write
from phloem.plot.style import BLUE, INK, MUTED, ORANGE, TWO_COLUMNS, VERMILION, figure_of, styled
from phloem.plot.tree_axes import draw_scale_bar, name_size, tree_axes, write_names
from phloem.trees.layout import TreeLayout, lay_out
from phloem.trees.summary_tree import SummaryTree

Supports = Literal["numbers", "colors", "none"]
SUPPORTS: tuple[Supports, ...] = ("numbers", "colors", "none")
MOST_NUMBERS = 100  # taxa up to which supports are numbers unless asked otherwise

STUB = 6  # points, of a root
NUMBERS = 0.75  # size of supports, in sizes of names
BESIDE = 0.45  # rows from a name in which it would meet a number; between two names there is room for one

# Least support, colour, and words. Strong support is ink: what is coloured deserves a look.
CLASSES = ((0.95, INK, "≥ 95 %"), (0.75, BLUE, "75–95 %"), (0.5, ORANGE, "50–75 %"), (0.0, VERMILION, "< 50 %"))


def tree(
    summary: SummaryTree,
    *,
    supports: Supports | None = None,
    intervals: bool = False,
    width: float = TWO_COLUMNS,
    ax: Axes | None = None,
) -> Figure:
    """A consensus or other summary tree, drawn from the root to the right, small clades first.

    supports: as `numbers` in percent, as dots with `colors`, or `none`; numbers up to 100 taxa unless said otherwise.
    intervals: bars from the lower to the upper end of each branch's 95 % interval, where the branch begins.
    width: of a new figure, in inches; its height grows with the taxa. A tree without lengths is drawn with all leaves
    at the same depth. A rooted tree has a stub at its root.
    """
    leaf_count = summary.tree.leaf_count
    supports = supports or ("numbers" if leaf_count <= MOST_NUMBERS else "colors")
    if supports not in SUPPORTS:
        raise BadArgument(f"tree plot: supports {quoted(str(supports))}. Use one of {', '.join(SUPPORTS)}.")
    parent = summary.tree.parent
    has_lengths = bool(np.isfinite(summary.length[:-1]).any())
    layout = lay_out(parent, leaf_count, summary.length if has_lengths else None)
    with styled():
        ax = tree_axes(ax, leaf_count, width, scale_bar=has_lengths, legend=supports == "colors")
        _draw_branches(ax, summary, layout)
        ends = layout.x
        if intervals and has_lengths:
            ends = np.fmax(ends, _draw_intervals(ax, summary, layout))
        write_names(ax, summary.taxa, ends[:leaf_count], layout.y[:leaf_count])
        if has_lengths:
            draw_scale_bar(ax, float(layout.x.max()), leaf_count)
        inner = np.flatnonzero(np.isfinite(summary.support[leaf_count:-1])) + leaf_count
        if supports == "numbers":
            _write_supports(ax, summary, layout, inner)
        elif supports == "colors":
            _draw_dots(ax, summary.support, layout, inner)
    return figure_of(ax)


def _draw_branches(ax: Axes, summary: SummaryTree, layout: TreeLayout) -> None:
    """A line along each branch, and one across the children of each node."""
    x, y, leaf_count = layout.x, layout.y, summary.tree.leaf_count
    along = _lines(x[summary.tree.parent[:-1]], y[:-1], x[:-1], y[:-1])
    across = _lines(x[leaf_count:], layout.first[leaf_count:], x[leaf_count:], layout.last[leaf_count:])
    width = 0.9 if leaf_count <= MOST_NUMBERS else 0.6
    lines = LineCollection([*along, *across], colors=INK, linewidths=width, capstyle="projecting", clip_on=False)
    ax.add_collection(lines, autolim=False)
    if summary.is_rooted:
        ax.plot([0], [y[-1]], marker=TICKLEFT, markersize=STUB, markeredgewidth=width, color=INK, clip_on=False)


def _draw_intervals(ax: Axes, summary: SummaryTree, layout: TreeLayout) -> FloatArray:
    """A broad, pale bar from the least to the largest length of each branch, from where it begins; where they end."""
    starts = layout.x[summary.tree.parent]  # the root's own is not used: its interval is nan
    low, high = starts + summary.lower, starts + summary.upper
    known = np.isfinite(low) & np.isfinite(high)
    bars = _lines(low[known], layout.y[known], high[known], layout.y[known])
    width = 0.4 * name_size(ax)
    ax.add_collection(
        LineCollection(bars, colors=BLUE, linewidths=width, alpha=0.35, capstyle="butt", clip_on=False),
        autolim=False,
    )
    return high


def _write_supports(ax: Axes, summary: SummaryTree, layout: TreeLayout, inner: LongArray) -> None:
    """Percent above the branch where it is long enough, else beside the node, unless a name is there."""
    size = NUMBERS * name_size(ax)
    percents = np.array([f"{100 * support:.0f}" for support in summary.support[inner]])
    scale = axes_points(ax)[0] / ax.get_xlim()[1]  # points a unit of length
    branches = (layout.x[inner] - layout.x[summary.tree.parent[inner]]) * scale
    widths = text_widths(percents.tolist(), size) + 2
    tip_x, tip_y = layout.x[: summary.tree.leaf_count], layout.y[: summary.tree.leaf_count]
    beside = np.abs(tip_y - layout.y[inner, None]) < BESIDE  # (inner, leaves)
    is_taken = (beside & (np.abs(tip_x - layout.x[inner, None]) * scale < widths[:, None])).any(axis=1)
    fits = (branches >= widths) | is_taken
    for place, offset, across, down in (
        (fits, (-1, 0.8), "right", "bottom"),
        (~fits, (1.2, 0), "left", "center_baseline"),
    ):
        x, y = layout.x[inner[place]], layout.y[inner[place]]
        write(ax, percents[place].tolist(), x, y, offset, ha=across, va=down, size=size, color=MUTED, in_layout=False)


def _lines(x: FloatArray, y: FloatArray, other_x: FloatArray, other_y: FloatArray) -> list[FloatArray]:
    """Line segments from each (x, y) to its other end, each (2, 2)."""
    return list(np.stack([np.stack([x, y], 1), np.stack([other_x, other_y], 1)], 1))


def _draw_dots(ax: Axes, support: FloatArray, layout: TreeLayout, inner: LongArray) -> None:
    """A dot at the end of each interior branch, and a legend of the classes that occur."""
    handles = []
    style: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 2.6, "markeredgewidth": 0}
    below = np.inf
    for least, color, words in CLASSES:
        chosen = inner[(support[inner] >= least) & (support[inner] < below)]
        below = least
        if len(chosen):
            x, y = layout.x[chosen], layout.y[chosen]
            handles += ax.plot(x, y, label=words, color=color, clip_on=False, zorder=3, **style)
    if handles:
        spaces = {"borderaxespad": 0.0, "handletextpad": 0.1, "columnspacing": 1.0}
        ax.legend(handles=handles, loc="lower right", ncols=len(handles), **spaces)
