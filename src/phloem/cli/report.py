"""`phloem report`: the report of a run, and trees for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from phloem.cli.options import RUN_HELP

EXAMPLES = """
[bold]Examples[/bold]

phloem report primates-run

phloem report run --outgroup Lemur_catta,Tarsius_syrichta

phloem report run --midpoint --threshold 0.75 --out for-my-colleagues --figures pdf
"""


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help=RUN_HELP)],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the files.", show_default="the run's directory"),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="The consensus has the clades above this probability; 0.5 to 1.")
    ] = 0.5,
    outgroup: Annotated[
        str, typer.Option(metavar="NAME,…", help="Root the trees at these taxa.", show_default="the run's, or none")
    ] = "",
    midpoint: Annotated[
        bool, typer.Option("--midpoint", help="Root the trees halfway along the longest path.")
    ] = False,
    figures: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Also write the figures: pdf, svg or png.", show_default="none"),
    ] = None,
) -> None:
    """Write report.html, consensus.nex, consensus-labels.nex, posterior.nex and posterior.log for a run.

    The report is one file that needs no network. For an unfinished run it shows the last checkpoint.
    """
    # Imported here so that `phloem --help` need not wait for torch.
    from phloem.display.bar import progress_bar
    from phloem.tasks.exports import write_report

    with progress_bar("drawing") as show:
        lines = write_report(
            directory, out, threshold=threshold, outgroup=outgroup, midpoint=midpoint, figures=figures, progress=show
        )
    print("\n".join(lines))
