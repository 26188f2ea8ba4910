"""Trees as figures: a summary tree as a phylogram, and a cloud of many trees."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import TICKLEFT

from phloem.arrays import FloatArray, IntArray, LongArray
from phloem.errors import BadArgument, counted, quoted
from phloem.plot.style import (
    AXIS_WIDTH,
    BLUE,
    FAINT,
    INK,
    MUTED,
    ORANGE,
    PALETTE,
    POINTS,
    SMALL_SIZE,
    TEXT_SIZE,
    TWO_COLUMNS,
    VERMILION,
    axes_for,
    axes_points,
    figure_of,
    styled,
    text_widths,
    write,
)
from phloem.report.charts import nice_step
from phloem.report.wording import printable
from phloem.trees.consensus import SummaryTree
from phloem.trees.layout import TreeLayout, ladder_order, lay_out
from phloem.trees.sample import TreeSample, check_same_taxa, group_rows

ROW = 1.3  # height of a row, in heights of its name
SMALLEST_NAME = 4.5  # points, in a new figure
MARGINS = 0.1  # inches above and below all
FOOT_LINE = 12  # points below the last row, for a line of it: scale bar, its text, legend
GAP = 2.5  # points between a leaf and its name
LONGEST_NAMES = 0.6  # most of the width that names may take; the tree has the rest
Supports = Literal["numbers", "colors", "none"]
SUPPORTS: tuple[Supports, ...] = ("numbers", "colors", "none")
MOST_NUMBERS = 100  # taxa up to which supports are numbers unless asked otherwise
STUB = 6  # points, of a root
NUMBERS = 0.75  # size of supports, relative to names
BESIDE = 0.45  # rows: a number closer to a name would overlap it; between two names there is room for one
# Least support, colour, and label. Strong support has the colour of ink: colours mark what deserves attention.
CLASSES = ((0.95, INK, "≥ 95 %"), (0.75, BLUE, "75–95 %"), (0.5, ORANGE, "50–75 %"), (0.0, VERMILION, "< 50 %"))
# Opacity of a line with a share s of the weight: 1 - exp(-density * s). Trees with lengths never share a line exactly.
DENSITY, DENSITY_WITH_LENGTHS = 10.0, 25.0
FAINTEST = 0.015  # opacity that is still visible when many lines add up
MOST_VECTOR_LINES = 20_000  # more are rasterised inside a PDF or SVG, which would be huge


def tree(
    summary: SummaryTree,
    *,
    supports: Supports | None = None,
    intervals: bool = False,
    width: float = TWO_COLUMNS,
    ax: Axes | None = None,
) -> Figure:
    """A consensus or other summary tree, drawn from the root to the right, small clades first.

    supports: as `numbers` in percent, as dots with `colors`, or `none`; by default numbers up to 100 taxa, else colors.
    intervals: bars for the 95 % interval of each branch length, measured from the start of the branch.
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
    """A broad, pale bar from the lower to the upper length of each branch; returns where the bars end, (nodes,)."""
    starts = layout.x[summary.tree.parent]  # the root's interval is nan
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
    """Percent above the branch where it is long enough, else beside the node, unless a name is in the way."""
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


def cloud(
    trees: TreeSample,
    *,
    like: SummaryTree | None = None,
    colored: int = 3,
    width: float = TWO_COLUMNS,
    ax: Axes | None = None,
) -> Figure:
    """Trees drawn over each other, each as opaque as its weight, all with the same order of leaves.

    like: a consensus that gives the order of the leaves; by default the most probable topology does. colored: how many
    of the most probable topologies get a colour; the others are grey. Trees without lengths are drawn with all leaves
    at the same depth. All are rooted at the first taxon's neighbour. A few hundred trees are enough.
    """
    if not len(trees) or not trees.weights.any():
        raise BadArgument("cloud plot: no tree with a weight was given.")
    if colored < 0:
        raise BadArgument(f"cloud plot: {colored} topologies in colour. Give 0 or more.")
    trees = trees.normalized()
    first, group = group_rows(trees.topologies.parent)
    shares = np.asarray(np.bincount(group, trees.weights), np.float64)
    best = np.argsort(-shares, kind="stable")
    order = _order(trees, like) if like else ladder_order(trees.topologies.parent[first[best[0]]], len(trees.taxa))
    lengths = trees.branch_lengths
    has_lengths = lengths is not None and bool(np.isfinite(lengths).any())
    layout = lay_out(trees.topologies.parent, len(trees.taxa), lengths if has_lengths else None, order)
    with styled():
        ax = tree_axes(ax, len(trees.taxa), width, scale_bar=has_lengths, legend=bool(colored))
        names_at = np.full(len(trees.taxa), layout.x.max())
        rows = np.argsort(order).astype(np.float64)
        _draw_guides(ax, layout.x[:, : len(trees.taxa)], names_at, rows)
        others = MUTED if colored else BLUE
        colors = [PALETTE[rank % len(PALETTE)] if rank < colored else others for rank in range(len(best))]
        place = np.argsort(best)[group]  # of each tree's topology among the best
        _draw_trees(ax, trees, layout.x, layout.y, place, colors)
        write_names(ax, trees.taxa, names_at, rows)
        if has_lengths:
            draw_scale_bar(ax, float(layout.x.max()), len(trees.taxa))
        if colored:
            _draw_legend(ax, shares[best], colors, colored)
    return figure_of(ax)


