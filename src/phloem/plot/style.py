"""One look for all figures: journal widths, small type, colours that all can tell apart; figures as files."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.rcsetup import cycler

from phloem.arrays import FloatArray
from phloem.errors import BadArgument, quoted
from phloem.storage.files import atomic_write

ONE_COLUMN, TWO_COLUMNS = 3.5, 7.2  # inches: 89 and 183 mm, as most journals have them
HEIGHT = 2.6  # of a figure that is no tree
LARGEST = 600  # inches; a tree of 5,000 taxa has 400
# Okabe & Ito's colours, the strongest first, without yellow, which is too pale for lines on white.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
INK = "#1A1A1A"  # text and axes
MUTED = "#6B6B6B"  # what is said in passing
FAINT = "#DADADA"  # guides, shades
TEXT_SIZE, SMALL_SIZE = 7.0, 6.0  # points; few journals allow less
AXIS_WIDTH, LINE_WIDTH = 0.6, 1.0  # points
# TrueType fonts alone: these are embedded as text in every format. The last one comes with matplotlib.
FONTS = ("Arial", "Liberation Sans", "DejaVu Sans")
# What would differ from one day to the next is left out.
METADATA: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
    ".png": {"Software": None},
}
# A layout goes on until axes move by less than SETTLED; rounding hides the rest. In widths and heights of the figure.
MOST_ROUNDS, SETTLED, DECIMALS = 30, 1e-8, 4


@contextmanager
def styled() -> Iterator[None]:
    """Whatever is drawn inside has the look; rcParams are as before afterwards."""
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
    # Ticks are made when a figure is drawn, perhaps outside of `styled()`: they are told now.
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
    """The whole figure that axes are part of."""
    figure = ax.figure.figure
    assert isinstance(figure, Figure)
    return figure


@cache
def fonts() -> list[str]:
    """Those of FONTS that this machine has: a sign that the first lacks comes from the next."""
    truetype = {font.name for font in fontManager.ttflist if Path(font.fname).suffix.lower() == ".ttf"}
    return [font for font in FONTS if font in truetype]


def _settings() -> dict[str, Any]:
    return {
        "font.family": fonts(),
        "font.size": TEXT_SIZE,
        "text.color": INK,
        "text.hinting": "none",  # letters as wide at every size, so that what fits on paper fits on a screen
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


def save(figure: Figure, path: str | Path, *, dpi: float = 300) -> None:
    """Write a figure as PDF, SVG or PNG, by the path's suffix; `dpi` is for PNG. Text stays text in the first two."""
    path = Path(path)
    suffix = check_format(path)
    if not 0 < dpi < 10_000:
        raise BadArgument(f"figure: {dpi:g} dots an inch. Give a number above 0 and below 10,000.")
    with warnings.catch_warnings(), styled():
        # Names in scripts that no font of this machine has are drawn as boxes; nobody can do more about it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        with _laid_out(figure), atomic_write(path) as stream:
            figure.savefig(stream, format=suffix[1:], dpi=dpi, metadata=METADATA[suffix])


def check_format(path: Path) -> str:
    """The suffix, in small letters; raise if there is no such format."""
    suffix = path.suffix.lower()
    if suffix not in METADATA:
        raise BadArgument(f"{path}: figures are written as {', '.join(METADATA)}, not as {quoted(suffix)}. Change it.")
    return suffix


@contextmanager
def _laid_out(figure: Figure) -> Iterator[None]:
    """Axes stay in their places meanwhile: a layout moves them by a trifle with every drawing."""
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
        ax.set_in_layout(True)  # which a place of its own would end
    figure.set_layout_engine("none")
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


def _places(figure: Figure) -> FloatArray:
    """Where the axes are, (axes, 4)."""
    return np.array([ax.get_position(original=True).bounds for ax in figure.axes]).reshape(-1, 4)
