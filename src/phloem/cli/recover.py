"""`phloem recover`: node features → topologies."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
[bold]Examples[/bold]

phloem recover primates.npz

phloem recover primates.npz > primates.nwk
"""


def recover(
    file: Annotated[Path, typer.Argument(metavar="FILE.npz", help=".npz file with the arrays `taxa` and `features`.")],
) -> None:
    """Print the trees that node features belong to, one Newick tree per line.

    Only `taxa` and `features` are read. The rows of the tips come first, in the order of `taxa`; those of interior
    nodes can be in any order. Features that belong to no tree are rejected.
    """
    # Imported here so that `phloem --help` need not wait for numba.
    from phloem.tasks.embed import recover as run

    for line in run(file):
        print(line)
