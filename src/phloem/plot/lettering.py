"""Text at places of the data, some points away, and how wide it is."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties
from matplotlib.transforms import ScaledTranslation
from numpy.typing import ArrayLike

from phloem.kernels.arrays import FloatArray
from phloem.plot.style import figure_of, fonts

POINTS = 72  # an inch
FINENESS = 10  # dots a point when text is measured, so that rounding to dots does not count


def write(
    ax: Axes, texts: Sequence[str], x: ArrayLike, y: ArrayLike, offset: tuple[float, float], **style: Any
) -> None:
    """Each text at its place in data coordinates, moved by `offset` in points right and up. None is cut."""
    moved = ax.transData + _points(ax, *offset)
    for text, place, height in zip(texts, np.asarray(x).tolist(), np.asarray(y).tolist(), strict=True):
        ax.text(place, height, text, transform=moved, **style)


def write_below(ax: Axes, text: str, distance: float, **style: Any) -> None:
    """Text that begins so many points below the lower left corner of the axes."""
    ax.text(0, 0, text, transform=ax.transAxes + _points(ax, 0, -distance), va="top", **style)


def text_widths(texts: Sequence[str], size: float) -> FloatArray:
    """Points across, (texts,), in the fonts of all figures."""
    renderer = _measure()
    font = FontProperties(family=fonts(), size=size)
    return np.array([renderer.get_text_width_height_descent(text, font, False)[0] for text in texts]) / FINENESS


def axes_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes in points, as they are before any layout."""
    extent = ax.get_window_extent()
    dots = figure_of(ax).dpi / POINTS
    return float(extent.width / dots), float(extent.height / dots)


def _points(ax: Axes, right: float, up: float) -> ScaledTranslation:
    return ScaledTranslation(right / POINTS, up / POINTS, figure_of(ax).dpi_scale_trans)


@cache
def _measure() -> RendererAgg:
    return RendererAgg(1, 1, POINTS * FINENESS)
