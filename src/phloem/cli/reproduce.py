"""`phloem reproduce`: the paper's experiments."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from phloem.cli import benchmark
from phloem.cli.options import CHECKPOINT_HELP, plain_console, plain_table
from phloem.config.density import DENSITY, PAPER_CONCENTRATION, PAPER_TAXA, VARIANTS
from phloem.errors import StoppedByUser, counted

DENSITY_EXAMPLES = """
[bold]Examples[/bold]

phloem reproduce density --out density-experiment

phloem reproduce density --taxa 5 --steps 2000 --convolutions edge,mlp --repeats 2 --out small

phloem reproduce density --target target.tsv --repeats 3 --out experiment --resume
"""

app = typer.Typer(
    name="reproduce",
    help="The paper's tables and figures, ours beside the published: table1, table2, figures, supports, density.",
    epilog="[bold]Example[/bold]\n\nphloem reproduce density --taxa 5 --steps 2000 --out small",
    rich_markup_mode="rich",
)


@app.callback()
def experiments() -> None:
    """The paper's experiments, with expected results beside ours."""


app.command(epilog=benchmark.TABLE1_EXAMPLES)(benchmark.table1)
app.command(epilog=benchmark.TABLE2_EXAMPLES)(benchmark.table2)
app.command(epilog=benchmark.SUPPORTS_EXAMPLES)(benchmark.supports)
app.command(epilog=benchmark.FIGURES_EXAMPLES)(benchmark.figures)


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
