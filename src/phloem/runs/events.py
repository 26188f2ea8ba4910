"""What a run reports while it works: where it is, and lines for the user."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

Phase = Literal[
    "bootstrap",
    "exploring",
    "support",
    "training",
    "refitting",
    "evaluation",
    "annealing",
    "chains",
    "normalising",
    "done",
]


class News(NamedTuple):
    """Where a run is; sent a few times a second."""

    run: int  # counted from 1
    phase: Phase
    share: float  # of the phase, from 0 to 1
    step: int = 0  # of training
    report: Any = None  # a row of the history, when it is new; a resumed run sends its last one first


class Notice(NamedTuple):
    """A line for the user; an urgent one is shown even if all else is quiet."""

    text: str
    urgent: bool = True


Progress = Callable[[Any], None]  # takes News, Notices, and what else a task announces
