"""`phloem infer`: alignment → posterior."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phloem.cli.options import ALIGNMENT_HELP, TREES_HELP
from phloem.cli.tables import plain_console, plain_table
from phloem.config import BRANCH_MODELS, ESTIMATORS, PRESETS, InferConfig, preset

if TYPE_CHECKING:
    from phloem.pipeline.infer import Inference, Progress, Report

DEFAULT = InferConfig()

EXAMPLES = """
[bold]Examples[/bold]

phloem infer primates --out primates-run --preset quick

phloem infer dna.fasta --out run

phloem infer dna.fasta --out run --trees bootstrap/ --branches psp --steps 100000 --seed 7 --threads 2
"""


def infer(
    alignment: Annotated[
        str,
        typer.Argument(metavar="ALIGNMENT", help=ALIGNMENT_HELP),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The directory for the run: a new or an empty one.")],
    trees: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TREES",
            help=f"{TREES_HELP} One file is one replicate; may be repeated.",
            show_default="bootstrap trees by IQ-TREE",
        ),
    ] = None,
    branches: Annotated[
        str, typer.Option(metavar="MODEL", help=f"How branch lengths are modelled: {', '.join(BRANCH_MODELS)}.")
    ] = DEFAULT.branches,
    preset_name: Annotated[
        str,
        typer.Option("--preset", metavar="PRESET", help=f"How training goes: {', '.join(PRESETS)}."),
    ] = "standard",
    steps: Annotated[
        int | None,
        typer.Option(help="Training steps; the preset's schedule stretches with them.", show_default="the preset's"),
    ] = None,
    particles: Annotated[
        int | None, typer.Option(help="Trees drawn in every step.", show_default="the preset's")
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            metavar="ESTIMATOR",
            help=f"Gradient estimator for topologies: {', '.join(ESTIMATORS)}.",
            show_default="the preset's",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same posterior.")] = DEFAULT.seed,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Cores for the likelihood.", show_default="all physical ones")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON instead of a table.")] = False,
) -> None:
    """Infer the posterior over trees and branch lengths: bootstrap trees for the support, training, evaluation.

    The directory gets config.toml, history.csv, summary.json, and the trained model: support.npz and
    parameters.safetensors.
    """
    training = preset(preset_name, steps=steps, particles=particles, estimator=estimator)
    config = InferConfig(branches=branches, seed=seed, training=training)

    # Imported here so that `phloem --help` need not wait for numba and torch.
    from phloem.pipeline.infer import infer, summarize

    with _progress() as show:
        result = infer(alignment, out, config, trees=trees or (), threads=threads, progress=show)
    if as_json:
        print(json.dumps(summarize(result, config)))
    else:
        _print_result(result, out)


@contextmanager
def _progress() -> "Iterator[Callable[[Progress], None]]":
    """A bar on a terminal; elsewhere a line at each tenth of the training. Both go to stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[news]}"), TimeRemainingColumn())
    with Bars(*columns, console=console, transient=True, disable=not console.is_interactive) as bars:
        task = bars.add_task("reading", total=1.0, news="")
        phase = ""
        tenths = 0
        before: Report | None = None

        def show(news: "Progress") -> None:
            nonlocal phase, tenths, before
            if news.phase != phase:
                phase = news.phase
                bars.reset(task, description=phase)
                if not console.is_interactive and phase != "training":
                    console.print(f"{phase} …")
            text = describe(news.report, before) if news.report else ""
            before = news.report
            bars.update(task, completed=news.share, news=text)
            if not console.is_interactive and news.report and int(10 * news.share) > tenths:
                tenths = int(10 * news.share)
                console.print(text)

        yield show


def describe(report: "Report", before: "Report | None") -> str:
    """A report in a line, with the speed since the one before."""
    step, seconds = (before.step, before.seconds) if before else (0, 0.0)
    return (
        f"step {report.step:,}   temperature {1 / report.inverse_temperature:.3g}   ELBO {report.elbo:.2f}   "
        f"{(report.step - step) / (report.seconds - seconds):.0f} steps/s"
    )


def _print_result(result: "Inference", out: Path) -> None:
    support = result.model.network.support
    console = plain_console()
    console.print(
        f"{len(result.alignment.taxa):,} taxa, {result.alignment.site_count:,} sites, "
        f"{support.topology_count:,} topologies in the support, {result.seconds:,.0f} s\n"
    )
    table = plain_table("", "mean", "std", left=("",))
    for name, (mean, std) in result.evaluation._asdict().items():
        table.add_row(name.replace("_", " "), f"{mean:.3f}", "" if std is None else f"{std:.3f}")
    console.print(table)
    console.print(f"\nconfig.toml, history.csv, summary.json, support.npz, parameters.safetensors: {out}")
