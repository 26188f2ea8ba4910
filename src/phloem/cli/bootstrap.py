"""`phloem bootstrap`: alignment → bootstrap trees, one file a replicate."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phloem.cli.options import ALIGNMENT_HELP
from phloem.config import BootstrapConfig
from phloem.config.search import BOOTSTRAP_METHODS

if TYPE_CHECKING:
    from phloem.tasks.search import BootstrapProgress, BootstrapRun

DEFAULT = BootstrapConfig()

EXAMPLES = """
[bold]Examples[/bold]

phloem bootstrap primates --out trees

phloem bootstrap dna.fasta --out trees --count 10000 --replicates 10 --model GTR+G4 --seed 7

phloem bootstrap dna.fasta --out trees --method embedded --count 100 --keep 1000 --within 5

phloem bootstrap dna.fasta --out trees --threads 4 --timeout 3600 --json
"""


def bootstrap(
    alignment: Annotated[
        str,
        typer.Argument(metavar="ALIGNMENT", help=ALIGNMENT_HELP),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The directory for the tree files; made if it is new.")],
    count: Annotated[int, typer.Option(help="Trees a replicate; IQ-TREE makes 1000 or more.")] = DEFAULT.count,
    replicates: Annotated[int, typer.Option(help="Independent searches, one file each.")] = DEFAULT.replicates,
    seed: Annotated[int, typer.Option(help="The same seed gives the same trees.")] = DEFAULT.seed,
    model: Annotated[
        str, typer.Option(help="Substitution model, as IQ-TREE names them: JC, HKY, GTR+G4, …")
    ] = DEFAULT.model,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"Who makes them: {', '.join(BOOTSTRAP_METHODS)} (IQ-TREE where it is found, else embedded).",
        ),
    ] = DEFAULT.method,
    keep: Annotated[
        int, typer.Option(help="Best trees of each search that come after its bootstrap trees (embedded).")
    ] = DEFAULT.keep,
    within: Annotated[
        float, typer.Option(help="How many log-likelihood units below the very best they may be.")
    ] = DEFAULT.within,
    threads: Annotated[
        int | None, typer.Option(help="Cores for all replicates together.", show_default="all cores")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that one replicate may take.")] = DEFAULT.timeout,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a line.")] = False,
) -> None:
    """Make bootstrap trees: by IQ-TREE's ultrafast bootstrap, or by phloem's own search, which needs nothing installed.

    Replicates that the directory holds already are kept: a stopped run goes on, and more replicates can be added later.
    """
    config = BootstrapConfig(
        count=count,
        replicates=replicates,
        seed=seed,
        model=model,
        method=method,
        keep=keep,
        within=within,
        threads=threads,
        timeout=timeout,
    )
    done = _run_with_bar(alignment, out, config)
    if as_json:
        print(json.dumps(done.as_json()))
        return
    found = f", {done.found} there already" if done.found else ""
    more = " …" if len(done.files) > 1 else ""
    print(
        f"{len(done.files)} replicate{'s' if more else ''} of {done.count:,} trees on {done.taxa:,} taxa "
        f"({done.program}{found}): {done.files[0]}{more}"
    )


def _run_with_bar(alignment: str, out: Path, config: BootstrapConfig) -> "BootstrapRun":
    """Run, with a bar on stderr where that is a terminal."""
    # Imported here so that `phloem --help` need not wait for numba.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from phloem.tasks.search import run_bootstrap

    console = Console(stderr=True)
    columns = (TextColumn("{task.fields[done]} of {task.total} replicates"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_interactive) as bar:
        task = bar.add_task("bootstrap", total=config.replicates, done=0)
        at_work: dict[int, float] = {}

        def show(news: "BootstrapProgress") -> None:
            at_work[news.replicate] = news.fraction
            if news.fraction == 1:  # it is among those that are done
                del at_work[news.replicate]
            bar.update(task, completed=news.done + sum(at_work.values()), done=news.done)

        return run_bootstrap(alignment, out, config, progress=show)
