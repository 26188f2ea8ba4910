"""docs/benchmarks.md from introduction.md and results: the paper's tables and figures, ours beside the published.

    python benchmarks/write_page.py            write the page, and the pictures of figures
    python benchmarks/write_page.py --check    exit with 1 if the page is not what the results give

benchmarks/results holds what `phloem reproduce` writes: table1*.json, table2*.json, and the numbers of figures as
*.figure.json. Of cells that several files have, one that has ended counts, the last by name.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from phloem import plot
from phloem.experiments.benchmark.figures import Curve, benchmark_figure
from phloem.experiments.benchmark.published import VARIANTS, published, variant_name
from phloem.experiments.benchmark.table1 import (
    MEANING,
    markdown_table,
    setup_markdown,
    setup_tables,
    setup_title,
)
from phloem.experiments.benchmark.table2 import MEANING as GAP_MEANING
from phloem.experiments.benchmark.table2 import gap_tables, gaps_markdown

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
INTRODUCTION = ROOT / "benchmarks" / "introduction.md"
PAGE = ROOT / "docs" / "benchmarks.md"
KEY = ("dataset", "variant", "seed", "family", "preset")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    page = benchmark_page()
    if check:
        return int(PAGE.read_text(encoding="utf-8") != page)
    for path, found in figures():
        plot.save(benchmark_figure(found["dataset"], [Curve(**one) for one in found["curves"]], found["gaps"]), path)
    PAGE.write_text(page, encoding="utf-8")
    return 0


def benchmark_page() -> str:
    """The text of docs/benchmarks.md."""
    table1, table2 = merged("table1"), merged("table2")
    parts = [INTRODUCTION.read_text(encoding="utf-8").rstrip()]
    if table1["cells"]:
        parts += ["## Table 1: bounds and marginal likelihoods", MEANING]
        for table in setup_tables(table1):
            command = reproducing("table1", [line.cell for line in table.lines])
            parts += [f"### {table.title.capitalize()}", table.words, f"```sh\n{command}\n```", *setup_markdown(table)]
    if table2["cells"]:
        parts += ["## Table 2: amortisation gaps", GAP_MEANING]
        for gaps in gap_tables(table2):
            own = [cell for cell in table2["cells"] if setup_title(cell) == gaps.title]
            command = reproducing("table2", own)
            parts += [f"### Gaps: {gaps.title}", f"```sh\n{command}\n```", gaps_markdown(gaps)]
    shown = figures()
    if shown:
        parts.append("## Figures")
        parts += [picture(path, found) for path, found in shown]
    if table1["cells"]:
        parts += ["## Speed", *speed(table1["cells"])]
    sources = dict.fromkeys(published()["sources"].values())
    parts += ["## Where the published values come from", "\n".join(f"- {text}" for text in sources)]
    return "\n\n".join(parts) + "\n"


def picture(path: Path, found: Mapping[str, Any]) -> str:
    """A figure with what it shows."""
    shown = f"![Bounds and gaps on {found['dataset']}]({path.name})"
    return (
        f"{found['dataset']}, {found['setup']}: how far the ELBO is below the marginal likelihood, by training step, "
        f"and the gaps of single trees where they were measured.\n\n{shown}"
    )


def merged(kind: str) -> dict[str, Any]:
    """The cells of all files of a kind, in the order of tables; one that has ended goes before one that has not."""
    cells: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    found: dict[str, Any] = {"sources": published()["sources"], "dataset": "DS1"}
    for path in sorted(RESULTS.glob(f"{kind}*.json")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            key = (*(cell[name] for name in KEY), tuple(sorted(cell["changes"].items())))
            if key not in cells or cell["state"] == "finished":
                cells[key] = cell
    ordered = sorted(cells.values(), key=order)
    return found | {"cells": ordered}


def order(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    """The published family and our schedule first, cells with settings of their own last."""
    setup = (bool(cell["changes"]), cell["family"], cell["preset"] != "standard", sorted(cell["changes"].items()))
    return (*setup, cell["dataset"], VARIANTS.index(cell["variant"]), cell["seed"])


def reproducing(name: str, cells: Sequence[Mapping[str, Any]]) -> str:
    """The command that makes these cells, of one setup."""
    words = ["phloem reproduce", name, "--out benchmark"]
    chosen = {
        "datasets": sorted({cell["dataset"] for cell in cells}),
        "variants": [variant for variant in VARIANTS if any(cell["variant"] == variant for cell in cells)],
        "seeds": [str(seed) for seed in sorted({cell["seed"] for cell in cells})],
    }
    usual = {"datasets": [f"DS{number}" for number in range(1, 9)], "variants": list(VARIANTS), "seeds": ["1"]}
    if name == "table2":
        del chosen["datasets"]
    words += [f"--{option} {','.join(names)}" for option, names in chosen.items() if names != usual[option]]
    first = cells[0]
    words += [f"--{option} {first[option]}" for option, value in DEFAULTS.items() if first[option] != value]
    words += [f"--set {key}={value}" for key, value in sorted(first["changes"].items())]
    return " ".join(words)


DEFAULTS = {"preset": "standard", "family": "lognormal"}


def speed(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Milliseconds a step beside those of the published code, where they are known."""
    rows = []
    for dataset, theirs in published()["step_milliseconds"].items():
        for variant in VARIANTS:
            own = [
                cell
                for cell in cells
                if (cell["dataset"], cell["variant"], cell["family"]) == (dataset, variant, "lognormal")
                and cell["state"] == "finished"
                and cell["processor_seconds"] is not None
            ]
            if own and variant in theirs:
                wall = median(cell["step_milliseconds"] for cell in own)
                whole = median(1000 * cell["processor_seconds"] / cell["steps_done"] for cell in own)
                numbers = [f"{theirs[variant]:.0f}", f"{wall:.1f}", f"{whole:.1f}", f"{theirs[variant] / whole:.0f}"]
                rows.append([dataset, variant_name(variant), *numbers])
    machines = sorted({cell["processor"] for cell in cells} - {""})
    systems = sorted({cell["system"] for cell in cells} - {""})
    versions = sorted({versions_text(cell["versions"]) for cell in cells if cell["versions"]})
    headings = ["data", "variant", "published", "ours, by the clock", "ours, processor time of all", "times as fast"]
    return [
        "Milliseconds a training step of ten particles with lognormals. Published: the 10th percentile on one core of "
        "an AMD Zen 3. Ours, medians over cells: by the clock, the time of training by its steps, while several cells "
        "and other programs shared the machine; and the processor time of the whole run by its steps, from start to "
        "report, with 100,000 draws for the estimates. The ratio is that of the published time to the latter. "
        "[Step times on a free core](speed.md) are shorter.",
        markdown_table(headings, rows),
        f"Ours: {'; '.join([*machines, *systems, *versions])}.",
    ]


def versions_text(versions: Mapping[str, str]) -> str:
    """`phloem 0.1.0, numpy 2.4.6, torch 2.13.0`."""
    return ", ".join(f"{name} {versions[name]}" for name in ("python", "phloem", "numpy", "torch", "numba"))


def figures() -> list[tuple[Path, dict[str, Any]]]:
    """Pictures beside the page, and the numbers that they are drawn from."""
    return [
        (PAGE.with_name(f"benchmarks-{path.name.removesuffix('.figure.json')}.svg"), json.loads(path.read_text()))
        for path in sorted(RESULTS.glob("*.figure.json"))
    ]


if __name__ == "__main__":
    sys.exit(main())
