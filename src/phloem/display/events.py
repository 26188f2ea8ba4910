"""What a display shows of a run: what it is about to do, where it is, and lines for the user."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from phloem.runs.events import News as News
from phloem.runs.events import Notice as Notice
from phloem.runs.events import Phase as Phase

if TYPE_CHECKING:
    from phloem.data.patterns import AlignmentSummary


class Overview(NamedTuple):
    """What is about to be done; sent first, once."""

    source: str  # the alignment as the user named it
    alignment: "AlignmentSummary"
    model: str  # the substitution model in words
    priors: Mapping[str, str]  # by what they are about
    branches: str  # the branch-length model
    steps: int  # of training, at most
    runs: int
    directory: Path


Event = Overview | News | Notice
