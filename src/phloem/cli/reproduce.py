"""`phloem reproduce`: the paper's experiments."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from phloem.cli.options import CHECKPOINT_HELP, parse_counts, plain_console, plain_table
from phloem.config.density import DENSITY, PAPER_CONCENTRATION, PAPER_TAXA, VARIANTS
from phloem.config.infer import FAMILIES, PRESETS
from phloem.config.search import BOOTSTRAP_METHODS
from phloem.errors import StoppedByUser, counted

TABLE1_EXAMPLES = """
[bold]Examples[/bold]

phloem reproduce table1 --out benchmark --jobs 2

phloem reproduce table1 --out benchmark --datasets DS1 --variants edge,psp --seeds 1,2,3

phloem reproduce table1 --out benchmark --preset paper --datasets DS1

phloem reproduce table1 --out benchmark --family warped --variants edge
"""
DENSITY_EXAMPLES = """
[bold]Examples[/bold]

phloem reproduce density --out density-experiment

phloem reproduce density --taxa 5 --steps 2000 --convolutions edge,mlp --repeats 2 --out small

phloem reproduce density --target target.tsv --repeats 3 --out experiment --resume
"""

app = typer.Typer(
    name="reproduce",
    help="The paper's tables and figures, ours beside the published: table1, density.",
    epilog="[bold]Example[/bold]\n\nphloem reproduce density --taxa 5 --steps 2000 --out small",
    rich_markup_mode="rich",
)


@app.callback()
def experiments() -> None:
    """The paper's experiments, with expected results beside ours."""


@app.command(epilog=TABLE1_EXAMPLES)
def table1(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Directory for cells and tables.")],
    datasets: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Data sets, separated by commas.", show_default="DS1 to DS8")
    ] = None,
    variants: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Models of branch lengths, separated by commas.", show_default="all eight"),
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="NUMBERS", help="A cell for each, separated by commas.")] = "1",
    preset: Annotated[str, typer.Option(metavar="NAME", help=f"Schedule: {', '.join(PRESETS)}.")] = "standard",
    family: Annotated[
        str, typer.Option(metavar="NAME", help=f"Of branch-length distributions: {', '.join(FAMILIES)}.")
    ] = "lognormal",
    steps: Annotated[
        int | None, typer.Option(help="Training steps; such cells are apart.", show_default="the preset's")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of training, such as training.refit=0; such cells are apart. May be repeated.",
            show_default="none",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where DS1.fasta and so on are.", show_default="PHLOEM_DATA, or Debian's package"
        ),
    ] = None,
    bootstrap_replicates: Annotated[
        int | None, typer.Option(min=1, help="Bootstrap replicates for each support.", show_default="10, as published")
    ] = None,
    bootstrap_trees: Annotated[
        int | None, typer.Option(min=1, help="Trees in each.", show_default="10000, as published")
    ] = None,
    bootstrap_method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Make them by {', '.join(BOOTSTRAP_METHODS)}.",
            show_default="the data's own where it has enough, else auto",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Cells at a time, each on one core.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON instead of a table.")] = False,
) -> None:
    """Evidence lower bounds and marginal likelihoods on DS1-DS8, the paper's table 1, beside the published values.

    Each cell, a data set with a variant and a seed, is a run of `phloem infer` in DIR/cells. The same command resumes
    what was stopped, tries again what failed, and leaves finished cells as they are; table1.json, table1.md and
    table1.html in DIR hold all cells that are there and are written whenever one ends.
    """
    from phloem.display.bar import progress_bar
    from phloem.display.words import say
    from phloem.experiments.benchmark.alignments import DATA_SETS
    from phloem.experiments.benchmark.cells import Setup, parse_changes
    from phloem.experiments.benchmark.published import VARIANTS as BENCHMARK_VARIANTS
    from phloem.experiments.benchmark.supports import Bootstrap
    from phloem.experiments.benchmark.task import BenchmarkRequest, reproduce_table1, table1_json

    request = BenchmarkRequest(
        out,
        tuple(DATA_SETS) if datasets is None else _names(datasets),
        BENCHMARK_VARIANTS if variants is None else _names(variants),
        parse_counts("--seeds", seeds),
        Setup(family, preset, parse_changes(assignments or (), steps)),
        Bootstrap(bootstrap_replicates, bootstrap_trees, bootstrap_method),
        data,
        jobs,
    )
    try:
        with progress_bar("table1", quiet=quiet) as show:
            found = reproduce_table1(request, show, lambda text: None if quiet else say(f"phloem: {text}"))
    except KeyboardInterrupt:
        raise StoppedByUser("stopped, each cell with a checkpoint. The same command resumes them.") from None
    if as_json:
        print(json.dumps(table1_json(found)))
    elif not quiet:
        _print_table1(table1_json(found), out)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _print_table1(found: dict[str, Any], out: Path) -> None:
    from phloem.experiments.benchmark.table1 import setup_tables

    console = plain_console()
    for setup in setup_tables(found):
        console.print(f"{setup.title}: {setup.finished} of {counted(len(setup.lines), 'cell')} finished\n")
        for grid in setup.grids:
            table = plain_table(f"{grid.quantity} - published", *setup.datasets, left=(f"{grid.quantity} - published",))
            for row in grid.rows:
                table.add_row(row.variant, *(entry.text for entry in row.entries))
            console.print(table)
            console.print("")
    console.print(f"all numbers: {out / 'table1.html'}, {out / 'table1.md'}, {out / 'table1.json'}")


