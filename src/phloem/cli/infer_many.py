"""`phloem infer-many`: many alignments → as many posteriors, and the gene trees of all."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phloem.cli.flags import Settings, with_infer_settings
from phloem.cli.options import ALIGNMENT_HELP, CHECKPOINT_HELP, LongNames
from phloem.config import InferConfig
from phloem.errors import counted, printable

if TYPE_CHECKING:
    from phloem.tasks.infer_many import ManyLoci

FAILED = 1
MOST_SHOWN = 20  # failures
EXAMPLES = """
[bold]Examples[/bold]

phloem infer-many genes/*.fasta --out loci

phloem infer-many genes/ --out loci --jobs 8 --preset quick --model HKY+G4 --seed 7

phloem infer-many genes/ --out loci --quiet --json > loci.json
"""


@with_infer_settings
def infer_many(
    alignments: Annotated[
        list[str],
        typer.Argument(metavar="ALIGNMENTS…", help=f"{ALIGNMENT_HELP} A directory stands for the alignments in it."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Directory for all runs and tables.")],
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Loci at a time.", show_default="physical cores over --threads")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Cores for each of them.", show_default="physical cores over --jobs")
    ] = None,
    long_names: LongNames = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the runs of these loci.")] = False,
    checkpoint_every: Annotated[str, typer.Option(metavar="TIME", help=CHECKPOINT_HELP)] = "2m",
    plain: Annotated[bool, typer.Option("--plain", help="Show lines instead of a live panel.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only warnings and errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON instead of text.")] = False,
    *,
    settings: Settings[InferConfig],
) -> None:
    """Infer the posteriors of many alignments, such as the loci of a genome: one `phloem infer` each, a few at a time.

    Every locus is a run in DIR/runs, open to all other commands. The same command goes on after a stop, and with more
    loci: what is done stays, what was stopped is resumed, what failed is tried again. A failure stops no other locus;
    the exit code is then 1. Tables and trees of all loci are in DIR: loci.csv, consensus.tre, credible.tre, trees.
    """
    from phloem.display.loci import choose_loci_display
    from phloem.runs.checkpoints import parse_interval
    from phloem.tasks.infer_many import ManyRequest
    from phloem.tasks.infer_many import infer_many as infer_all

    request = ManyRequest(
        alignments,
        out,
        settings.preset,
        settings.layers(),
        jobs,
        threads,
        force,
        long_names,
        parse_interval(checkpoint_every),
        sys.argv,
    )
    with choose_loci_display(plain=plain, quiet=quiet) as show:
        found = infer_all(request, show)
    if as_json:
        print(json.dumps([record.as_json() for record in found.records]))
    elif not quiet:
        print("\n".join(in_words(found)))
    if found.failed:
        raise typer.Exit(FAILED)


def in_words(found: "ManyLoci") -> list[str]:
    """How many loci came to what, which failed, and where everything is."""
    own = [record for record in found.records if record.locus in found.named]
    verdicts = Counter(record.verdict for record in own if record.status == "done")
    counts = [f"{number:,} {verdict}" for verdict, number in sorted(verdicts.items(), key=lambda item: -item[1])]
    lines = [f"{counted(len(own), 'locus', 'loci')}: {', '.join(counts) or 'none done'}"]
    if found.failed:
        lines[0] += f"; {len(found.failed):,} failed"
        lines += [
            f"  {printable(name)}: {printable(problem)}" for name, problem in [*found.failed.items()][:MOST_SHOWN]
        ]
        if len(found.failed) > MOST_SHOWN:
            lines.append(f"  and {len(found.failed) - MOST_SHOWN:,} more, in loci.csv")
    return [
        *lines,
        "",
        f"files in {found.directory}:",
        "  loci.csv       a row for every locus: log p(Y), its error, the verdict, the time",
        "  consensus.tre  majority-rule trees of the loci that are done, for ASTRAL",
        "  credible.tre   their trees of maximum clade credibility",
        "  trees          posterior trees of each, as MrBayes writes them, for BUCKy",
        "  runs           the runs, open to all commands: phloem report DIR/runs/NAME",
    ]
