"""Events that a run sends while it is working."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from phloem.data.patterns import AlignmentSummary
    from phloem.runs.history import Report

Phase = Literal["bootstrap", "support", "training", "evaluation", "done"]


class Overview(NamedTuple):
    """What is about to be done; sent once, first."""

    source: str  # the alignment as the user named it
    alignment: "AlignmentSummary"
    model: str  # the substitution model in words
    branches: str  # the branch-length model
    steps: int  # of training, at most
    runs: int
    directory: Path


class News(NamedTuple):
    """Progress of a run; sent a few times a second."""

    run: int  # counted from 1
    phase: Phase
    share: float  # of the phase, from 0 to 1
    step: int = 0  # of training
    report: "Report | None" = None  # when there is a new one; a resumed run sends its last one again


class Notice(NamedTuple):
    """A line for the user; an urgent one is shown even in quiet mode."""

    text: str
    urgent: bool = True


Event = Overview | News | Notice
