"""`phloem evidence`: how probable the alignment is given each topology, for trees of files or those of a run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phloem.cli.flags import EVIDENCE_FLAGS, with_target
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
from phloem.config import InferConfig
from phloem.errors import BadArgument, counted

if TYPE_CHECKING:
    from phloem.tasks.evidence import EvidenceTable
    from phloem.tasks.run_evidence import RunEvidence

EXAMPLES = """
[bold]Examples[/bold]

phloem evidence dna.fasta two-trees.nwk

phloem evidence dna.fasta candidates.nex --model HKY --kappa 2 --error 0.005 --json

phloem evidence run

phloem evidence run candidates.nex --error 0.005
"""


@with_target
def evidence(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(metavar="ALIGNMENT|DIR", help=f"{ALIGNMENT_HELP} Or the directory of a finished run."),
    ],
    target: InferConfig,
    trees: Annotated[
        list[str] | None,
        typer.Argument(metavar="TREES", help=f"{TREES_HELP} A run has trees of its own.", show_default=False),
    ] = None,
    long_names: LongNames = False,
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

    Of an alignment and trees: nothing is trained. Branch lengths of the trees do not matter, and equal topologies count
    once. Differences are log Bayes factors; probabilities are those of the given topologies among themselves.

    Of a run: log p(Y, τ) of the topologies in its 95 % credible set, the 100 most probable at most, or of those that
    are given, with its model and prior. Draws start from its own branch lengths. Posterior probabilities stand beside
    those by the run's draws, which all other topologies keep.
    """
    trees_to_drop = parse_burnin(burnin)
    is_run = Path(source).is_dir()
    if is_run:
        _refuse_options_of_alignments(context, source)
    elif not trees:
        raise BadArgument(f"{source}: no trees are named. Name tree files too, or give the directory of a run alone.")

    from phloem.display.bar import progress_bar
    from phloem.tasks.evidence import measure_evidence
    from phloem.tasks.run_evidence import RunEvidence, measure_run_evidence

    how: dict[str, Any] = {
        "error": error,
        "most_draws": most_draws,
        "seed": seed,
        "burnin": trees_to_drop,
        "threads": threads,
    }
    found: EvidenceTable | RunEvidence
    with progress_bar("integrating", quiet=quiet) as show:
        if is_run:
            found = measure_run_evidence(source, trees or (), **how, progress=show)
        else:
            found = measure_evidence(source, trees or (), target, long_names=long_names, **how, progress=show)
    if as_json:
        print(json.dumps(found.as_json()))
    elif isinstance(found, RunEvidence):
        _print_run(found, error)
    else:
        _print_table(found, error)


def _refuse_options_of_alignments(context: typer.Context, directory: str) -> None:
    """Raise if an option says what a run has settled."""
    for name in ("long_names", *(flag.parameter for flag in EVIDENCE_FLAGS.flags)):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise BadArgument(
                f"{option}: {directory} is a run, which has its own data, model and prior. Leave it out, or name an "
                "alignment."
            )


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
    if missed := _missed(table, wanted):
        console.print(f"\n{missed}")


def _print_run(table: "RunEvidence", wanted: float) -> None:
    console = plain_console()
    posterior, found, shares = table.posterior, table.evidence, table.shares
    console.print(f"model {posterior.summary.model}\n")
    rows = plain_table("tree", "log p(Y, τ)", "±", "probability", "±", "by draws", "±")
    drawn = (table.trees.weights, table.drawn_error)
    columns = (found.log_evidence, found.error, shares.probability, shares.error, *drawn)
    for number, (value, error, share, its_error, by_draws, their_error) in enumerate(zip(*columns, strict=True), 1):
        rows.add_row(
            str(number),
            f"{value:.3f}",
            f"{error:.3f}",
            f"{share:.4f}",
            f"{its_error:.4f}",
            f"{by_draws:.4f}",
            f"{their_error:.4f}",
        )
    rows.add_row("others", "", "", f"{shares.others:.4f}", f"{shares.others_error:.4f}")
    console.print(rows)
    notes = [_missed(table, wanted)]
    if table.left_out:
        left_out = counted(table.left_out, "topology", "topologies")
        notes.append(f"{left_out} of the credible set, less probable, are left out: they are among the others.")
    if fits := int((~table.is_trained).sum()):
        which = counted(fits, "topology", "topologies")
        notes.append(f"{which} began with fitted branch lengths, as the run's own do not serve.")
    if posterior.trust.level != "good":
        trust = f"can the run be trusted? {posterior.trust.level.upper()}. {posterior.trust.advice}"
        notes.append(f"{trust} What it never drew is not here.")
    if any(notes):
        console.print("\n" + "\n".join(filter(None, notes)))


def _missed(table: "EvidenceTable | RunEvidence", wanted: float) -> str:
    missed = int((table.evidence.error > wanted).sum())
    which = counted(missed, "topology", "topologies")
    return f"{which} did not reach a standard error of {wanted:g}: allow more --draws." if missed else ""
