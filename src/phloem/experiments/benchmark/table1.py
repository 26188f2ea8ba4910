"""Table 1 for people: cells of `table1.json` side by side with the published values, as Markdown and as a page."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final, NamedTuple

from phloem.experiments.benchmark.published import (
    QUANTITIES,
    SHORT,
    VARIANTS,
    PublishedEstimate,
    published_estimate,
    stepping_stone,
    variant_name,
)
from phloem.report.contents import PAPER, phloem_version
from phloem.report.pages import render_page
from phloem.report.wording import UNKNOWN, count, decimal, duration

TITLE: Final = "Table 1: evidence lower bounds and marginal likelihoods"
MEANING: Final = (
    "ELBO (one particle) and marginal likelihood (ML, importance sampling with 1,000 draws), in nats: means over "
    "estimates, with the standard deviation of one estimate in brackets, as published. Differences are ours less the "
    "published; ± is the standard error that the draws of both leave. Another training, ours or theirs, ends elsewhere "
    "by more than that."
)
FINISHED: Final = "finished"
GOOD, NEAR = 0.0, -0.15  # nats of a difference: at least as high as published, and nearly so


class GridEntry(NamedTuple):
    """A variant on a data set: the mean over seeds."""

    text: str
    look: str  # of the difference: better, near, worse, or open where there is none
    note: str  # in full


class GridRow(NamedTuple):
    """A variant on all data sets."""

    variant: str
    entries: list[GridEntry]


class Grid(NamedTuple):
    """Differences of a quantity."""

    quantity: str  # short
    rows: list[GridRow]


class Line(NamedTuple):
    """A cell in full."""

    cell: Mapping[str, Any]
    published: dict[str, str]  # by quantity
    ours: dict[str, str]
    differences: dict[str, str]
    state: str
    pace: str
    published_pace: str


class SetupTable(NamedTuple):
    """All cells of a setup."""

    number: int
    title: str
    words: str
    datasets: list[str]
    grids: list[Grid]
    lines: list[Line]
    stepping_stones: list[str]  # of the data sets
    finished: int
    supports: list[str]
    processors: list[str]


def setup_tables(found: Mapping[str, Any]) -> list[SetupTable]:
    """The cells by how they were trained."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for cell in found["cells"]:
        key = (cell["family"], cell["preset"], tuple(sorted(cell["changes"].items())))
        groups.setdefault(key, []).append(cell)
    return [_table(number, key, cells) for number, (key, cells) in enumerate(groups.items(), 1)]


def _table(number: int, key: tuple[Any, ...], cells: Sequence[Mapping[str, Any]]) -> SetupTable:
    family, preset, _ = key
    datasets = list(dict.fromkeys(cell["dataset"] for cell in cells))
    variants = [variant for variant in VARIANTS if any(cell["variant"] == variant for cell in cells)]
    grids = [
        Grid(
            SHORT[quantity],
            [
                GridRow(
                    variant_name(variant),
                    [
                        _entry(quantity, [one for one in cells if (one["dataset"], one["variant"]) == (name, variant)])
                        for name in datasets
                    ],
                )
                for variant in variants
            ],
        )
        for quantity in QUANTITIES
    ]
    return SetupTable(
        number,
        setup_title(cells[0]),
        setup_words(family, preset, cells[0]),
        datasets,
        grids,
        [_line(cell) for cell in cells],
        [estimate_text(stepping_stone(name)) for name in datasets],
        sum(cell["state"] == FINISHED for cell in cells),
        _supports(cells),
        sorted({cell["processor"] for cell in cells} - {""}),
    )


def setup_title(cell: Mapping[str, Any]) -> str:
    """`lognormal, standard`, and the settings that are others."""
    return ", ".join(
        [cell["family"], cell["preset"], *(f"{name} = {value}" for name, value in sorted(cell["changes"].items()))]
    )


def setup_words(family: str, preset: str, cell: Mapping[str, Any]) -> str:
    """What a setup means, in sentences."""
    steps = count(cell["steps"], "step")
    schedule = {
        "paper": f"The published schedule, {steps}, with VIMCO",
        "standard": f"Our standard schedule, {steps}, with VIMCO",
        "quick": f"Our quick schedule, {steps}, with VIMCO",
    }[preset]
    refit = cell["settings"].get("training.refit", 0.0 if preset == "paper" else None)
    last = "" if refit == 0 else ", and a last fit of topologies to weighted draws, which the paper does not have"
    lengths = {
        "lognormal": "Branch lengths are lognormal, as published.",
        "warped": "Branch lengths are of our own family, a warped Gaussian Markov field along the tree.",
    }[family]
    return f"{schedule}{last}. {lengths}"


def _entry(quantity: str, cells: Sequence[Mapping[str, Any]]) -> GridEntry:
    done = [cell[quantity] for cell in cells if cell[quantity] is not None]
    if not done:
        states = sorted({cell["state"] for cell in cells}) or [UNKNOWN]
        return GridEntry(", ".join(states), "open", "")
    note = f"mean of {count(len(done), 'seed')}" if len(cells) > 1 else ""
    mean = fmean(one["mean"] for one in done)
    if any(one["difference"] is None for one in done):
        return GridEntry(decimal(mean), "open", note)
    difference = fmean(one["difference"] for one in done)
    look = "better" if difference >= GOOD else "near" if difference >= NEAR else "worse"
    beside = f"{decimal(mean)}, published {decimal(done[0]['published']['mean'])}"
    return GridEntry(signed(difference), look, f"{beside}; {note}" if note else beside)


