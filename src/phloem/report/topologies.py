"""Data for the topology browser and for the cloud of many trees, all rooted as the consensus is."""

import math
from typing import Any

import numpy as np

from phloem.report.clades import consensus_keys, smaller_side, split_keys
from phloem.report.consensus import row_height_of
from phloem.report.contents import ReportContents
from phloem.report.pages import packed
from phloem.trees.consensus import SummaryTree
from phloem.trees.layout import ladder_order
from phloem.trees.rooting import root_at_split, root_split
from phloem.trees.splits import split_bits, unpack_bits, without_first
from phloem.trees.tree import members_below

MOST_TOPOLOGIES = 100  # in the browser
MOST_LISTED = 20  # clades of a topology that the consensus lacks
MOST_NAMED = 6  # taxa of each
MOST_TREES = 200  # in the cloud
MOST_LINES = 60_000  # of all its trees together: more take long to draw
LARGEST = 65_535  # of packed numbers
NONE = LARGEST  # no parent, or no split
APART = 32_768  # added to the parent of a branch that the consensus lacks


def browser_data(contents: ReportContents) -> dict[str, Any]:
    """Topologies as parents and split numbers, and each split once.

    Splits 0 to n-1 are trivial. `apart` has the splits that the consensus lacks: the size of the smaller side and its
    first taxa, which are left out if a topology has too many such splits to list.
    """
    shown = contents.topologies[: topologies_shown(contents)]
    root, in_consensus = root_split(contents.consensus), consensus_keys(contents.consensus)
    known = dict(zip(split_keys(contents.splits.members), range(len(contents.splits.mean)), strict=True))
    numbers: dict[bytes, int] = {}
    support: list[float] = []
    lengths: list[float] = []
    apart: dict[str, list[int]] = {}  # JSON keys are text
    trees = []
    errors = contents.topology_errors[: len(shown)].tolist()
    for probability, error, topology in zip(shown.weights.tolist(), errors, shown.topologies, strict=True):
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
                    apart[str(len(numbers))] = [len(side), *side[: MOST_NAMED if listed < MOST_LISTED else 0].tolist()]
                    listed += 1
                numbers[key] = len(numbers)
            split_of[branch] = numbers[key]
        rooted = root_at_split(topology, root)
        has_new_root = int(len(rooted.parent) > topology.node_count)  # two halves of a branch meet there
        parents = np.where(rooted.parent < 0, NONE, rooted.parent)
        drawing = (packed(parents), packed(split_of[rooted.branch]), has_new_root)
        trees.append([_rounded(probability), *drawing, _rounded(error)])
    return {
        "taxa": list(contents.consensus.taxa),
        "order": _leaf_order(contents.consensus),
        "trees": trees,
        "support": support,
        "length": lengths,
        "apart": apart,
        "consensusClades": interior_count(contents.consensus),
    }


def topologies_shown(contents: ReportContents) -> int:
    """How many the browser has: few enough for all their splits to have packed numbers."""
    return min(MOST_TOPOLOGIES, len(contents.topologies), max(1, NONE // (2 * len(contents.consensus.taxa)) - 1))


def interior_count(consensus: SummaryTree) -> int:
    """The number of nontrivial splits; a root in the middle of a branch does not count it twice."""
    inside = without_first(members_below(consensus.tree)[:-1])
    size = inside.sum(axis=1)
    return len(set(split_keys(inside[(size > 1) & (size < len(consensus.taxa) - 1)])))


def cloud_data(contents: ReportContents) -> dict[str, Any] | None:
    """Each distinct topology once, and each tree's topology and lengths; None if there are no lengths to draw.

    Lengths are whole multiples of `unit`.
    """
    cloud = contents.cloud[: _trees_shown(contents)]
    if not len(cloud) or cloud.branch_lengths is None:
        return None
    lengths = np.where(np.isfinite(cloud.branch_lengths), cloud.branch_lengths, 0.0)
    unit = float(lengths.max()) / LARGEST
    if not unit > 0:
        return None
    split, in_consensus = root_split(contents.consensus), consensus_keys(contents.consensus)
    distinct, group = cloud.topologies.distinct()
    rooted = [root_at_split(topology, split) for topology in distinct]
    topologies = []
    for topology, drawn in zip(distinct, rooted, strict=True):
        members = unpack_bits(split_bits(topology)[0], topology.taxon_count)
        is_apart = np.array([key not in in_consensus for key in split_keys(members)] + [False])
        parents = np.where(drawn.parent < 0, APART - 1, drawn.parent) + APART * is_apart[drawn.branch]
        topologies.append(packed(parents))
    trees = []
    for row, number in zip(lengths, group, strict=True):
        drawn = rooted[number]
        trees.append([number, packed(np.rint(np.append(row, 0.0)[drawn.branch] * drawn.share / unit))])
    return {
        "order": _leaf_order(contents.consensus),
        "rowHeight": row_height_of(len(contents.consensus.taxa)),
        "unit": unit,
        "topologies": topologies,
        "trees": trees,
    }


def _trees_shown(contents: ReportContents) -> int:
    nodes = contents.cloud.topologies.node_count
    return min(len(contents.cloud), MOST_TREES, max(10, MOST_LINES // nodes))


def _leaf_order(consensus: SummaryTree) -> list[int]:
    """The consensus' leaves from top to bottom: all drawings share it."""
    order: list[int] = ladder_order(consensus.tree.parent, consensus.tree.leaf_count).tolist()
    return order


def _rounded(value: float) -> float:
    return float(f"{value:.4g}") if math.isfinite(value) else 0.0
