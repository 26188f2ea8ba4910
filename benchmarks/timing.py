"""What the benchmark scripts share: turns on one clock, and tables with goals."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

Task = Callable[[], object]
Turn = Callable[[], float]  # does something and says how many seconds it took


def warm(task: Task, clock: Callable[[], float] = time.perf_counter) -> Turn:
    """A turn at which the task runs twice and the second time counts: caches are warm, as in the loops it runs in."""

    def turn() -> float:
        task()
        start = clock()
        task()
        return clock() - start

    return turn


def best_times(tasks: Mapping[str, Task], rounds: int) -> dict[str, float]:
    """Seconds of each task, the best of `rounds` in which the tasks take warm turns."""
    return best_turns({name: warm(task) for name, task in tasks.items()}, rounds)


def best_turns(turns: Mapping[str, Turn], rounds: int, seconds: float = float("inf")) -> dict[str, float]:
    """The least seconds of each turn, in `rounds` of one after the other.

    seconds: what a turn may spend in all; one that is slow sits out rounds, evenly, so that it still alternates
    with the others.
    """
    best, spent = dict.fromkeys(turns, float("inf")), dict.fromkeys(turns, 0.0)
    for number in range(rounds):
        for name, turn in turns.items():
            if spent[name] <= seconds * number / rounds:
                start = time.perf_counter()
                best[name] = min(best[name], turn())
                spent[name] += time.perf_counter() - start
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


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def show(title: str, rows: list[Row]) -> None:
    """Print the table; a goal that is missed is marked."""
    lines = []
    for row in rows:
        goal, said = "", ""
        if row.goal_seconds is not None:
            goal, said = milliseconds(row.goal_seconds), verdict(row.seconds <= row.goal_seconds)
        lines.append((row.what, milliseconds(row.seconds), goal, said, row.note))
    show_table(title, {"what": "left", "ms": "right", "goal": "right", "": "left", "note": "left"}, lines)


def show_table(title: str, columns: Mapping[str, str], lines: Iterable[tuple[str, ...]]) -> None:
    """Print lines of text under headings, each with its side."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading, side in columns.items():
        table.add_column(heading, justify="right" if side == "right" else "left")
    for line in lines:
        table.add_row(*line)
    Console(width=130, highlight=False).print(title, table, "", sep="\n")
