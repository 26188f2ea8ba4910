"""What all drawings of trees share: rows for the leaves, names that fit beside them, a scale bar."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from phloem.kernels.arrays import FloatArray
from phloem.plot.lettering import POINTS, axes_points, text_widths, write
from phloem.plot.style import AXIS_WIDTH, INK, SMALL_SIZE, TEXT_SIZE, axes_for, figure_of

ROW = 1.3  # height of a row, in heights of its name
SMALLEST_NAME = 4.5  # points, in a figure of our own
MARGINS = 0.1  # inches above and below all
FOOT_LINE = 12  # points below the last row, for a line of it: scale bar, its text, legend
GAP = 2.5  # points between a leaf and its name
LONGEST_NAMES = 0.6  # of the width: the tree has the rest


def tree_axes(ax: Axes | None, leaf_count: int, width: float, *, scale_bar: bool, legend: bool) -> Axes:
    """Axes without frame, with a row for each leaf and a foot for what else there is; new ones are as high as needed.

    Up to 40 leaves have names of the usual size; from there on these shrink, to the smallest at 240.
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
    """Points that names may have, for the rows not to overlap."""
    bottom, top = ax.get_ylim()
    return min(TEXT_SIZE, max(1.0, axes_points(ax)[1] / (bottom - top) / ROW))


def write_names(ax: Axes, names: Sequence[str], x: FloatArray, y: FloatArray) -> None:
    """Leaf names, each right of its place, and x-limits from 0 that leave room for them; too long ones are smaller."""
    width = axes_points(ax)[0]
    shown = [_printable(name) for name in names]
    size = name_size(ax)
    widths = text_widths(shown, size)
    if (excess := float(widths.max()) / (LONGEST_NAMES * width - 2 * GAP)) > 1:
        size, widths = size / excess, widths / excess
    left = 1 - (widths + 2 * GAP) / width  # share of the width up to the leaf
    ax.set_xlim(0, float((x / left).max()) or 1.0)
    write(ax, shown, x, y, (GAP, 0), va="center_baseline", size=size, in_layout=False)


def draw_scale_bar(ax: Axes, depth: float, leaf_count: int) -> None:
    """A bar of a round length, about a sixth of the tree's depth, below the first column."""
    if not depth > 0:
        return
    length = _round_length(depth / 6)
    bottom, top = ax.get_ylim()
    y = leaf_count - 0.5 + 0.7 * FOOT_LINE * (bottom - top) / axes_points(ax)[1]
    ax.plot([0, length], [y, y], color=INK, linewidth=1.5 * AXIS_WIDTH, clip_on=False)
    write(ax, [f"{length:g} substitutions per site"], [0], [y], (0, -2), va="top", size=SMALL_SIZE)


def _round_length(target: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten up to the target."""
    power = 10.0 ** math.floor(math.log10(target))
    return max(step * power for step in (1, 2, 5) if step * power <= target * (1 + 1e-9))


def _printable(name: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in name)
