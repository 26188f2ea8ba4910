"""Can the numbers be trusted? Verdicts in plain words."""

from typing import Literal, NamedTuple

Level = Literal["good", "usable", "do not trust"]
LEVELS: tuple[Level, ...] = ("good", "usable", "do not trust")


class Finding(NamedTuple):
    """One diagnostic: what was looked at, its value for people, how good that is, and what it means."""

    name: str  # "Pareto k̂"
    value: str  # "0.43"
    level: Level
    meaning: str  # a sentence or two


class Trust(NamedTuple):
    """The verdict on a posterior: as good as its worst finding."""

    level: Level
    findings: tuple[Finding, ...]
    advice: str  # what to do about it; a sentence
