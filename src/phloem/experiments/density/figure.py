"""The density experiment in three panels: loss and divergence against training steps, estimates against the truth."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from phloem.experiments.density.charts import (
    BELOW,
    LINEAR,
    Estimates,
    VariantCurve,
    divergence_curves,
    estimates,
    excess_curves,
    last_step,
    repeats_in_words,
)
from phloem.experiments.density.results import DensityExperiment, Variant, chosen_variant, variants
from phloem.plot.style import FAINT, INK, MUTED, PALETTE, SMALL_SIZE, TWO_COLUMNS, axes_for, styled
from phloem.report.charts import whole_powers
from phloem.report.wording import count, powers_of_ten

HEIGHT = 2.5  # inches, with the legend
SHADE = 0.2  # opacity of a band
THIN = 0.5  # points
FEW = 200  # topologies, up to which dots are larger


def experiment_figure(experiment: DensityExperiment, *, convolution: str | None = None) -> Figure:
    """The paper's figure of the experiment, a colour for each variant; bands are standard deviations over repeats.

    Left: the expected loss above the best possible one, J*, which is a dashed line at 0. The axis is logarithmic down
    to the least value and linear from there to 0: losses end so close to J* that a linear axis would not tell them
    apart. Middle: the divergence from target to model. Right: estimated against true probabilities of all topologies,
    by the repeat of median divergence of `convolution`, by default the variant that ends nearest to the target. A
    repeat that stopped before the others of its variant is a thin line.
    """
    found = variants(experiment)
    chosen = chosen_variant(found, convolution)
    with styled():
        figure = Figure(figsize=(TWO_COLUMNS, HEIGHT), layout="constrained")
        left, middle, right = map(axes_for, figure.subplots(1, 3))
        _draw_losses(left, found, experiment.best_loss)
        _draw_divergences(middle, found)
        for ax in (left, middle):
            ax.set_xlim(0, last_step(found))
            ax.set_xlabel("Training step")
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        _draw_estimates(right, estimates(experiment, chosen))
        handles = _handles(found)
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), columnspacing=1.6)
    return figure


def _handles(found: Sequence[Variant]) -> list[Line2D | Patch]:
    """The legend: the variants, and bands and thin lines where there are any."""
    handles: list[Line2D | Patch] = [Line2D([], [], color=_color(variant), label=variant.name) for variant in found]
    if repeats := repeats_in_words(found):
        handles.append(Patch(color=MUTED, alpha=SHADE, linewidth=0, label=f"± standard deviation of {repeats}"))
    if any(variant.stopped for variant in found):
        handles.append(Line2D([], [], color=MUTED, linewidth=THIN, label="ended early"))
    return handles


def _draw_losses(ax: Axes, found: Sequence[Variant], best_loss: float) -> None:
    curves, axis = excess_curves(found, best_loss)
    threshold = 10.0**axis.threshold
    ax.set_yscale("symlog", linthresh=threshold, linscale=LINEAR * 0.9)  # a decade is 0.9 in matplotlib's units
    ax.axhline(0, color=INK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1)
    _draw_curves(ax, curves, -threshold * BELOW / LINEAR)
    ax.set_ylim(-threshold * BELOW / LINEAR, 10.0**axis.high)
    ax.set_yticks([0, *(10.0**power for power in axis.powers())], ["0", *powers_of_ten(axis.powers())])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_ylabel("NCE loss − J*")
    place = ax.get_yaxis_transform()
    ax.text(0.98, threshold * 0.08, f"J* = {best_loss:.5g}", transform=place, ha="right", va="bottom", size=SMALL_SIZE)


def _draw_divergences(ax: Axes, found: Sequence[Variant]) -> None:
    curves, axis = divergence_curves(found)
    ax.set_yscale("log")
    _draw_curves(ax, curves, 10.0**axis.low)
    ax.set_ylim(10.0**axis.low, 10.0**axis.high)
    ax.set_yticks([float(tick.label) for tick in axis.ticks()], [tick.label for tick in axis.ticks()])
    ax.yaxis.set_minor_locator(LogLocator(subs=range(2, 10)))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(axis="y", which="minor", length=1.5)
    ax.set_ylabel("KL(target ‖ model), nats")


def _draw_curves(ax: Axes, curves: Sequence[VariantCurve], lowest: float) -> None:
    for variant, (steps, mean, deviation), stopped in curves:
        color = _color(variant)
        if deviation is not None:
            low, high = np.maximum(mean - deviation, lowest), mean + deviation
            ax.fill_between(steps, low, high, color=color, alpha=SHADE, linewidth=0)
        ax.plot(steps, mean, color=color, marker="" if len(steps) > 1 else ".")
        for line in stopped:
            ax.plot(line.steps, line.values, color=color, linewidth=THIN, marker="" if len(line.steps) > 1 else ".")


def _draw_estimates(ax: Axes, found: Estimates) -> None:
    low, high = found.range
    ax.plot([low, high], [low, high], color=FAINT, linewidth=0.8, zorder=0)
    size, alpha = (3.0, 0.8) if len(found.target) <= FEW else (1.6, 0.5)
    color = _color(found.variant)
    ax.plot(found.target, found.model, "o", color=color, markersize=size, alpha=alpha, markeredgewidth=0, clip_on=False)
    margin = 0.02 * (high - low)
    ax.set(xlim=(found.least - margin, high), ylim=(low - margin, high))
    for axis, powers in ((ax.xaxis, whole_powers(found.least, high)), (ax.yaxis, whole_powers(low, high))):
        axis.set_ticks(powers, powers_of_ten(powers))
    ax.set_xlabel("True probability")
    ax.set_ylabel("Estimated probability")
    ax.text(0.98, 0.03, _note(found), transform=ax.transAxes, ha="right", va="bottom", size=SMALL_SIZE, color=MUTED)


def _note(found: Estimates) -> str:
    """Which repeat is shown, and what is not."""
    lines = [f"{found.variant.name}, seed {found.repeat.seed}", count(len(found.target), "topology", "topologies")]
    if found.tiny:
        lines.append(f"not shown: {found.tiny:,} below {found.cut}")
    if found.zeros:
        lines.append(f"{'and' if found.tiny else 'not shown:'} {found.zeros:,} of probability 0")
    if found.too_low:
        lines.append(f"at the lower edge: {count(found.too_low, 'lower estimate')}")
    return "\n".join(lines)


def _color(variant: Variant) -> str:
    return PALETTE[variant.place % len(PALETTE)]
