"""The paper's figure of the benchmark: bounds over training steps, and amortisation gaps of single trees."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from phloem import plot
from phloem.arrays import FloatArray
from phloem.errors import BadArgument, FileProblem, PhloemError
from phloem.experiments.benchmark.cells import Cell
from phloem.experiments.benchmark.gaps import table2_json
from phloem.experiments.benchmark.published import VARIANTS, published_estimate, published_gaps, variant_name
from phloem.experiments.benchmark.table1 import setup_title
from phloem.experiments.benchmark.task import BenchmarkRequest, check_request, ordered_cells
from phloem.plot.style import INK, MUTED, PALETTE, SMALL_SIZE, TWO_COLUMNS, axes_for, styled
from phloem.report.wording import powers_of_ten
from phloem.runs.directory import HISTORY
from phloem.runs.history import read_history
from phloem.storage.files import refuse_links, write_text

FOLDER: Final = "figures"
HEIGHT: Final = 2.6  # inches
LEAST: Final = 1e-2  # nats: what is nearer to the reference is drawn there
# Two variants without a graph are dashed: there are eight variants and six colours.
MARK: Final[dict[str, Any]] = {"markersize": 3.5, "markeredgewidth": 0}
DASHES: Final = {"split": (0, (1, 1)), "psp": (0, (4, 1.5))}


class Curve(NamedTuple):
    """The ELBO of a cell over its steps."""

    variant: str
    seed: int
    steps: list[int]
    seconds: list[float]
    elbo: list[float]


def draw_figures(request: BenchmarkRequest) -> list[Path]:
    """A figure for each data set that has cells of the setup, as PDF and SVG, and its numbers as JSON."""
    check_request(request)
    refuse_links(request.out, [FOLDER])
    written: list[Path] = []
    gaps = [cell for cell in table2_json(request)["cells"] if cell["trees"] and _is_of(cell, request)]
    for dataset in request.datasets:
        wanted = [cell for cell in request.cells() if cell.dataset == dataset]
        curves = [curve for cell in wanted if (curve := curve_of(cell, request.out)) is not None]
        if not curves:
            continue
        own = [cell for cell in gaps if cell["dataset"] == dataset]
        stem = request.out / FOLDER / f"{dataset}-{request.setup.name}"
        stem.parent.mkdir(parents=True, exist_ok=True)
        figure = benchmark_figure(dataset, curves, own)
        for suffix in (".pdf", ".svg"):
            plot.save(figure, Path(f"{stem}{suffix}"))
            written.append(Path(f"{stem}{suffix}"))
        found = {
            "dataset": dataset,
            "setup": request.setup.name,
            "curves": [curve._asdict() for curve in curves],
            "gaps": own,
        }
        write_text(Path(f"{stem}.json"), json.dumps(found) + "\n")
        written.append(Path(f"{stem}.json"))
    if not written:
        there = sorted({cell.setup.name for cell in ordered_cells(request) if curve_of(cell, request.out)})
        others = f" It has others: {', '.join(there)}." if there else ""
        raise FileProblem(
            f"{request.out}: has no cells of {request.setup.name} with reports.{others} "
            "Train them: phloem reproduce table1."
        )
    return written


def curve_of(cell: Cell, out: Path) -> Curve | None:
    """The reports of a cell, if there are any."""
    try:
        reports = read_history(cell.directory(out) / HISTORY, cell.run(out).kind.report)
    except PhloemError:
        return None
    finite = [report for report in reports if np.isfinite(report.elbo)]
    if not finite:
        return None
    return Curve(
        cell.variant,
        cell.seed,
        [report.step for report in finite],
        [report.seconds for report in finite],
        [report.elbo for report in finite],
    )


def benchmark_figure(dataset: str, curves: Sequence[Curve], gaps: Sequence[dict[str, Any]]) -> Figure:
    """Bounds over steps and, where gaps were measured, those of single trees, a colour for each variant.

    Left: how far the ELBO of reports is below the published marginal likelihood (EDGE's), both axes logarithmic; a mark
    at the right edge is where the published ELBO of the variant is. Right: the gaps by the rank of the tree.
    """
    reference = published_estimate("log_marginal_likelihood", "edge", dataset)
    if not curves:
        raise BadArgument(f"{dataset}: a figure needs at least one curve.")
    with styled():
        figure = Figure(figsize=(TWO_COLUMNS, HEIGHT), layout="constrained")
        panels = [axes_for(ax) for ax in figure.subplots(1, 2 if gaps else 1, squeeze=False).flat]
        _draw_bounds(panels[0], dataset, curves, None if reference is None else reference.mean)
        if gaps:
            _draw_gaps(panels[1], gaps)
        handles, labels = panels[0].get_legend_handles_labels()
        shown = dict(zip(labels, handles, strict=True))
        figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=len(shown), columnspacing=1.4)
    return figure


def _draw_bounds(ax: Axes, dataset: str, curves: Sequence[Curve], reference: float | None) -> None:
    top = max(max(curve.elbo) for curve in curves) + LEAST if reference is None else reference
    last = max(curve.steps[-1] for curve in curves)
    for curve in curves:
        ax.plot(curve.steps, _below(top, curve.elbo), **_look(curve.variant))
        theirs = published_estimate("elbo", curve.variant, dataset)
        if theirs is not None and curve.seed == min(one.seed for one in curves):
            color = _look(curve.variant)["color"]
            ax.plot([last * 1.06], _below(top, [theirs.mean]), "<", color=color, clip_on=False, **MARK)
    ax.set(xscale="log", yscale="log")
    ax.set_xlim(min(curve.steps[0] for curve in curves), last * 1.06)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: powers_of_ten([round(np.log10(value))])[0]))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("Training step")
    ax.set_ylabel("Marginal likelihood − ELBO, nats")
    note = f"{dataset}; ◂ published"
    ax.text(0.98, 0.97, note, transform=ax.transAxes, ha="right", va="top", size=SMALL_SIZE, color=MUTED)


def _draw_gaps(ax: Axes, gaps: Sequence[dict[str, Any]]) -> None:
    for cell in gaps:
        ranks = [row["rank"] for row in cell["trees"]]
        look = _look(cell["variant"])
        values = np.maximum([row["gap"] for row in cell["trees"]], LEAST)
        ax.plot(ranks, values, **(look | {"linewidth": 0.7}), marker=".", markersize=2)
        for name, value in published_gaps(cell["variant"]).items():
            if name.startswith("tree "):
                ax.plot([int(name.removeprefix("tree "))], [value], marker="x", markersize=3, color=look["color"])
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: powers_of_ten([round(np.log10(value))])[0]))
    ax.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else ""))
    ax.set_xlabel("Tree, by its rank in the posterior")
    ax.set_ylabel("Amortisation gap, nats")
    ax.text(0.98, 0.97, "× published", transform=ax.transAxes, ha="right", va="top", size=SMALL_SIZE, color=MUTED)


def _below(top: float, values: Sequence[float]) -> FloatArray:
    return np.maximum(top - np.asarray(values), LEAST)


def _look(variant: str) -> dict[str, Any]:
    colors = {"split": INK, "psp": MUTED}
    place = VARIANTS.index(variant) - len(colors)
    color = colors.get(variant) or PALETTE[place % len(PALETTE)]
    return {"color": color, "linestyle": DASHES.get(variant, "-"), "label": variant_name(variant)}


def _is_of(cell: dict[str, Any], request: BenchmarkRequest) -> bool:
    own = {"family": request.setup.family, "preset": request.setup.preset, "changes": dict(request.setup.changes)}
    return (
        setup_title(cell) == setup_title(own) and cell["variant"] in request.variants and cell["seed"] in request.seeds
    )
