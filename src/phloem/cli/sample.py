"""`phloem sample`: posterior trees with branch lengths."""

from pathlib import Path
from typing import Annotated

import typer

from phloem.cli.options import RUN_HELP
from phloem.errors import BadArgument

EXAMPLES = """
[bold]Examples[/bold]

phloem sample primates-run --out trees.nex

phloem sample run --count 5000 --out trees.nwk --log trees.log

phloem sample run --weighted --count 10000 --out weighted.nex --lengths lengths.csv

phloem sample run --chains 400 --out chains.nex --log chains.log
"""


def sample(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help=RUN_HELP)],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Tree file: NEXUS if .nex, .nexus, .t or .trees, else Newick."
        ),
    ],
    count: Annotated[
        int | None, typer.Option(min=1, help="Number of trees.", show_default="1000, or all draws if fewer")
    ] = None,
    weighted: Annotated[
        bool,
        typer.Option("--weighted", help="Write each draw once, with its weight (NEXUS only), instead of resampling."),
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A trace for Tracer: likelihood, prior, tree length, ….", show_default="none"
        ),
    ] = None,
    lengths: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Branch lengths as CSV: over all trees, and for each topology in the 95 % credible set.",
            show_default="none",
        ),
    ] = None,
    chains: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Write the trees of N Markov chains from the draws, which may leave the run's support.",
            show_default="none",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="Length of every chain; its first quarter is left out.", show_default="200"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same trees.")] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Cores to use for chains.", show_default="all physical cores")
    ] = None,
) -> None:
    """Write posterior trees with branch lengths, from the draws of a run.

    There is no burn-in and nothing to thin. Trees are drawn again by their importance weights, so some may repeat: the
    command and the files say how many, and how many independent trees they are worth.

    With --chains they are those of Markov chains that start from the draws: a round goes once around the tree, changing
    lengths and neighbours, and moves two subtrees anywhere. The command says how far the chains agree, and what part of
    the posterior the run could not see.

    For an unfinished run, they come from its last checkpoint.
    """
    for option, value in (("--rounds", rounds), ("--threads", threads)):
        if chains is None and value is not None:
            raise BadArgument(f"{option}: is that of chains, and there are none. Give --chains too, or leave it out.")
    if chains is not None and weighted:
        raise BadArgument("--chains and --weighted: trees of chains have equal weights. Give one of them.")
    # Imported here so that `phloem --help` need not wait for torch.
    from phloem.display.bar import progress_bar
    from phloem.tasks.chains import write_chains
    from phloem.tasks.exports import SampleFiles, write_sample

    files = SampleFiles(out, log, lengths)
    if chains is None:
        with progress_bar("drawing") as show:
            done = write_sample(directory, files, count=count, weighted=weighted, seed=seed, progress=show)
    else:
        with progress_bar("chains") as show:
            done = write_chains(
                directory,
                files,
                chains=chains,
                rounds=rounds,
                count=count,
                seed=seed,
                threads=threads,
                progress=show,
            )
    print("\n".join(done))
