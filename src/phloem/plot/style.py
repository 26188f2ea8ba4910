"""One look for all figures: journal widths, small type, colours that everyone can tell apart; text; files.

Figures are made and saved within `styled()`, which starts from matplotlib's defaults, not from the user's settings, and
leaves those as they were. They do not come from pyplot: no window, no display, nothing that must be closed.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.rcsetup import cycler
from matplotlib.transforms import ScaledTranslation
from numpy.typing import ArrayLike

from phloem.arrays import FloatArray
from phloem.errors import BadArgument, quoted
from phloem.storage.files import atomic_write

POINTS = 72  # per inch
ONE_COLUMN, TWO_COLUMNS = 3.5, 7.2  # inches: 89 and 183 mm, as most journals have them
HEIGHT = 2.6  # of a figure that is not a tree
LARGEST = 600  # inches; a tree of 5,000 taxa has 400
# Okabe & Ito's colours, the strongest first, without yellow, which is too pale for lines on white.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
INK = "#1A1A1A"  # text and axes
MUTED = "#6B6B6B"  # secondary text and lines
FAINT = "#DADADA"  # guides, shades
TEXT_SIZE, SMALL_SIZE = 7.0, 6.0  # points; few journals allow less
AXIS_WIDTH, LINE_WIDTH = 0.6, 1.0  # points
# TrueType only: these are embedded as text in every format. The last one comes with matplotlib.
FONTS = ("Arial", "Liberation Sans", "DejaVu Sans")
# Whatever differs from day to day is left out.
METADATA: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
    ".png": {"Software": None},
}
# A layout is repeated until axes move by less than SETTLED; rounding hides the rest. In units of the figure.
MOST_ROUNDS, SETTLED, DECIMALS = 30, 1e-8, 4
FINENESS = 10  # dots per point when text is measured, so that rounding to dots does not matter


@contextmanager
def styled() -> Iterator[None]:
    """A context in which figures get the look; rcParams are restored afterwards."""
    with matplotlib.style.context(["default", _settings()]):
        yield


def axes_for(ax: Axes | None, width: float = ONE_COLUMN, height: float = HEIGHT) -> Axes:
    """The axes given, or those of a new figure of that size in inches, with the look. Call it within `styled()`."""
    if ax is None:
        if not (0 < width < LARGEST and 0 < height < LARGEST):
            raise BadArgument(f"figure: {width:g} by {height:g} inches. Give sizes above 0 and below {LARGEST}.")
        ax = Figure(figsize=(width, height), layout="constrained").subplots()
    ax.spines[["top", "right"]].set_visible(False)
    for spine in ax.spines.values():
        spine.set(linewidth=AXIS_WIDTH, edgecolor=INK)
    # Ticks are made when a figure is drawn, perhaps outside of `styled()`: set their look now.
    ax.tick_params(
        which="both",
        width=AXIS_WIDTH,
        length=2.5,
        color=INK,
        labelcolor=INK,
        labelsize=SMALL_SIZE,
        labelfontfamily=fonts(),
    )
    for label in (ax.xaxis.label, ax.yaxis.label, ax.title):
        label.set(size=TEXT_SIZE, family=fonts(), color=INK)
    return ax


def figure_of(ax: Axes) -> Figure:
    """The figure that axes belong to."""
    figure = ax.figure.figure
    assert isinstance(figure, Figure)
    return figure


@cache
def fonts() -> list[str]:
    """Those of FONTS that this machine has: a character that the first lacks comes from the next."""
    truetype = {font.name for font in fontManager.ttflist if Path(font.fname).suffix.lower() == ".ttf"}
    return [font for font in FONTS if font in truetype]


def _settings() -> dict[str, Any]:
    return {
        "font.family": fonts(),
        "font.size": TEXT_SIZE,
        "text.color": INK,
        "text.hinting": "none",  # letters are as wide at every size, so that what fits on paper fits on a screen
        "text.parse_math": False,  # a $ in a name is a $
        "axes.labelcolor": INK,
        "axes.labelsize": TEXT_SIZE,
        "axes.titlesize": TEXT_SIZE,
        "axes.titlelocation": "left",
        "axes.prop_cycle": cycler(color=PALETTE),
        "axes.xmargin": 0.02,
        "legend.fontsize": SMALL_SIZE,
        "legend.frameon": False,
        "legend.handlelength": 1.4,
        "lines.linewidth": LINE_WIDTH,
        "lines.solid_capstyle": "butt",
        "figure.dpi": 150,
        "figure.constrained_layout.h_pad": 0.03,
        "figure.constrained_layout.w_pad": 0.03,
        "savefig.dpi": 300,
        "pdf.fonttype": 42,  # text stays text: TrueType, whole letters
        "svg.fonttype": "none",
        "svg.hashsalt": "phloem",
    }


def write(
    ax: Axes, texts: Sequence[str], x: ArrayLike, y: ArrayLike, offset: tuple[float, float], **style: Any
) -> None:
    """Each text at its place in data coordinates, moved right and up by `offset` in points; never clipped."""
    moved = ax.transData + _points(ax, *offset)
    for text, place, height in zip(texts, np.asarray(x).tolist(), np.asarray(y).tolist(), strict=True):
        ax.text(place, height, text, transform=moved, **style)


def write_below(ax: Axes, text: str, distance: float, **style: Any) -> None:
    """Text that starts `distance` points below the lower left corner of the axes."""
    ax.text(0, 0, text, transform=ax.transAxes + _points(ax, 0, -distance), va="top", **style)


def text_widths(texts: Sequence[str], size: float) -> FloatArray:
    """Widths in points, (texts,), in the fonts of all figures."""
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


def save(figure: Figure, path: str | Path, *, dpi: float = 300) -> None:
    """Write a figure as PDF, SVG or PNG, by the path's suffix; `dpi` is for PNG. Text stays text in the first two.

    Equal figures give equal bytes.
    """
    path = Path(path)
    suffix = check_format(path)
    if not 0 < dpi < 10_000:
        raise BadArgument(f"figure: {dpi:g} dots per inch. Give a number above 0 and below 10,000.")
    with warnings.catch_warnings(), styled():
        # Characters that no font of this machine has are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        with _laid_out(figure), atomic_write(path) as stream:
            figure.savefig(stream, format=suffix[1:], dpi=dpi, metadata=METADATA[suffix])


def check_format(path: Path) -> str:
    """The suffix in lower case; raise if it is not a format for figures."""
    suffix = path.suffix.lower()
    if suffix not in METADATA:
        raise BadArgument(
            f"{path}: figures are written as {', '.join(METADATA)}, not as {quoted(suffix)}. Change the suffix."
        )
    return suffix


@contextmanager
def _laid_out(figure: Figure) -> Iterator[None]:
    """Keep axes in place meanwhile: a layout moves them slightly with every drawing."""
    engine = figure.get_layout_engine()
    if engine is None:
        yield
        return
    figure.draw_without_rendering()  # ticks and legends get their places, and the layout its first round
    places = _places(figure)
    for _ in range(MOST_ROUNDS):
        engine.execute(figure)
        before, places = places, _places(figure)
        if np.allclose(before, places, rtol=0, atol=SETTLED):
            break
    for ax, place in zip(figure.axes, np.round(places, DECIMALS).tolist(), strict=True):
        ax.set_position(place)
        ax.set_in_layout(True)  # which set_position would undo
    figure.set_layout_engine("none")
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


def _places(figure: Figure) -> FloatArray:
    """Where the axes are, (axes, 4)."""
    return np.array([ax.get_position(original=True).bounds for ax in figure.axes]).reshape(-1, 4)
