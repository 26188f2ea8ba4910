"""`phloem gap`: what the shared branch-length model loses on individual topologies."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phloem.cli.options import BURNIN_HELP, RUN_HELP, THREADS_HELP, TREES_HELP, parse_burnin, plain_console, plain_table

if TYPE_CHECKING:
    from phloem.tasks.gap import GapAverage, GapTable

EXAMPLES = """
[bold]Examples[/bold]

phloem gap primates-run --trees primates

phloem gap run --trees mrbayes/ --credible 0.95 --out gaps.csv --plot gaps.pdf

phloem gap run --trees mrbayes.run1.t --trees mrbayes.run2.t --burnin 0.25 --samples 20000 --json
"""


def gap(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help=RUN_HELP)],
    trees: Annotated[
        list[str],
        typer.Option(
            "--trees", metavar="TREES", help=f"Reference trees. {TREES_HELP} Repeatable; each file counts the same."
        ),
    ],
    credible: Annotated[
        float, typer.Option(help="Use the most probable topologies that make up this share of the reference.")
    ] = 0.95,
    burnin: Annotated[str, typer.Option(help=BURNIN_HELP)] = "0",
    samples: Annotated[int, typer.Option(min=20, help="Draws of branch lengths per bound.")] = 5000,
    tolerance: Annotated[
        float, typer.Option(help="Allowed shortfall of a tree's best bound, in nats, as estimated.")
    ] = 0.005,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write a CSV table.", show_default="none")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the gaps: .pdf, .svg or .png.", show_default="none"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help=THREADS_HELP, show_default="all physical cores")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Compare the run's branch lengths on individual topologies with the best that their family has for each.

    The gap is the evidence lower bound of the best parameters for a topology minus that of the run's model, in nats. A
    well-trained model that can tell topologies apart has small gaps. Q(τ) is how often the run draws a tree; trees that
    it never draws, it has not learned either. With several runs, the best one is used.
    """
    # Imported here so that `phloem --help` need not wait for numba and torch.
    from phloem.display.bar import progress_bar
    from phloem.tasks.gap import measure_gaps

    with progress_bar("gaps", quiet=quiet) as show:
        table = measure_gaps(
            directory,
            trees,
            credible=credible,
            burnin=parse_burnin(burnin),
            samples=samples,
            tolerance=tolerance,
            seed=seed,
            threads=threads,
            out=out,
            plot=plot,
            progress=show,
        )
    if as_json:
        print(json.dumps(table.as_json()))
    else:
        _print_table(table)


def _print_table(table: "GapTable") -> None:
    console = plain_console()
    summary = table.posterior.summary
    if not summary.finished:
        console.print(f"not finished: the model is that of step {summary.steps:,}\n")
    rows = table.rows()
    shown = plain_table("tree", "probability", "Q(τ)", "amortised ELBO", "best ELBO", "gap", "error")
    for row in rows:
        shown.add_row(
            str(row["rank"]),
            f"{row['probability']:.6f}",
            f"{row['model_probability']:.6f}",
            f"{row['amortized_elbo']:.3f}",
            f"{row['best_elbo']:.3f}",
            f"{row['gap']:.3f}" + ("" if row["converged"] else "*"),
            f"{row['gap_error']:.3f}",
        )
    console.print(shown)
    console.print(f"\naverage gap     {_estimate(table.average)}   all trees weighted equally")
    console.print(f"weighted        {_estimate(table.weighted_average)}   by probability in the reference")
    largest = [max(row[name] for row in rows) for name in ("amortized_error", "best_error")]
    console.print(f"errors of the amortised ELBO up to {largest[0]:.3f}, of the best up to {largest[1]:.3f}")
    if not all(row["converged"] for row in rows):
        console.print("* not converged: the best ELBO may be higher; see `shortfall` with --out or --json")
    outside = table.unknown.tolist()
    if outside:
        shares = ", ".join(f"{place + 1} ({table.trees.weights[place]:.6f})" for place in outside)
        console.print(f"left out because the model lacks a split or subsplit: tree {shares}")


def _estimate(average: "GapAverage") -> str:
    return f"{average.gap:.3f} ± {average.error:.3f}"
