"""Parameters of the substitution model as figures: their distributions side by side."""

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from phloem.arrays import FloatArray
from phloem.errors import BadArgument
from phloem.plot.lengths import draw_density
from phloem.plot.style import INK, TEXT_SIZE, TWO_COLUMNS, axes_for, styled

PANEL = 1.8, 1.15  # inches
SHOWN = 0.998  # of the weight: a single light draw far away would take up the axis


def parameters(values: Mapping[str, FloatArray], weights: FloatArray, *, width: float = TWO_COLUMNS) -> Figure:
    """A small weighted histogram of each parameter, with its mean and the shortest 95 % interval.

    values: of each parameter in every draw, (draws,), by name, as in `Posterior.parameter_values`. weights: of the
    draws, (draws,).
    """
    if not values:
        raise BadArgument("parameter plot: there are no parameters. Plot a run that inferred some.")
    columns = min(len(values), max(1, int(width / PANEL[0] + 1e-9)))
    rows = math.ceil(len(values) / columns)
    with styled():
        figure = Figure(figsize=(width, rows * PANEL[1]), layout="constrained")
        for number, (name, held) in enumerate(values.items(), 1):
            ax = axes_for(figure.add_subplot(rows, columns, number))
            draw_density(ax, np.asarray(held, np.float64), weights, SHOWN)
            ax.locator_params(axis="x", nbins=4)
            ax.set_title(name, color=INK, size=TEXT_SIZE)
    return figure
