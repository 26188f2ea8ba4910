"""`phloem info`: what phloem runs on."""

import json
from typing import Annotated, Any

import typer

from phloem.errors import counted

EXAMPLES = """
[bold]Examples[/bold]

phloem info

phloem info --json
"""


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show versions, threads, the cache of compiled kernels, and external programs found."""
    # Imported here so that `phloem --help` need not wait for numba.
    from phloem.tasks.info import describe

    facts = describe()
    if as_json:
        print(json.dumps(facts, indent=2))
    else:
        _print_table(facts)


def _print_table(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, number in facts["versions"].items():
        table.add_row(name, number)
    table.add_row("system", facts["system"])
    threads = facts["threads"]
    table.add_row("threads", f"{counted(threads['available'], 'core')} available, torch uses up to {threads['torch']}")
    kernels = facts["kernels"]
    place = kernels["cache"] or "no writable directory: set NUMBA_CACHE_DIR"
    table.add_row("kernel cache", f"{kernels['compiled']} compiled, in {place}")
    for program in facts["programs"]:
        found = f"{program['version'] or 'version unknown'}, {program['path']}" if program["path"] else "not found"
        table.add_row(program["name"], f"{found} ({program['purpose']})")
    Console(soft_wrap=True, highlight=False).print(table)
