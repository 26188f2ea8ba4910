"""`phloem simulate`: trees, models and alignments whose truth is known."""

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phloem.cli.flags import INFER_FLAGS, MODEL_FLAGS, PRIOR_FLAGS, Flag, Flags, with_config
from phloem.cli.options import parse_numbers
from phloem.config import InferConfig
from phloem.config.infer import INFER, USUAL_MODEL
from phloem.config.model import INFERRED
from phloem.errors import counted

if TYPE_CHECKING:
    from phloem.tasks.simulate import DataFiles

DRAWN = "drawn from its prior"
EXAMPLES = """
[bold]Examples[/bold]

phloem simulate --out data/jc --taxa 20 --sites 500 --model JC --seed 7

phloem simulate --out hky --topology yule --height 0.3 --model HKY+I+G4 --kappa 4 --alpha 0.5 --gaps 0.1

phloem simulate --out genes --partition 600,300,900 --model GTR+G4 --link rates,frequencies --missing-genes 0.2

phloem simulate --out sim --tree true.tre --sites 2000 --replicates 100 --format nexus
"""


def _flags() -> list[Flag]:
    """Those of `phloem infer` that say what data are from: what it infers is drawn here."""
    of_infer = {flag.name: flag for flag in INFER_FLAGS.flags}
    partition = replace(
        of_infer["--partition"],
        help="Parts with models of their own: their lengths, a file of RAxML or IQ-TREE or NEXUS sets, or `by-codon`.",
        metavar="LENGTHS|FILE|by-codon",
    )
    models = Flag("--part-models", "partition.models", "Models of the parts.", "the file's, or --model", "MODELS")
    link = replace(of_infer["--link"], help=of_infer["--link"].help.replace("Inferred parameters", "Parameters"))
    rates = replace(
        of_infer["--part-rates"], help="How fast parts evolve: `inferred`, which is drawn here, or `equal`."
    )
    return [
        replace(of_infer["--seed"], help="The same seed gives the same data."),
        *PRIOR_FLAGS,
        *(_of_model(flag) for flag in MODEL_FLAGS.flags),
        *(partition, models, link, rates),
    ]


def _of_model(flag: Flag) -> Flag:
    if flag.name == "--model":
        return replace(flag, default=str(USUAL_MODEL))
    if flag.name == "--frequencies":
        return replace(flag, help="Of A,C,G,T.", default=DRAWN)
    drawn = flag.default is not None and flag.default.startswith(INFERRED)
    return replace(flag, default=flag.default.replace(INFERRED, DRAWN)) if flag.default and drawn else flag


FLAGS = Flags(INFER, _flags())


@with_config(FLAGS)
def simulate(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="NAME", help="Beginning of the files' names, such as data/sim."),
    ],
    config: InferConfig,
    taxa: Annotated[
        int | None, typer.Option(metavar="COUNT", help="Taxa: t1, t2, …", show_default="20, or those of --tree")
    ] = None,
    sites: Annotated[
        int | None, typer.Option(metavar="COUNT", help="Sites.", show_default="1000, or those of the parts")
    ] = None,
    topology: Annotated[
        str, typer.Option(metavar="NAME", help="How trees are drawn: uniform over unrooted ones, or yule.")
    ] = "uniform",
    height: Annotated[
        float | None,
        typer.Option(
            metavar="LENGTH",
            help="Yule trees with a clock: the distance from the root to all taxa.",
            show_default="lengths from the prior",
        ),
    ] = None,
    tree: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Newick or NEXUS: one tree, or one for each replicate.", show_default="drawn trees"
        ),
    ] = None,
    multipliers: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS", help="Rates of the parts, up to a factor.", show_default="as --part-rates says"
        ),
    ] = None,
    missing_genes: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the taxa that lack a part wholly, for each part.")
    ] = 0.0,
    gaps: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the sites in gaps, sequence by sequence.")
    ] = 0.0,
    gap_length: Annotated[float, typer.Option(metavar="SITES", help="Mean length of gaps.")] = 10.0,
    missing: Annotated[float, typer.Option(metavar="SHARE", help="Share of single sites that are not known.")] = 0.0,
    replicates: Annotated[
        int, typer.Option(metavar="COUNT", help="Data sets, each with a tree and parameters of its own.")
    ] = 1,
    form: Annotated[
        str, typer.Option("--format", metavar="NAME", help="Of the alignment: fasta, nexus, phylip.")
    ] = "fasta",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the files' names as JSON.")] = False,
) -> None:
    """Simulate alignments: a tree, a substitution model with its parameters, and sequences, with the truth beside them.

    What is not given is drawn from the priors of `phloem infer`. The truth is in NAME.true.tre and NAME.true.json.
    """
    from phloem.display.bar import progress_bar
    from phloem.tasks.simulate import Hidden, SimulateRequest, run_simulation

    request = SimulateRequest(
        config,
        taxa=taxa,
        sites=sites,
        topology=topology,
        height=height,
        tree=tree,
        multipliers=None if multipliers is None else parse_numbers("--multipliers", multipliers),
        hidden=Hidden(genes=missing_genes, gaps=gaps, gap_length=gap_length, missing=missing),
        replicates=replicates,
    )
    with progress_bar("simulate", quiet=quiet) as show:
        written = run_simulation(request, out, form=form, command=shlex.join(sys.argv), progress=show)
    if as_json:
        files = [{kind: str(path) for kind, path in one._asdict().items() if path is not None} for one in written]
        print(json.dumps(files))
    elif not quiet:
        print("\n".join(in_words(written)))


def in_words(written: "list[DataFiles]") -> list[str]:
    """Where the files are."""
    first = written[0]
    lines = [
        f"{first.alignment}  the alignment",
        f"{first.tree}  the true tree",
        f"{first.truth}  the true parameters, the seed and the command",
    ]
    if first.parts is not None:
        lines.append(f"{first.parts}  its parts, for --partition")
    if len(written) > 1:
        lines.append(f"and so on: {counted(len(written), 'data set')}")
    return lines
