"""Figures as files: the format is that of the suffix, and equal figures are equal bytes."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from phloem.errors import BadArgument, quoted
from phloem.files import atomic_write
from phloem.kernels.arrays import FloatArray
from phloem.plot.style import styled

# What would differ from one day to the next is left out.
METADATA: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
    ".png": {"Software": None},
}
# A layout goes on until axes move by less than SETTLED; rounding hides the rest. In widths and heights of the figure.
MOST_ROUNDS, SETTLED, DECIMALS = 30, 1e-8, 4


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
