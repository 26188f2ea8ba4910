"""`phloem reproduce table1`, `table2` and `figures`: the paper's benchmark on DS1–DS8."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phloem.cli.options import parse_counts, plain_console, plain_table
from phloem.config.infer import FAMILIES, PRESETS
from phloem.config.search import BOOTSTRAP_METHODS
from phloem.errors import StoppedByUser, counted

if TYPE_CHECKING:
    from phloem.display.bar import ShowProgress
    from phloem.experiments.benchmark.task import BenchmarkRequest

TABLE1_EXAMPLES = """
[bold]Examples[/bold]

phloem reproduce table1 --out benchmark --jobs 2

phloem reproduce table1 --out benchmark --datasets DS1 --variants edge,psp --seeds 1,2,3

phloem reproduce table1 --out benchmark --preset paper --datasets DS1

phloem reproduce table1 --out benchmark --family warped --variants edge
"""
TABLE2_EXAMPLES = """
[bold]Examples[/bold]

phloem reproduce table2 --out benchmark --jobs 2

phloem reproduce table2 --out benchmark --variants edge,psp --trees mrbayes/DS1
"""
SUPPORTS_EXAMPLES = """
[bold]Examples[/bold]

phloem reproduce supports --out benchmark --jobs 2

phloem reproduce supports --out benchmark --datasets DS1,DS4 --bootstrap-method embedded
"""
FIGURES_EXAMPLES = """
[bold]Examples[/bold]

phloem reproduce figures --out benchmark

phloem reproduce figures --out benchmark --datasets DS1 --preset paper
"""

Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Directory for cells, tables and figures, which it resumes.")
]
Datasets = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Data sets, separated by commas.", show_default="DS1 to DS8")
]
Variants = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Models of branch lengths, separated by commas.", show_default="all eight"),
]
Seeds = Annotated[str, typer.Option(metavar="NUMBERS", help="A cell for each, separated by commas.")]
Preset = Annotated[str, typer.Option(metavar="NAME", help=f"Schedule: {', '.join(PRESETS)}.")]
Family = Annotated[str, typer.Option(metavar="NAME", help=f"Of branch-length distributions: {', '.join(FAMILIES)}.")]
Steps = Annotated[int | None, typer.Option(help="Training steps; such cells are apart.", show_default="the preset's")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting of training, such as training.refit=0; such cells are apart. May be repeated.",
        show_default="none",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where DS1.fasta and so on are.", show_default="PHLOEM_DATA, or Debian's package"),
]
Replicates = Annotated[
    int | None,
    typer.Option(
        "--bootstrap-replicates",
        min=1,
        help="Bootstrap replicates for each support.",
        show_default="10, as published",
    ),
]
Trees = Annotated[
    int | None, typer.Option("--bootstrap-trees", min=1, help="Trees in each.", show_default="10000, as published")
]
Method = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-method",
        metavar="NAME",
        help=f"Make them by {', '.join(BOOTSTRAP_METHODS)}.",
        show_default="the data's own where it has enough, else auto",
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Cells at a time, each on one core.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON instead of a table.")]


def table1(
    out: Out,
    datasets: Datasets = None,
    variants: Variants = None,
    seeds: Seeds = "1",
    preset: Preset = "standard",
    family: Family = "lognormal",
    steps: Steps = None,
    assignments: Assignments = None,
    data: Data = None,
    bootstrap_replicates: Replicates = None,
    bootstrap_trees: Trees = None,
    bootstrap_method: Method = None,
    jobs: Jobs = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Evidence lower bounds and marginal likelihoods on DS1-DS8, the paper's table 1, beside the published values.

    Each cell, a data set with a variant and a seed, is a run of `phloem infer` in DIR/cells. The same command resumes
    what was stopped, tries again what failed, and leaves finished cells as they are; table1.json, table1.md and
    table1.html in DIR hold all cells that are there and are written whenever one ends.
    """
    from phloem.experiments.benchmark.task import reproduce_table1, table1_json

    request = _request(
        out,
        datasets,
        variants,
        seeds,
        (family, preset, steps, assignments),
        (bootstrap_replicates, bootstrap_trees, bootstrap_method),
        data,
        jobs,
    )
    with _telling("table1", quiet) as (show, notice):
        found = table1_json(reproduce_table1(request, show, notice))
    if as_json:
        print(json.dumps(found))
    elif not quiet:
        _print_table1(found, out)