def _order(trees: TreeSample, like: SummaryTree) -> IntArray:
    """The summary's leaves from the first to the last, in the sample's numbering."""
    check_same_taxa(like.taxa, trees.taxa, "cloud plot")
    number = {name: taxon for taxon, name in enumerate(trees.taxa)}
    order = ladder_order(like.tree.parent, like.tree.leaf_count)
    return np.array([number[like.taxa[leaf]] for leaf in order], np.int32)


def _draw_trees(ax: Axes, trees: TreeSample, x: FloatArray, y: FloatArray, place: LongArray, colors: list[str]) -> None:
    """Straight lines from node to node, the least probable topologies first, so that the best are on top."""
    order = np.argsort(-place, kind="stable")
    parent = trees.topologies.parent[order]
    x, y = x[order], y[order]
    row = np.arange(len(order))[:, None]
    above = parent[:, :-1]
    starts = np.stack([x[row, above], y[row, above]], -1)  # (trees, branches, 2)
    ends = np.stack([x[:, :-1], y[:, :-1]], -1)
    lines = np.stack([starts, ends], 2).reshape(-1, 2, 2)
    density = DENSITY if trees.branch_lengths is None else DENSITY_WITH_LENGTHS
    opacity = np.maximum(1 - np.exp(-density * trees.weights[order]), FAINTEST)
    rgba = np.array([(*to_rgb(colors[place[tree]]), alpha) for tree, alpha in zip(order, opacity, strict=True)])
    collection = LineCollection(
        list(lines),
        colors=np.repeat(rgba, above.shape[1], axis=0).tolist(),
        linewidths=0.7,
        capstyle="round",
        clip_on=False,
        rasterized=len(lines) > MOST_VECTOR_LINES,
    )
    ax.add_collection(collection, autolim=False)


def _draw_guides(ax: Axes, tips: FloatArray, names_at: FloatArray, rows: FloatArray) -> None:
    """Faint lines from the leaves to their names."""
    ax.hlines(rows, tips.min(axis=0), names_at, colors=FAINT, linewidths=0.4, zorder=0)


def _draw_legend(ax: Axes, shares: FloatArray, colors: list[str], colored: int) -> None:
    """The probabilities of the coloured topologies, and of all others together."""
    entries = [(colors[rank], shares[rank]) for rank in range(min(colored, len(shares)))]
    if len(shares) > colored:
        entries.append((MUTED, float(shares[colored:].sum())))
    words = [f"{100 * share:.1f} %" for _, share in entries]
    if len(shares) > colored:
        words[-1] += f" in {counted(len(shares) - colored, 'other')}"
    handles = [Line2D([], [], color=color, label=word) for (color, _), word in zip(entries, words, strict=True)]
    ax.legend(handles=handles, loc="lower right", ncols=len(handles), borderaxespad=0, columnspacing=1.2)


def tree_axes(ax: Axes | None, leaf_count: int, width: float, *, scale_bar: bool, legend: bool) -> Axes:
    """Axes without a frame, with a row for each leaf and room below for scale bar and legend; new ones fit the tree.

    Names have the usual size up to 40 leaves, and shrink from there to the smallest at 240.
    """
    size = np.interp(leaf_count, [40, 240], [TEXT_SIZE, SMALLEST_NAME])
    foot = FOOT_LINE * (2 * scale_bar + legend)
    is_new = ax is None
    ax = axes_for(ax, width, (leaf_count * size * ROW + foot) / POINTS + MARGINS)
    ax.set_axis_off()
    if is_new and (engine := figure_of(ax).get_layout_engine()):
        engine.execute(figure_of(ax))  # the axes' size is known from here on
    height = axes_points(ax)[1]
    rows = leaf_count * (1 + foot / max(1.0, height - foot))
    ax.set_ylim(rows - 0.5, -0.5)  # the first leaf at the top
    return ax


def name_size(ax: Axes) -> float:
    """The size in points at which names of neighbouring rows do not overlap."""
    bottom, top = ax.get_ylim()
    return min(TEXT_SIZE, max(1.0, axes_points(ax)[1] / (bottom - top) / ROW))


def write_names(ax: Axes, names: Sequence[str], x: FloatArray, y: FloatArray) -> None:
    """Leaf names, each to the right of its leaf, and x-limits with room for them; long names make all smaller."""
    width = axes_points(ax)[0]
    shown = [printable(name) for name in names]
    size = name_size(ax)
    widths = text_widths(shown, size)
    if (excess := float(widths.max()) / (LONGEST_NAMES * width - 2 * GAP)) > 1:
        size, widths = size / excess, widths / excess
    left = 1 - (widths + 2 * GAP) / width  # share of the width up to the leaf
    ax.set_xlim(0, float((x / left).max()) or 1.0)
    write(ax, shown, x, y, (GAP, 0), va="center_baseline", size=size, in_layout=False)


def draw_scale_bar(ax: Axes, depth: float, leaf_count: int) -> None:
    """A bar of a round length, about a sixth of the tree's depth, below the tree."""
    if not depth > 0:
        return
    length = nice_step(depth / 6)
    bottom, top = ax.get_ylim()
    y = leaf_count - 0.5 + 0.7 * FOOT_LINE * (bottom - top) / axes_points(ax)[1]
    ax.plot([0, length], [y, y], color=INK, linewidth=1.5 * AXIS_WIDTH, clip_on=False)
    write(ax, [f"{length:g} substitutions per site"], [0], [y], (0, -2), va="top", size=SMALL_SIZE)
