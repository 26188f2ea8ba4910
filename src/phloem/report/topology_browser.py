"""The most probable topologies as data: the page draws one at a time."""

import math
from typing import Any

import numpy as np

from phloem.report.contents import ReportContents
from phloem.report.embedded import packed
from phloem.report.hanging import Hanger
from phloem.report.named_splits import consensus_keys, members_below, smaller_side, split_keys, without_first
from phloem.report.tree_layout import TreeLayout
from phloem.trees.splits import split_bits, unpack_bits
from phloem.trees.summary_tree import SummaryTree

SHOWN = 100
LISTED = 20  # clades of a topology that the consensus lacks
NAMED = 6  # taxa of each
NONE = 65_535  # no split: the root's place in packed numbers


def browser_data(contents: ReportContents, layout: TreeLayout) -> dict[str, Any]:
    """Topologies as parents and splits, and each split once.

    Splits 0 to n-1 are those of the tips. A split that the consensus lacks is in `apart` with the size of its smaller
    side and that side's first taxa, which are left out if a topology has too many of them to list.
    """
    shown = contents.topologies[: topologies_shown(contents)]
    hanger, in_consensus = Hanger.like(contents.consensus), consensus_keys(contents.consensus)
    known = dict(zip(split_keys(contents.splits.members), range(len(contents.splits.mean)), strict=True))
    numbers: dict[bytes, int] = {}
    support: list[float] = []
    lengths: list[float] = []
    apart: dict[str, list[int]] = {}  # JSON has no numbers as keys
    trees = []
    for probability, topology in zip(shown.weights.tolist(), shown.topologies, strict=True):
        members = unpack_bits(split_bits(topology)[0], topology.taxon_count)
        split_of = np.full(topology.branch_count + 1, NONE)
        listed = 0
        for branch, key in enumerate(split_keys(members)):
            if key not in numbers:
                row = known.get(key)
                support.append(0.0 if row is None else _rounded(float(contents.splits.frequency[row])))
                lengths.append(0.0 if row is None else _rounded(float(contents.splits.mean[row])))
                if key not in in_consensus:
                    side = smaller_side(members[branch])
                    apart[str(len(numbers))] = [len(side), *side[: NAMED if listed < LISTED else 0].tolist()]
                    listed += 1
                numbers[key] = len(numbers)
            split_of[branch] = numbers[key]
        hung = hanger.hang(topology)
        half = int(hung.parent[-1] == -1 and len(hung.parent) > topology.node_count)
        parents = np.where(hung.parent < 0, NONE, hung.parent)
        trees.append([_rounded(probability), packed(parents), packed(split_of[hung.branch]), half])
    return {
        "taxa": list(contents.consensus.taxa),
        "order": list(layout.leaves),
        "trees": trees,
        "support": support,
        "length": lengths,
        "apart": apart,
        "consensusClades": interior_count(contents.consensus),
    }


def topologies_shown(contents: ReportContents) -> int:
    """How many: fewer where all of them together might have more splits than there are numbers for."""
    return min(SHOWN, len(contents.topologies), max(1, NONE // (2 * len(contents.consensus.taxa)) - 1))


def interior_count(consensus: SummaryTree) -> int:
    """Of the branches with two or more taxa on either side; a root in the middle of one does not make it two."""
    inside = without_first(members_below(consensus.tree)[:-1])
    size = inside.sum(axis=1)
    return len(set(split_keys(inside[(size > 1) & (size < len(consensus.taxa) - 1)])))


def _rounded(value: float) -> float:
    return float(f"{value:.4g}") if math.isfinite(value) else 0.0
