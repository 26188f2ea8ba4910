"""`phloem bootstrap`: alignment → bootstrap trees, one file per replicate."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phloem.cli.flags import Flag, Flags, with_config
from phloem.cli.options import ALIGNMENT_HELP, LongNames
from phloem.config import BootstrapConfig
from phloem.config.search import BOOTSTRAP, BOOTSTRAP_METHODS

if TYPE_CHECKING:
    from phloem.tasks.search import BootstrapProgress, BootstrapRun

EXAMPLES = """
[bold]Examples[/bold]

phloem bootstrap primates --out trees

phloem bootstrap dna.fasta --out trees --count 10000 --replicates 10 --model GTR+G4 --seed 7

phloem bootstrap dna.fasta --out trees --method embedded --count 100 --keep 1000 --within 5

phloem bootstrap dna.fasta --out trees --threads 4 --timeout 3600 --json
"""


FLAGS = Flags(
    BOOTSTRAP,
    [
        Flag("--count", "count", "Trees per replicate; IQ-TREE makes at least 1000."),
        Flag("--replicates", "replicates", "Independent replicates, one file each."),
        Flag("--seed", "seed", "The same seed gives the same trees."),
        Flag("--model", "model", "Substitution model, by IQ-TREE's name: JC, HKY, GTR+G4, …"),
        Flag(
            "--method",
            "method",
            f"How to make them: {', '.join(BOOTSTRAP_METHODS)} (auto: IQ-TREE if installed, else embedded).",
            metavar="NAME",
        ),
        Flag("--keep", "keep", "Best trees of each search to add to its bootstrap trees (embedded)."),
        Flag("--within", "within", "How many log-likelihood units below the very best they may be."),
        Flag("--threads", "threads", "Cores for all replicates together.", "all cores"),
        Flag("--timeout", "timeout", "Seconds that one replicate may take."),
    ],
)


@with_config(FLAGS)
def bootstrap(
    alignment: Annotated[str, typer.Argument(metavar="ALIGNMENT", help=ALIGNMENT_HELP)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The directory for the tree files; made if it is new.")],
    config: BootstrapConfig,
    long_names: LongNames = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a line.")] = False,
) -> None:
    """Make bootstrap trees: by IQ-TREE's ultrafast bootstrap, or by phloem's own search, which needs nothing installed.

    Replicates already in the directory are kept: a stopped run can be resumed, and replicates added later.
    """
    done = _run_with_bar(alignment, out, config, long_names)
    if as_json:
        print(json.dumps(done.as_json()))
        return
    found = f", {done.found} already there" if done.found else ""
    more = " …" if len(done.files) > 1 else ""
    print(
        f"{len(done.files)} replicate{'s' if more else ''} of {done.count:,} trees on {done.taxa:,} taxa "
        f"({done.program}{found}): {done.files[0]}{more}"
    )


def _run_with_bar(alignment: str, out: Path, config: BootstrapConfig, long_names: bool) -> "BootstrapRun":
    """Run, with a bar on stderr where that is a terminal."""
    # Imported here to keep `phloem --help` fast.
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
            if news.fraction == 1:  # it is counted in `done` now
                del at_work[news.replicate]
            bar.update(task, completed=news.done + sum(at_work.values()), done=news.done)

        return run_bootstrap(alignment, out, config, long_names=long_names, progress=show)
