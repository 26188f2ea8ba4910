"""How the training went: bounds against steps, a colour a run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from phloem.errors import BadArgument
from phloem.inference.history import Report
from phloem.kernels.arrays import BoolArray, FloatArray
from phloem.plot.style import FAINT, MUTED, ONE_COLUMN, PALETTE, SMALL_SIZE, axes_for, figure_of, styled

MARGIN = 0.06  # of the range, above and below


def training(
    histories: Sequence[Sequence[Report]],
    *,
    names: Sequence[str] | None = None,
    width: float = ONE_COLUMN,
    ax: Axes | None = None,
) -> Figure:
    """The multi-sample bound and the ELBO of one or more runs.

    The bound is drawn from where the target is no longer tempered: before that it is of another target. Tempering is
    shaded. The first steps are far below all others: the later half of every run has half of the axis or more.
    """
    if not len(histories) or not all(map(len, histories)):
        raise BadArgument("training plot: every run needs at least one report.")
    names = names or [f"run {number}" for number in range(1, len(histories) + 1)]
    if len(names) != len(histories):
        raise BadArgument(f"training plot: {len(names)} names for {len(histories)} runs. Give one each.")
    runs = [np.array(history, np.float64) for history in histories]  # (reports, fields)
    columns = {name: column for column, name in enumerate(Report._fields)}
    with styled():
        ax = axes_for(ax, width)
        for number, run in enumerate(runs):
            step, bound, elbo = (run[:, columns[name]] for name in ("step", "lower_bound", "elbo"))
            color = PALETTE[number % len(PALETTE)]
            is_whole = _is_whole(run, columns)
            ax.plot(step[is_whole], bound[is_whole], color=color, linewidth=0.9)
            ax.plot(step, elbo, color=color, linewidth=0.6, alpha=0.7, linestyle=(0, (3, 1)))
        _shade_tempering(ax, runs, columns)
        ax.set_ylim(*_limits(runs, columns))
        ax.set_xlim(0, max(run[-1, columns["step"]] for run in runs))
        ax.set_xlabel("Training step")
        ax.set_ylabel("Lower bound of the log evidence")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}".replace("-", "−")))
        handles = [
            Line2D([], [], color=MUTED, linewidth=0.9, label="multi-sample bound"),
            Line2D([], [], color=MUTED, linewidth=0.6, linestyle=(0, (3, 1)), label="ELBO"),
        ]
        if len(runs) > 1:
            handles += [
                Line2D([], [], color=PALETTE[number % len(PALETTE)], label=name) for number, name in enumerate(names)
            ]
        ax.legend(handles=handles, loc="lower right")
    return figure_of(ax)


def _shade_tempering(ax: Axes, runs: Sequence[FloatArray], columns: dict[str, int]) -> None:
    """From the start to the first report of a run that is no longer tempered; of several runs, the last."""
    ends = []
    for run in runs:
        tempered = run[:, columns["inverse_temperature"]] < 1
        ends.append(run[min(int(tempered.sum()), len(run) - 1), columns["step"]] if tempered.any() else 0.0)
    if max(ends) > 0:
        ax.axvspan(0, max(ends), color=FAINT, alpha=0.5, linewidth=0, zorder=0)
        place: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "top"}
        ax.text(max(ends) / 2, 0.98, "tempered", size=SMALL_SIZE, color=MUTED, **place)


def _limits(runs: Sequence[FloatArray], columns: dict[str, int]) -> tuple[float, float]:
    """Up to the highest value; down to twice as far as the median of a run's ELBOs, and to its last quarter."""
    elbos = [run[np.isfinite(run[:, columns["elbo"]]), columns["elbo"]] for run in runs]
    elbos = [elbo for elbo in elbos if len(elbo)]
    if not elbos:
        raise BadArgument("training plot: no report has a finite ELBO.")
    bounds = [run[_is_whole(run, columns), columns["lower_bound"]] for run in runs]
    high = max(float(part[np.isfinite(part)].max(initial=-np.inf)) for part in [*elbos, *bounds])
    lows = [min(2 * float(np.median(elbo)) - high, float(elbo[-(len(elbo) + 3) // 4 :].min())) for elbo in elbos]
    margin = MARGIN * (high - min(lows)) or 1.0
    return min(lows) - margin, high + margin


def _is_whole(run: FloatArray, columns: dict[str, int]) -> BoolArray:
    """Reports whose bound is of the target itself: none of the steps since the last one was tempered."""
    temperature = run[:, columns["inverse_temperature"]]
    return np.asarray(np.minimum(temperature, np.append(1, temperature[:-1])) >= 1)