@app.command(epilog=DENSITY_EXAMPLES)
def density(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Directory for the experiment.")],
    convolutions: Annotated[
        str, typer.Option(metavar="NAMES", help="Which convolutions, separated by commas.")
    ] = ",".join(VARIANTS),
    repeats: Annotated[int, typer.Option(help="Fits of each, with seeds 1, 2, ….")] = 1,
    steps: Annotated[
        int | None,
        typer.Option(help="Training steps.", show_default=f"{DENSITY.presets['paper'].steps}, as in the paper"),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Trees with probabilities: any tree file, or .tsv lines of a probability, a tab and a tree.",
            show_default="a draw from a Dirichlet distribution over all topologies",
        ),
    ] = None,
    taxa: Annotated[int | None, typer.Option(help="Of the draw.", show_default=str(PAPER_TAXA))] = None,
    concentration: Annotated[
        float | None, typer.Option(help="Of the Dirichlet distribution.", show_default=str(PAPER_CONCENTRATION))
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the drawn target.", show_default="1")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the experiment in the directory; finished fits stay.")
    ] = False,
    checkpoint_every: Annotated[str, typer.Option(metavar="TIME", help=CHECKPOINT_HELP)] = "2m",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON instead of a table.")] = False,
) -> None:
    """Fit densities to a known target over all topologies of 8 taxa, with uniform noise (Zhang 2023, section 4.1).

    The directory gets the paper's figure (density.pdf, density.html), the results (results.json), and a run of
    `phloem density fit` for each fit. Ctrl-C stops the experiment and saves it; --resume resumes it.
    """
    from phloem.display.bar import progress_bar
    from phloem.display.words import say
    from phloem.experiments.density.task import ExperimentRequest, results, run_experiment
    from phloem.runs.checkpoints import parse_interval
    from phloem.runs.driver import Interrupted

    request = ExperimentRequest(
        out,
        tuple(name.strip() for name in convolutions.split(",") if name.strip()),
        repeats,
        steps,
        target,
        taxa,
        concentration,
        seed,
        resume,
        shlex.join(sys.argv),
    )
    try:
        with progress_bar("experiment", quiet=quiet) as show:
            found = run_experiment(
                request,
                show,
                interval=parse_interval(checkpoint_every),
                notice=lambda text: say(f"phloem: {text}"),
            )
    except Interrupted:
        raise StoppedByUser("stopped and saved. Resume with the same command and --resume.") from None
    if as_json:
        print(json.dumps(results(found)))
    elif not quiet:
        _print_experiment(results(found), out)


def _print_experiment(found: dict[str, Any], out: Path) -> None:
    console = plain_console()
    console.print(
        f"{counted(found['topologies'], 'topology', 'topologies')} of {found['taxa']} taxa, "
        f"{found['target_topologies']:,} of them in the target; best loss {found['best_loss']:.5f}\n"
    )
    table = plain_table("variant", "repeats", "steps", "divergence", "loss above best", "seconds", left=("variant",))
    for row in found["table"]:
        table.add_row(
            row["convolution"],
            str(row["repeats"]),
            f"{row['steps']:,}",
            _with_deviation(row["divergence"], row["divergence_deviation"]),
            _with_deviation(row["excess_loss"], row["excess_loss_deviation"]),
            f"{row['seconds']:,.0f}",
        )
    console.print(table)
    console.print(f"\nfigure: {out / 'density.pdf'}, {out / 'density.html'}; numbers: {out / 'results.json'}")


def _with_deviation(mean: float, deviation: float | None) -> str:
    return f"{mean:.5f}" if deviation is None else f"{mean:.5f} ± {deviation:.5f}"
