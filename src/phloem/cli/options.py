"""What several commands share: help texts, parsers of options, and tables for the terminal."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from phloem.errors import BadArgument, ConfigError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

ALIGNMENT_HELP = "FASTA, PHYLIP, NEXUS, Stockholm or Clustal, plain or .gz, or an example: primates."
LongNames = Annotated[
    bool,
    typer.Option("--long-names", help="Take whole title lines of a FASTA file as names, not only their first words."),
]
TREES_HELP = "Newick or NEXUS files, plain or .gz, a directory of them, or a bundled example: primates."
SupportTrees = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TREES",
        help=f"{TREES_HELP} One file is one replicate; repeatable.",
        show_default="bootstrap trees; all trees for up to 6 taxa",
    ),
]
BURNIN_HELP = "Trees to drop from the start of each file: a count, or a fraction such as 0.25."
RUN_HELP = "The directory of a run of `phloem infer`."
CHECKPOINT_HELP = "Time or steps between checkpoints: 90s, 5m, 1000steps."
THREADS_HELP = "Cores to use."
CLOSURE_HELP = (
    "none: the support generates trees that recombine subsplits of the given ones; clades: all trees that consist of "
    "their clades."
)
CREDIBLE_HELP = "Keep each replicate's most frequent topologies up to this share; 1 keeps all."


def parse_burnin(text: str) -> int | float:
    """A count of trees, or a fraction."""
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise BadArgument(f"--burnin {text}: give a count of trees or a fraction from 0 up to 1.") from None


def parse_numbers(option: str, text: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(float(part) for part in text.replace(",", " ").split())
    except ValueError:
        raise ConfigError(f"{option} {text}: give numbers, separated by commas.") from None


def parse_counts(option: str, text: str) -> tuple[int, ...]:
    """Positive whole numbers separated by commas."""
    numbers = parse_numbers(option, text)
    if not all(1 <= number < 2**53 and number == int(number) for number in numbers):
        raise BadArgument(f"{option} {text}: give whole numbers, at least 1, separated by commas.")
    return tuple(map(int, numbers))


def plain_table(*headings: str, title: str | None = None, left: tuple[str, ...] = ()) -> "Table":
    """A table without rules: columns named in `left` are flush left, the others flush right."""
    from rich.table import Table  # imported here to keep `phloem --help` fast

    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right")
    return table


def plain_console() -> "Console":
    """A console that prints text as it is: no highlighting, no markup, no wrapping."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, markup=False)


def terminal_width() -> int:
    """Columns of the terminal, at least 40; 80 if the output is no terminal."""
    from rich.console import Console

    return max(40, Console().width) if sys.stdout.isatty() else 80
