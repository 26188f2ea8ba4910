"""`phloem support`: what a support contains."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from phloem.cli.options import (
    BURNIN_HELP,
    CLOSURE_HELP,
    CREDIBLE_HELP,
    TREES_HELP,
    parse_burnin,
    plain_console,
    plain_table,
)
from phloem.errors import counted

if TYPE_CHECKING:
    from phloem.tasks.support import SupportSummary

EXAMPLES = """
[bold]Examples[/bold]

phloem support primates

phloem support bootstrap/ --covers mrbayes/ --burnin 0.25 --json

phloem support bootstrap/ --closure clades --covers mrbayes/ --burnin 0.25

phloem support run1.t run2.t --burnin 0.25 --credible 1 --minimum-count 2 --out support.npz
"""


def support(
    trees: Annotated[list[str], typer.Argument(metavar="TREES", help=f"{TREES_HELP} One file is one replicate.")],
    covers: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REFERENCE",
            help="Reference trees to cover, such as an MCMC sample; repeatable.",
            show_default="none",
        ),
    ] = None,
    credible: Annotated[float, typer.Option(help=CREDIBLE_HELP)] = 0.95,
    minimum_count: Annotated[
        float, typer.Option(min=0, help="Then drop topologies with a lower count over all replicates.")
    ] = 0,
    closure: Annotated[Literal["none", "clades"], typer.Option(help=CLOSURE_HELP)] = "none",
    burnin: Annotated[str, typer.Option(help=f"{BURNIN_HELP} With --covers, of the reference and not of TREES.")] = "0",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the support to this .npz file.", show_default="none")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Collect the support of a subsplit network from trees: all rootings of all sufficiently frequent topologies.

    A network with this support can generate every tree made of these subsplits, including trees that are in no file;
    with --closure clades, every tree made of these clades. --covers reports how much of a reference sample's weight is
    on such trees.
    """
    # Imported here so that `phloem --help` need not wait for numba.
    from phloem.tasks.support import summarize_support

    summary = summarize_support(
        trees,
        credible=credible,
        minimum_count=minimum_count,
        closure=closure,
        burnin=parse_burnin(burnin),
        covers=covers or [],
        out=out,
    )
    if as_json:
        print(json.dumps(summary._asdict()))
    else:
        _print_summary(summary)


def _print_summary(summary: "SupportSummary") -> None:
    console = plain_console()
    trees, files = counted(summary.trees, "tree"), counted(summary.replicates, "file")
    console.print(f"{trees} on {summary.taxa:,} taxa in {files}")
    if summary.reference_trees is not None:
        console.print(f"{counted(summary.reference_trees, 'tree')} to cover")
    console.print()
    table = plain_table("", "support", left=("",))
    table.add_row("topologies", f"{summary.topologies:,}")
    table.add_row("splits", f"{summary.splits:,}")
    if summary.splits_left_out:
        table.add_row("splits left out", f"{summary.splits_left_out:,}")
    table.add_row("tables", f"{summary.tables:,}")
    table.add_row("parameters", f"{summary.parameters:,}")
    if summary.coverage is not None:
        table.add_row("coverage", f"{summary.coverage:.6f}")
    console.print(table)
