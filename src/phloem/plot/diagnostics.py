"""Training and trust as figures: bounds against steps, importance weights, amortisation gaps."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from phloem.arrays import BoolArray, FloatArray, LongArray
from phloem.errors import BadArgument
from phloem.inference.training import Report
from phloem.plot.style import (
    AXIS_WIDTH,
    BLUE,
    FAINT,
    MUTED,
    ONE_COLUMN,
    PALETTE,
    SMALL_SIZE,
    VERMILION,
    axes_for,
    figure_of,
    styled,
)

if TYPE_CHECKING:
    from phloem.inference.gap import AmortizationGaps

MARGIN = 0.06  # of the range, above and below
LEAST = 1e-3  # of the mean weight: smaller weights are not shown
ERRORS = 2  # standard errors to each side


def training(
    histories: Sequence[Sequence[Report]],
    *,
    names: Sequence[str] | None = None,
    width: float = ONE_COLUMN,
    ax: Axes | None = None,
) -> Figure:
    """The multi-sample bound and the ELBO of one or more runs.

    The bound is drawn only where the target is not tempered: before, it is a bound for another target. Tempering is
    shaded. The first steps are far below all others: the second half of every run gets at least half of the axis.
    """
    if not len(histories) or not all(map(len, histories)):
        raise BadArgument("training plot: every run needs at least one report.")
    names = names or [f"run {number}" for number in range(1, len(histories) + 1)]
    if len(names) != len(histories):
        raise BadArgument(f"training plot: {len(names)} names for {len(histories)} runs. Give one per run.")
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
    """From the start to the first report that is not tempered; of several runs, the latest."""
    ends = []
    for run in runs:
        tempered = run[:, columns["inverse_temperature"]] < 1
        ends.append(run[min(int(tempered.sum()), len(run) - 1), columns["step"]] if tempered.any() else 0.0)
    if max(ends) > 0:
        ax.axvspan(0, max(ends), color=FAINT, alpha=0.5, linewidth=0, zorder=0)
        place: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "top"}
        ax.text(max(ends) / 2, 0.98, "tempered", size=SMALL_SIZE, color=MUTED, **place)


def _limits(runs: Sequence[FloatArray], columns: dict[str, int]) -> tuple[float, float]:
    """From the highest value down to twice the distance of a run's median ELBO, and at least to its last quarter."""
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
    """Reports whose bound is for the target itself: no step since the previous report was tempered."""
    temperature = run[:, columns["inverse_temperature"]]
    return np.asarray(np.minimum(temperature, np.append(1, temperature[:-1])) >= 1)


def weights(
    log_weights: ArrayLike,
    *,
    effective_samples: float | None = None,
    pareto_k: float | None = None,
    width: float = ONE_COLUMN,
    ax: Axes | None = None,
) -> Figure:
    """The weights of draws from Q, the largest first, as multiples of their mean, both axes logarithmic.

    If Q is the posterior, all weights are 1. The tail to which the Pareto distribution is fitted, the largest
    min(n / 5, 3 √n), has another colour; its slope is about -k̂. The two diagnostics are printed where they are given.
    """
    logs = np.asarray(log_weights, np.float64).ravel()
    if not len(logs) or not np.isfinite(logs.max()) or np.isnan(logs).any():
        raise BadArgument("weight plot: give at least one weight above zero, and none that is infinite or nan.")
    logs = np.sort(logs)[::-1]
    shifted = np.exp(logs - logs[0])
    relative = shifted / shifted.mean()
    seen = relative > 0
    rank = np.arange(1, len(logs) + 1)
    tail = math.ceil(min(len(logs) / 5, 3 * math.sqrt(len(logs))))
    with styled():
        ax = axes_for(ax, width)
        ax.axhline(1, color=FAINT, linewidth=0.8, zorder=0)
        ax.plot(rank[seen], relative[seen], color=BLUE, linewidth=1)
        ends = rank[:tail], relative[:tail]
        ax.plot(*ends, "o", color=VERMILION, markersize=2.4, markeredgewidth=0, label=f"tail, {tail:,} draws")
        ax.legend(loc="upper right")
        ax.set(xscale="log", yscale="log", xlabel="Draws, largest weight first", ylabel="Weight / mean weight")
        ax.set_ylim(bottom=max(LEAST, relative[-1] / 2))
        ax.minorticks_off()
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        lines = []
        if effective_samples is not None:
            share = 100 * effective_samples / len(logs)
            lines.append(f"effective draws {effective_samples:,.0f} of {len(logs):,} ({share:.0f} %)")
        if pareto_k is not None:
            lines.append(f"Pareto k̂ {pareto_k:.2f}")
        if lines:
            ax.text(0.03, 0.04, "\n".join(lines), transform=ax.transAxes, va="bottom", size=SMALL_SIZE)
    return figure_of(ax)


def gaps(
    found: "AmortizationGaps",
    *,
    ranks: LongArray | None = None,
    weights: FloatArray | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Each tree's gap with two standard errors against its rank in the reference, and their average as a line.

    weights: probabilities in the reference, for an average by weight as well.
    """
    if ranks is None:
        ranks = np.arange(1, len(found) + 1)
    with styled():
        ax = axes_for(ax)
        ax.axhline(0, color=MUTED, linewidth=AXIS_WIDTH)
        ax.errorbar(
            ranks,
            found.gap,
            ERRORS * found.gap_error,
            fmt="o",
            markersize=2.5,
            color=BLUE,
            elinewidth=AXIS_WIDTH,
            label="tree ± 2 errors",
        )
        mean, _ = found.average()
        ax.axhline(mean, color=VERMILION, label=f"average {mean:.2f}")
        if weights is not None:
            weighted, _ = found.average(weights)
            ax.axhline(weighted, color=VERMILION, linestyle="--", label=f"weighted {weighted:.2f}")
        ax.set_xlabel("tree, the most probable first")
        ax.set_ylabel("amortisation gap, nats")
        ax.set_ylim(bottom=min(0.0, float(np.nanmin(found.gap - ERRORS * found.gap_error))))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles, labels = ax.get_legend_handles_labels()
        order = [len(labels) - 1, *range(len(labels) - 1)]  # by default, error bars come last
        ax.legend(
            [handles[place] for place in order],
            [labels[place] for place in order],
            loc="lower left",
            bbox_to_anchor=(0, 1),
            borderaxespad=0.2,
            columnspacing=1.2,
            ncols=len(labels),
        )
        return figure_of(ax)
