"""How tables look on a terminal."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def plain_table(*headings: str, title: str | None = None, left: tuple[str, ...] = ()) -> "Table":
    """A table without lines: numbers to the right, the columns named in `left` to the left."""
    from rich.table import Table  # here so that `phloem --help` need not wait for it

    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right")
    return table


def plain_console() -> "Console":
    """Prints what it is given: no colours for numbers, no line broken."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, markup=False)


def terminal_width() -> int:
    """Columns of the terminal, at least 40; 80 where the output goes elsewhere."""
    from rich.console import Console

    return max(40, Console().width) if sys.stdout.isatty() else 80
