"""`phloem evidence`: alignment and trees → how probable the alignment is given each topology."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from phloem.cli.flags import with_model
from phloem.cli.options import (
    ALIGNMENT_HELP,
    BURNIN_HELP,
    THREADS_HELP,
    TREES_HELP,
    LongNames,
    parse_burnin,
    plain_console,
    plain_table,
)
from phloem.config import ModelConfig
from phloem.errors import counted

if TYPE_CHECKING:
    from phloem.tasks.evidence import EvidenceTable

EXAMPLES = """
[bold]Examples[/bold]

phloem evidence dna.fasta two-trees.nwk

phloem evidence dna.fasta candidates.nex --model HKY --kappa 2 --error 0.005 --json
"""


@with_model
def evidence(
    alignment: Annotated[str, typer.Argument(metavar="ALIGNMENT", help=ALIGNMENT_HELP)],
    trees: Annotated[list[str], typer.Argument(metavar="TREES", help=TREES_HELP)],
    model: ModelConfig,
    long_names: LongNames = False,
    prior_rate: Annotated[float, typer.Option(help="Rate of the exponential prior on branch lengths.")] = 10.0,
    error: Annotated[float, typer.Option(help="Standard error to reach, in nats.")] = 0.02,
    most_draws: Annotated[
        int, typer.Option("--draws", help="Draws for a topology, at most, whether they reach it or not.")
    ] = 10_000,
    burnin: Annotated[str, typer.Option(help=BURNIN_HELP)] = "0",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help=THREADS_HELP, show_default="all cores")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Compare trees: the marginal likelihood of each topology, all branch lengths integrated out.

    Nothing is trained. Branch lengths of the trees do not matter, and equal topologies count once. Differences are log
    Bayes factors; probabilities are those of the given topologies among themselves.
    """
    trees_to_drop = parse_burnin(burnin)

    from phloem.display.bar import progress_bar
    from phloem.tasks.evidence import measure_evidence

    with progress_bar("integrating", quiet=quiet) as show:
        table = measure_evidence(
            alignment,
            trees,
            model,
            prior_rate=prior_rate,
            error=error,
            most_draws=most_draws,
            seed=seed,
            burnin=trees_to_drop,
            long_names=long_names,
            threads=threads,
            progress=show,
        )
    if as_json:
        print(json.dumps(table.as_json()))
    else:
        _print_table(table, error)


def _print_table(table: "EvidenceTable", wanted: float) -> None:
    console = plain_console()
    console.print(f"model {table.model.in_words()}\n")
    rows = plain_table("tree", "log p(Y given tree)", "±", "log Bayes factor", "±", "probability", "draws")
    found = table.evidence
    columns = (table.log_marginal, found.error, *table.against_best, table.shares, found.draws)
    for number, (value, error, factor, its_error, share, draws) in enumerate(zip(*columns, strict=True), 1):
        rows.add_row(
            str(number),
            f"{value:.3f}",
            f"{error:.3f}",
            f"{factor:.3f}",
            f"{its_error:.3f}",
            f"{share:.4f}",
            f"{draws:,}",
        )
    console.print(rows)
    if missed := int((found.error > wanted).sum()):
        which = counted(missed, "topology", "topologies")
        console.print(f"\n{which} did not reach a standard error of {wanted:g}: allow more --draws.")
