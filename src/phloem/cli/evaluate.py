"""`phloem evaluate`: bounds and diagnostics of a run."""

import json
from pathlib import Path
from typing import Annotated

import typer

from phloem.cli.options import BURNIN_HELP, RUN_HELP, THREADS_HELP, parse_burnin, parse_counts, terminal_width

EXAMPLES = """
[bold]Examples[/bold]

phloem evaluate primates-run

phloem evaluate run --samples 1000 --repeats 1000 --bounds 10,100,1000

phloem evaluate run --anneal 5000

phloem evaluate run --reference mrbayes.run1.t --reference mrbayes.run2.t --burnin 0.25 --json
"""


def evaluate(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help=RUN_HELP)],
    samples: Annotated[
        int | None, typer.Option(min=1, help="Make new draws: trees per estimate.", show_default="the run's")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Make new draws: number of estimates.", show_default="the run's")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Make new draws, with this seed.", show_default="the run's")
    ] = None,
    anneal: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Make new draws: anneal N of them from Q to the posterior, which evens out their weights.",
            show_default="plain draws",
        ),
    ] = None,
    bounds: Annotated[
        str | None, typer.Option(metavar="K,…", help="Multi-sample bounds with K draws each.", show_default="100")
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TREES",
            help="Trees from another program to compare with, such as MrBayes' .trprobs or .t files; repeatable, "
            "each file counts the same.",
            show_default="none",
        ),
    ] = None,
    burnin: Annotated[str, typer.Option(help=f"For the reference. {BURNIN_HELP}")] = "0",
    threads: Annotated[int | None, typer.Option(min=1, help=THREADS_HELP, show_default="all physical cores")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Evaluate a run: bounds, the marginal likelihood by importance sampling, and how far to trust both.

    Uses the draws that the run ended with, or new ones if --samples, --repeats, --seed or --anneal is given.

    An unfinished run is evaluated at its last checkpoint.
    """
    counts = None if bounds is None else parse_counts("--bounds", bounds)

    from phloem.display.bar import progress_bar
    from phloem.tasks.evaluate import evaluate_run

    with progress_bar("drawing", quiet=quiet) as show:
        found = evaluate_run(
            directory,
            samples=samples,
            repeats=repeats,
            seed=seed,
            anneal=anneal,
            bounds=counts,
            reference=reference or (),
            burnin=parse_burnin(burnin),
            threads=threads,
            progress=show,
        )
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        print("\n".join(found.describe(terminal_width())))
