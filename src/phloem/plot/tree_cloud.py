"""Many trees over each other: where they agree lines add up, where they differ a web is seen."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray, IntArray, LongArray
from phloem.plot.style import BLUE, FAINT, MUTED, PALETTE, TWO_COLUMNS, figure_of, styled
from phloem.plot.tree_axes import draw_scale_bar, tree_axes, write_names
from phloem.trees.layout import ladder_order, lay_out
from phloem.trees.sample import TreeSample, check_same_taxa, group_rows
from phloem.trees.summary_tree import SummaryTree

# A line with a share s of the weight has 1 - exp(-density * s) of its colour. Trees with lengths share no line exactly.
DENSITY, DENSITY_WITH_LENGTHS = 10.0, 25.0
FAINTEST = 0.015  # share of a colour that is still seen when many lines add up
MOST_VECTOR_LINES = 20_000  # more are one picture inside a PDF or SVG, which would be huge


def cloud(
    trees: TreeSample,
    *,
    like: SummaryTree | None = None,
    colored: int = 3,
    width: float = TWO_COLUMNS,
    ax: Axes | None = None,
) -> Figure:
    """Trees over each other, each as strong as its weight, leaves in the order of one tree.

    like: a consensus that gives the order of the leaves; without it the most probable topology does. colored: how many
    of the most probable topologies have a colour of their own; the others are grey. Trees without lengths are drawn
    with all leaves at the same depth. All hang on the first taxon's neighbour. A few hundred trees are enough.
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
    """The summary's leaves from the first to the last, by the sample's numbers."""
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
    """From the nearest end of a leaf's branch to its name."""
    ax.hlines(rows, tips.min(axis=0), names_at, colors=FAINT, linewidths=0.4, zorder=0)


def _draw_legend(ax: Axes, shares: FloatArray, colors: list[str], colored: int) -> None:
    """The share of the coloured topologies, and that of all others."""
    entries = [(colors[rank], shares[rank]) for rank in range(min(colored, len(shares)))]
    if len(shares) > colored:
        entries.append((MUTED, float(shares[colored:].sum())))
    words = [f"{100 * share:.1f} %" for _, share in entries]
    if len(shares) > colored:
        words[-1] += f" in {len(shares) - colored} others"
    handles = [Line2D([], [], color=color, label=word) for (color, _), word in zip(entries, words, strict=True)]
    ax.legend(handles=handles, loc="lower right", ncols=len(handles), borderaxespad=0, columnspacing=1.2)
