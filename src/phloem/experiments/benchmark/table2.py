"""Table 2 for people: gaps of `table2.json` beside the published ones, as Markdown and as a page."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from phloem.experiments.benchmark.published import variant_name
from phloem.experiments.benchmark.table1 import markdown_table, setup_title, signed
from phloem.report.contents import PAPER, phloem_version
from phloem.report.pages import render_page
from phloem.report.wording import UNKNOWN, count

AVERAGE: Final = "average"
BY_PROBABILITY: Final = "by probability"
TITLE: Final = "Table 2: amortisation gaps"
MEANING: Final = (
    "How much the lower bound of a single tree would gain, in nats, from branch-length parameters of its own: the "
    "bound with the best member of the family less that of the trained model, on the trees of the 95 % credible set. "
    "Trees have their ranks in it; the average counts all alike, and we do not know whether the published one does. "
    "Errors are standard errors from draws."
)


class GapLine(NamedTuple):
    """A cell: texts by column, and its state."""

    variant: str
    seed: int
    texts: list[tuple[str, str, str]]  # published, ours, difference
    by_probability: str
    outside: str
    state: str


class GapTableOfSetup(NamedTuple):
    """All cells of a setup."""

    number: int
    title: str
    columns: list[str]  # `tree 24`, …, `average`
    lines: list[GapLine]


def gap_tables(found: Mapping[str, Any]) -> list[GapTableOfSetup]:
    """The cells by how they were trained."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for cell in found["cells"]:
        groups.setdefault(setup_title(cell), []).append(cell)
    tables = []
    for number, (title, cells) in enumerate(groups.items(), 1):
        columns = list(dict.fromkeys(name for cell in cells for name in cell["published"])) or [AVERAGE]
        tables.append(GapTableOfSetup(number, title, columns, [_line(cell, columns) for cell in cells]))
    return tables


def _line(cell: Mapping[str, Any], columns: Sequence[str]) -> GapLine:
    texts = []
    for name in columns:
        theirs, ours = cell["published"].get(name), cell["gaps"].get(name)
        known = ours is not None and ours["gap"] is not None
        difference = signed(ours["gap"] - theirs) if known and theirs is not None else UNKNOWN
        texts.append((UNKNOWN if theirs is None else f"{theirs:.2f}", gap_text(ours), difference))
    outside = ", ".join(map(str, cell["outside"])) if cell["trees"] else UNKNOWN
    state = f"failed: {cell['problem']}" if cell["problem"] else cell["state"]
    measured = f"{count(cell['topologies'], 'tree')}, {count(cell['samples'], 'draw')} a bound" if cell["trees"] else ""
    return GapLine(
        variant_name(cell["variant"]),
        cell["seed"],
        texts,
        gap_text(cell["gaps"][BY_PROBABILITY]),
        outside or "none",
        measured or state,
    )


def gap_text(one: Mapping[str, float | None] | None) -> str:
    """`0.53 ± 0.01`."""
    if one is None or one["gap"] is None:
        return UNKNOWN
    return f"{one['gap']:.2f}" + ("" if one["error"] is None else f" ± {one['error']:.2f}")


def headings(columns: Sequence[str]) -> list[str]:
    """Of the whole table."""
    named = [heading for name in columns for heading in (f"{name}: published", "ours", "difference")]
    return ["variant", "seed", *named, BY_PROBABILITY, "trees without a gap", "measured"]


def table2_markdown(found: Mapping[str, Any]) -> str:
    """The whole table for a text page."""
    parts = [f"# {TITLE} on {found['dataset']}", MEANING]
    for table in gap_tables(found):
        parts += [f"## {table.title}", gaps_markdown(table)]
    parts.append(f"Published: {found['sources']['gaps']}")
    return "\n\n".join(parts) + "\n"


def gaps_markdown(table: GapTableOfSetup) -> str:
    """The table of a setup."""
    rows = []
    for line in table.lines:
        cells = [text for texts in line.texts for text in texts]
        rows.append([line.variant, str(line.seed), *cells, line.by_probability, line.outside, line.state])
    return markdown_table(headings(table.columns), rows)


def table2_page(found: Mapping[str, Any]) -> str:
    """One self-contained HTML file."""
    return render_page(
        "table2.html",
        package="phloem.experiments.benchmark",
        title=f"{TITLE} on {found['dataset']}",
        meaning=MEANING,
        tables=gap_tables(found),
        headings=headings,
        source_text=found["sources"]["gaps"],
        paper=PAPER,
        release=phloem_version({}),
    )
