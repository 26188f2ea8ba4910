"""The clades of the posterior, and the branches of the consensus, as rows of tables."""

import math
from typing import NamedTuple

import numpy as np

from phloem.arrays import BoolArray, IntArray
from phloem.report.charts import Tick, ticks
from phloem.report.contents import ReportContents
from phloem.report.wording import brief, error_bar, interval, length, percent
from phloem.trees.consensus import SummaryTree
from phloem.trees.splits import without_first
from phloem.trees.tree import members_below

LEAST_PROBABILITY = 0.01  # of a clade in the table
MOST_CLADES = 500
MOST_NAMES = 60  # of a clade
MOST_BRANCHES = 200


class Clade(NamedTuple):
    """A row of the clade table: sort keys, and the text beside them."""

    probability: float
    probability_text: str
    error_text: str  # standard, of the probability
    size: int
    first_names: str
    names: str  # all of them up to a limit; empty if `first_names` has them all
    mean: float
    mean_text: str
    interval_width: float
    interval_text: str
    is_in_consensus: bool


class CladeTable(NamedTuple):
    """The most probable clades, and how many are left out."""

    rows: list[Clade]
    left_out: int


class BranchRow(NamedTuple):
    """A branch of the consensus; numbers are in percent of the axis."""

    label: str
    is_tip: bool
    support: str
    mean: str
    lower: str
    width: str
    mean_text: str
    interval_text: str


class BranchTable(NamedTuple):
    """Branches, the longest first, with their axis."""

    rows: list[BranchRow]
    ticks: list[Tick]
    left_out: int


def clade_table(contents: ReportContents) -> CladeTable:
    """The nontrivial splits, most probable first."""
    splits, taxa = contents.splits, contents.splits.taxa
    in_consensus = consensus_keys(contents.consensus)
    probable = [number for number in range(len(taxa), len(splits.mean)) if splits.frequency[number] > 0]
    shown = [number for number in probable if splits.frequency[number] >= LEAST_PROBABILITY][:MOST_CLADES]
    rows = []
    for number, key in zip(shown, split_keys(splits.members[shown]), strict=True):
        side = smaller_side(splits.members[number])
        low, high = float(splits.lower[number]), float(splits.upper[number])
        rows.append(
            Clade(
                probability=float(splits.frequency[number]),
                probability_text=percent(float(splits.frequency[number])),
                error_text=error_bar(float(splits.error[number])),
                size=len(side),
                first_names=brief([taxa[taxon] for taxon in side]),
                names=_all_names(taxa, side),
                mean=_finite(float(splits.mean[number])),
                mean_text=length(float(splits.mean[number])),
                interval_width=_finite(high - low),
                interval_text=interval(low, high),
                is_in_consensus=key in in_consensus,
            )
        )
    return CladeTable(rows, len(probable) - len(shown))


def branch_table(contents: ReportContents) -> BranchTable:
    """The branches of the consensus whose length is known, the longest first."""
    consensus, taxa = contents.consensus, contents.consensus.taxa
    root = len(consensus.tree.parent) - 1
    known = [node for node in range(root) if math.isfinite(consensus.length[node])]
    order = sorted(known, key=lambda node: (-consensus.length[node], node))
    shown = order[:MOST_BRANCHES]
    if not shown:
        return BranchTable([], [], 0)
    ends = [float(bound) for node in shown for bound in (consensus.length[node], consensus.upper[node])]
    high = max((end for end in ends if math.isfinite(end)), default=0.0) * 1.02 or 1.0
    members = members_below(consensus.tree)
    rows = []
    for node in shown:
        low, up, mean = (float(part[node]) for part in (consensus.lower, consensus.upper, consensus.length))
        if not (math.isfinite(low) and math.isfinite(up)):
            low = up = mean
        side = np.flatnonzero(members[node]) if consensus.is_rooted else smaller_side(members[node])
        is_tip = node < len(taxa)
        rows.append(
            BranchRow(
                label=brief([taxa[taxon] for taxon in side], 2),
                is_tip=is_tip,
                support="" if is_tip else percent(float(consensus.support[node])),
                mean=f"{100 * mean / high:.2f}%",
                lower=f"{100 * low / high:.2f}%",
                width=f"{100 * (up - low) / high:.2f}%",
                mean_text=length(mean),
                interval_text=interval(low, up),
            )
        )
    return BranchTable(rows, ticks(0.0, high, 4), len(order) - len(shown))


def _all_names(taxa: tuple[str, ...], side: IntArray) -> str:
    if len(side) <= 3:
        return ""
    named = ", ".join(taxa[taxon] for taxon in side[:MOST_NAMES])
    return named if len(side) <= MOST_NAMES else f"{named} and {len(side) - MOST_NAMES:,} more"


def _finite(value: float) -> float:
    """A sort key that puts unknown values first."""
    return value if math.isfinite(value) else -1.0


def split_keys(members: BoolArray) -> list[bytes]:
    """Keys that are equal for equal splits, whichever of their sides is given."""
    return [row.tobytes() for row in np.packbits(without_first(members), axis=1)]


def consensus_keys(consensus: SummaryTree) -> set[bytes]:
    """The keys of a tree's splits."""
    return set(split_keys(members_below(consensus.tree)[:-1]))


def smaller_side(members: BoolArray) -> IntArray:
    """The taxa on a split's smaller side; of two equal sides the one without taxon 0."""
    taxa = len(members)
    inside = members if not members[0] else ~members
    if 2 * int(inside.sum()) > taxa:
        inside = ~inside
    return np.flatnonzero(inside).astype(np.int32)