def _line(cell: Mapping[str, Any]) -> Line:
    ours, published, differences = {}, {}, {}
    for quantity in QUANTITIES:
        one = cell[quantity]
        published[quantity] = estimate_text(published_estimate(quantity, cell["variant"], cell["dataset"]))
        ours[quantity] = UNKNOWN if one is None else estimate_text(PublishedEstimate(one["mean"], one["std"]))
        differences[quantity] = UNKNOWN
        if one is not None and one["difference"] is not None:
            error = one["difference_standard_error"]
            differences[quantity] = signed(one["difference"]) + ("" if error is None else f" ± {error:.2f}")
    pace, theirs = cell["step_milliseconds"], cell["published_step_milliseconds"]
    return Line(
        cell,
        published,
        ours,
        differences,
        state_words(cell),
        UNKNOWN if pace is None else f"{pace:.1f}",
        UNKNOWN if theirs is None else f"{theirs:.0f}",
    )


def state_words(cell: Mapping[str, Any]) -> str:
    """`finished`, or how far it is."""
    if cell["state"] in (FINISHED, "not begun"):
        return str(cell["state"])
    if cell["state"] == "failed":
        return f"failed: {cell['problem']}"
    return f"{cell['state']} at step {cell['steps_done']:,} of {cell['steps']:,}"


def estimate_text(one: PublishedEstimate | None) -> str:
    """`−7108.42 (0.18)`."""
    if one is None:
        return UNKNOWN
    return decimal(one.mean) + ("" if one.std is None else f" ({one.std:.2f})")


def signed(value: float) -> str:
    """`+0.07`, `−0.12`; no sign before a zero."""
    text = decimal(value)
    return f"+{text}" if value > 0 and text != decimal(0) else text


def seconds_text(seconds: float | None) -> str:
    """`3 min`, or a dash."""
    return UNKNOWN if seconds is None else duration(seconds)


def _supports(cells: Iterable[Mapping[str, Any]]) -> list[str]:
    """Which trees the supports are of, a line for each kind."""
    kinds: dict[str, list[str]] = {}
    for cell in cells:
        found = cell["support"]
        if found is not None:
            replicates, trees = count(found["replicates"], "replicate"), count(found["trees"], "tree")
            names = kinds.setdefault(f"{replicates} of {trees}: {found['origin']}", [])
            if cell["dataset"] not in names:
                names.append(cell["dataset"])
    return [f"{', '.join(names)}: {words}" for words, names in kinds.items()]


def table1_markdown(found: Mapping[str, Any]) -> str:
    """The whole table for a text page."""
    parts = [f"# {TITLE}", MEANING]
    for table in setup_tables(found):
        parts += [f"## {table.title}", f"{table.words} {table.finished} of {count(len(table.lines), 'cell')} finished."]
        parts += setup_markdown(table)
    parts.append("Published: " + " ".join(dict.fromkeys(found["sources"][name] for name in QUANTITIES)))
    return "\n\n".join(parts) + "\n"


def setup_markdown(table: SetupTable) -> list[str]:
    """The paragraphs and tables of a setup."""
    parts = []
    for grid in table.grids:
        rows = [[row.variant, *(entry.text for entry in row.entries)] for row in grid.rows]
        parts += [
            f"{grid.quantity}, ours less the published, in nats:",
            markdown_table([f"{grid.quantity}", *table.datasets], rows),
        ]
    if any(text != UNKNOWN for text in table.stepping_stones):
        parts.append(markdown_table(["ML by", *table.datasets], [["MrBayes, stepping stone", *table.stepping_stones]]))
    headings = ["data", "variant", "seed"]
    for quantity in QUANTITIES:
        headings += [f"{SHORT[quantity]} published", "ours", "difference"]
    headings += ["wall time", "processor time", "ms a step", "published", "state"]
    rows = []
    for line in table.lines:
        cell = line.cell
        row = [cell["dataset"], variant_name(cell["variant"]), str(cell["seed"])]
        for quantity in QUANTITIES:
            row += [line.published[quantity], line.ours[quantity], line.differences[quantity]]
        times = [seconds_text(cell["wall_seconds"]), seconds_text(cell["processor_seconds"])]
        rows.append([*row, *times, line.pace, line.published_pace, line.state])
    parts.append(markdown_table(headings, rows))
    parts += [f"Supports. {text}" for text in table.supports]
    if table.processors:
        parts.append(f"Processors: {'; '.join(table.processors)}.")
    return parts


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lines between bars; bars within are escaped."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)


def table1_page(found: Mapping[str, Any]) -> str:
    """One self-contained HTML file."""
    tables = setup_tables(found)
    return render_page(
        "table1.html",
        package="phloem.experiments.benchmark",
        title=TITLE,
        meaning=MEANING,
        tables=tables,
        cells=sum(len(table.lines) for table in tables),
        finished=sum(table.finished for table in tables),
        quantities=[(quantity, SHORT[quantity]) for quantity in QUANTITIES],
        sources=dict.fromkeys(found["sources"][name] for name in (*QUANTITIES, "stepping_stone", "step_milliseconds")),
        seconds_text=seconds_text,
        variant_name=variant_name,
        near=-NEAR,
        sort_key=_sort_key,
        paper=PAPER,
        release=phloem_version({}),
    )


def _sort_key(value: float | None) -> str:
    """What is unknown is sorted as the largest."""
    return "1e300" if value is None or not math.isfinite(value) else repr(value)
