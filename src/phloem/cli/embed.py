"""`phloem embed`: topologies → node features."""

from pathlib import Path
from typing import Annotated

import typer

from phloem.cli.options import BURNIN_HELP, parse_burnin
from phloem.errors import counted

EXAMPLES = """
[bold]Examples[/bold]

phloem embed primates --out primates.npz

phloem embed run1.t run2.t --burnin 0.25 --distinct --out features.npz

phloem embed mammals.nwk --dimension 64 --seed 1 --out mammals.npz
"""


def embed(
    trees: Annotated[
        list[str],
        typer.Argument(metavar="TREES", help="Newick or NEXUS files, plain or .gz, or a bundled example: primates."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .npz file to write.")],
    burnin: Annotated[str, typer.Option(help=BURNIN_HELP)] = "0",
    distinct: Annotated[
        bool, typer.Option("--distinct", help="Merge equal topologies and add up their weights.")
    ] = False,
    keep_root: Annotated[
        bool, typer.Option("--keep-root", help="Keep each tree's root as a node, even if it has only two branches.")
    ] = False,
    dimension: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Use random tip features of this dimension, for big trees.",
            show_default="one-hot tip features",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for random tip features.")] = 0,
) -> None:
    """Write the raw node features of trees to a file: every interior node is the mean of its neighbours.

    The file contains the arrays `taxa` (n), `weights` (B), `parent` (B, 2n-2) and `features` (B, 2n-2, n).
    Rooted trees are unrooted. If any tree has a polytomy, each tree gets its own arrays `parent_0`, `features_0`, …
    """
    # Imported here so that `phloem --help` need not wait for numba.
    from phloem.tasks.embed import embed as run

    done = run(
        trees,
        out,
        burnin=parse_burnin(burnin),
        distinct=distinct,
        keep_root=keep_root,
        dimension=dimension,
        seed=seed,
    )
    count = counted(done.trees, "binary tree" if done.binary else "tree")
    degrees = "" if done.binary else " of any degrees"
    print(f"{count}{degrees} on {done.taxa:,} taxa, {counted(done.channels, 'channel')} per node: {out}")