def table2(
    out: Out,
    variants: Variants = None,
    seeds: Seeds = "1",
    preset: Preset = "standard",
    family: Family = "lognormal",
    steps: Steps = None,
    assignments: Assignments = None,
    trees: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="TREES",
            help="Trees of DS1's posterior, such as MrBayes'; a file or a directory, repeatable.",
            show_default="mrbayes/DS1 of the data",
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=20, help="Draws of branch lengths for each bound.")] = 5000,
    data: Data = None,
    bootstrap_replicates: Replicates = None,
    bootstrap_trees: Trees = None,
    bootstrap_method: Method = None,
    jobs: Jobs = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Amortisation gaps on the credible trees of DS1, the paper's table 2, beside the published values.

    The cells are those of table 1 on DS1; those that are missing are trained first. Then `phloem gap` measures each;
    table2.json, table2.md and table2.html in DIR are written whenever one is measured.
    """
    from phloem.experiments.benchmark.gaps import DATASET, reproduce_table2

    request = _request(
        out,
        DATASET,
        variants,
        seeds,
        (family, preset, steps, assignments),
        (bootstrap_replicates, bootstrap_trees, bootstrap_method),
        data,
        jobs,
    )
    with _telling("table2", quiet) as (show, notice):
        found = reproduce_table2(request, trees or (), samples, show, notice)
    if as_json:
        print(json.dumps(found))
    elif not quiet:
        _print_table2(found, out)


def supports(
    out: Out,
    datasets: Datasets = None,
    data: Data = None,
    bootstrap_replicates: Replicates = None,
    bootstrap_trees: Trees = None,
    bootstrap_method: Method = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Cores for the bootstrap.")] = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Only the bootstrap trees of table 1's supports, once for each data set; its cells then find them.

    Replicates that are finished stay, so that a stopped bootstrap continues.
    """
    from phloem.experiments.benchmark.task import reproduce_supports

    trained, bootstrap = (
        ("lognormal", "standard", None, None),
        (bootstrap_replicates, bootstrap_trees, bootstrap_method),
    )
    request = _request(out, datasets, None, "1", trained, bootstrap, data, jobs)
    with _telling("supports", quiet) as (show, notice):
        found = reproduce_supports(request, show, notice)
    if as_json:
        print(json.dumps({name: trees.as_json() for name, trees in found.items()}))
    elif not quiet:
        for name, trees in found.items():
            print(f"{name}: {counted(trees.replicates, 'replicate')} of {counted(trees.trees, 'tree')}, {trees.origin}")


def figures(
    out: Out,
    datasets: Datasets = None,
    variants: Variants = None,
    seeds: Seeds = "1",
    preset: Preset = "standard",
    family: Family = "lognormal",
    steps: Steps = None,
    assignments: Assignments = None,
    quiet: Quiet = False,
) -> None:
    """Bounds over training steps, and amortisation gaps of single trees, of the cells that are there.

    A figure for each data set in DIR/figures, as PDF and SVG, and its numbers as JSON. Nothing is trained or measured.
    """
    from phloem.experiments.benchmark.figures import draw_figures

    request = _request(
        out, datasets, variants, seeds, (family, preset, steps, assignments), (None, None, None), None, 1
    )
    written = draw_figures(request)
    if not quiet:
        print("\n".join(map(str, written)))


def _request(
    out: Path,
    datasets: str | None,
    variants: str | None,
    seeds: str,
    trained: tuple[str, str, int | None, list[str] | None],
    bootstrap: tuple[int | None, int | None, str | None],
    data: Path | None,
    jobs: int,
) -> "BenchmarkRequest":
    from phloem.experiments.benchmark.alignments import DATA_SETS
    from phloem.experiments.benchmark.cells import Setup, parse_changes
    from phloem.experiments.benchmark.published import VARIANTS
    from phloem.experiments.benchmark.supports import Bootstrap
    from phloem.experiments.benchmark.task import BenchmarkRequest

    family, preset, steps, assignments = trained
    return BenchmarkRequest(
        out,
        tuple(DATA_SETS) if datasets is None else _names(datasets),
        VARIANTS if variants is None else _names(variants),
        parse_counts("--seeds", seeds),
        Setup(family, preset, parse_changes(assignments or (), steps)),
        Bootstrap(*bootstrap),
        data,
        jobs,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@contextmanager
def _telling(what: str, quiet: bool) -> "Iterator[tuple[ShowProgress, Callable[[str], None]]]":
    """Progress, and lines about cells; what is stopped can be resumed."""
    from phloem.display.bar import progress_bar
    from phloem.display.words import say

    try:
        with progress_bar(what, quiet=quiet) as show:
            yield show, lambda text: None if quiet else say(f"phloem: {text}")
    except KeyboardInterrupt:
        raise StoppedByUser("stopped, each cell with a checkpoint. The same command resumes them.") from None


def _print_table1(found: dict[str, Any], out: Path) -> None:
    from phloem.experiments.benchmark.table1 import setup_tables

    console = plain_console()
    for setup in setup_tables(found):
        console.print(f"{setup.title}: {setup.finished} of {counted(len(setup.lines), 'cell')} finished\n")
        for grid in setup.grids:
            heading = f"{grid.quantity} - published"
            table = plain_table(heading, *setup.datasets, left=(heading,))
            for row in grid.rows:
                table.add_row(row.variant, *(entry.text for entry in row.entries))
            console.print(table)
            console.print("")
    console.print(f"all numbers: {out / 'table1.html'}, {out / 'table1.md'}, {out / 'table1.json'}")


def _print_table2(found: dict[str, Any], out: Path) -> None:
    from phloem.experiments.benchmark.table2 import gap_tables

    console = plain_console()
    for setup in gap_tables(found):
        console.print(f"{setup.title}: gaps in nats, published in brackets\n")
        table = plain_table("variant", "seed", *setup.columns, left=("variant",))
        for line in setup.lines:
            texts = (f"{ours.partition(' ')[0]} ({published})" for published, ours, _ in line.texts)
            table.add_row(line.variant, str(line.seed), *texts)
        console.print(table)
        console.print("")
    console.print(f"all numbers: {out / 'table2.html'}, {out / 'table2.md'}, {out / 'table2.json'}")
