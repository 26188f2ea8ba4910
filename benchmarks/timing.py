"""What the benchmark scripts share: turns on one clock, and a table with goals."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


def best_times(tasks: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of each task, the best of `rounds` in which the tasks take turns.

    At its turn a task runs twice and the second time counts: caches are warm, as in the loops that these things run in.
    """
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            task()
            start = time.perf_counter()
            task()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


@dataclass(frozen=True)
class Row:
    """One line of a benchmark's table."""

    what: str
    seconds: float
    goal_seconds: float | None = None
    note: str = ""


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.3f}" if seconds < 1 else f"{1000 * seconds:,.0f}"


def show(title: str, rows: list[Row]) -> None:
    """Print the table; a goal that is missed is marked."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("what", "ms", "goal", "", "note"):
        table.add_column(heading, justify="right" if heading in ("ms", "goal") else "left")
    for row in rows:
        goal, verdict = "", ""
        if row.goal_seconds is not None:
            goal = milliseconds(row.goal_seconds)
            verdict = "met" if row.seconds <= row.goal_seconds else "MISSED"
        table.add_row(row.what, milliseconds(row.seconds), goal, verdict, row.note)
    Console(width=130, highlight=False).print(table, "")
