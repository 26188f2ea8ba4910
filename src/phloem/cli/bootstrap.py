"""`phloem bootstrap`: alignment → bootstrap trees, one file per replicate."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phloem.cli.flags import Flag, Flags, with_config
from phloem.cli.options import ALIGNMENT_HELP, LongNames
from phloem.config import BootstrapConfig
from phloem.config.search import BOOTSTRAP, BOOTSTRAP_METHODS
from phloem.errors import counted

if TYPE_CHECKING:
    from phloem.tasks.search import BootstrapProgress

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
    # Imported here to keep `phloem --help` fast.
    from phloem.display.bar import progress_bar
    from phloem.tasks.search import ShareDone, run_bootstrap

    share = ShareDone(config.replicates)
    with progress_bar("bootstrap") as show:

        def report(news: "BootstrapProgress") -> None:
            show(share.after(news), f"{news.done:,} of {counted(config.replicates, 'replicate')}")

        done = run_bootstrap(alignment, out, config, long_names=long_names, progress=report)
    if as_json:
        print(json.dumps(done.as_json()))
        return
    found = f", {done.found} already there" if done.found else ""
    more = " …" if len(done.files) > 1 else ""
    print(
        f"{counted(len(done.files), 'replicate')} of {counted(done.count, 'tree')} on {done.taxa:,} taxa "
        f"({done.program}{found}): {done.files[0]}{more}"
    )
