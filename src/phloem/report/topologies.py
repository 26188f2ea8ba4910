"""Unrooted trees rooted alike for drawing: the topology browser, and the cloud of many trees."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from phloem.arrays import BoolArray, FloatArray, IntArray
from phloem.report.clades import consensus_keys, members_below, smaller_side, split_keys, without_first
from phloem.report.consensus import TreeLayout, row_height_of
from phloem.report.contents import ReportContents
from phloem.report.pages import packed
from phloem.trees.consensus import SummaryTree
from phloem.trees.splits import split_bits, unpack_bits
from phloem.trees.topology import TopologyBatch

MOST_TREES = 200
MOST_LINES = 60_000  # of all trees: more take long to draw
APART = 32_768  # added to the parent of a branch that the consensus lacks
LARGEST = 65_535
SHOWN = 100
LISTED = 20  # clades of a topology that the consensus lacks
NAMED = 6  # taxa of each
NONE = 65_535  # no split: the root's place in packed numbers


class Hung(NamedTuple):
    """A topology with a root: its nodes keep their numbers, and a new root, if there is one, has the highest."""

    parent: IntArray  # (nodes,)  -1 at the root, which is the last node
    branch: IntArray  # (nodes,)  which branch of the topology is above each node; -1 at the root
    share: FloatArray  # (nodes,)  of the branch's length


@dataclass(frozen=True, slots=True, eq=False)
class Hanger:
    """Where trees are held: at the neighbour of taxon 0, or in the middle of the branch that is nearest to a split."""

    root_side: BoolArray | None  # (n,)  the side without taxon 0

    @classmethod
    def like(cls, consensus: SummaryTree) -> "Hanger":
        """As the consensus is drawn."""
        if not consensus.is_rooted:
            return cls(None)
        below_root = np.flatnonzero(consensus.tree.parent == len(consensus.tree.parent) - 1)
        return cls(without_first(members_below(consensus.tree)[below_root[-1:]])[0])

    def hang(self, topology: TopologyBatch) -> Hung:
        """One tree. The branch that divides the taxa most nearly as the split does is cut if none does so exactly."""
        parent = topology.parent[0]
        if self.root_side is None:
            branch = np.arange(len(parent), dtype=np.int32)
            branch[-1] = -1
            return Hung(parent, branch, np.ones(len(parent)))
        sides = without_first(unpack_bits(split_bits(topology)[0], topology.taxon_count))
        return cut_branch(parent, int((sides ^ self.root_side).sum(axis=1).argmin()))


def cut_branch(parent: IntArray, cut: int) -> Hung:
    """The tree with a new root in the middle of a branch: all branches between it and the old root turn over."""
    root = len(parent)
    turned = np.append(parent, np.int32(-1))
    branch = np.append(np.arange(root, dtype=np.int32), np.int32(-1))
    share = np.ones(root + 1)
    lower, node, above = root, int(parent[cut]), cut
    turned[cut] = root
    while node >= 0:
        upper = int(parent[node])
        turned[node], branch[node] = lower, above
        lower, node, above = node, upper, node
    share[[cut, int(parent[cut])]] = 0.5
    return Hung(turned, branch, share)


def cloud_data(contents: ReportContents, layout: TreeLayout) -> dict[str, Any] | None:
    """Distinct topologies once, and for every tree its topology and its lengths; None if there are no lengths to draw.

    Lengths are whole numbers: `unit` is what 1 stands for.
    """
    cloud = contents.cloud[: _trees_shown(contents)]
    if not len(cloud) or cloud.branch_lengths is None:
        return None
    lengths = np.where(np.isfinite(cloud.branch_lengths), cloud.branch_lengths, 0.0)
    unit = float(lengths.max()) / LARGEST
    if not unit > 0:
        return None
    hanger, in_consensus = Hanger.like(contents.consensus), consensus_keys(contents.consensus)
    distinct, group = cloud.topologies.distinct()
    hung = [hanger.hang(topology) for topology in distinct]
    topologies = []
    for topology, drawn in zip(distinct, hung, strict=True):
        members = unpack_bits(split_bits(topology)[0], topology.taxon_count)
        is_apart = np.array([key not in in_consensus for key in split_keys(members)] + [False])
        parents = np.where(drawn.parent < 0, APART - 1, drawn.parent) + APART * is_apart[drawn.branch]
        topologies.append(packed(parents))
    trees = []
    for row, number in zip(lengths, group, strict=True):
        drawn = hung[number]
        trees.append([number, packed(np.rint(np.append(row, 0.0)[drawn.branch] * drawn.share / unit))])
    return {
        "order": list(layout.leaves),
        "rowHeight": row_height_of(len(contents.consensus.taxa)),
        "unit": unit,
        "topologies": topologies,
        "trees": trees,
    }


def _trees_shown(contents: ReportContents) -> int:
    nodes = contents.cloud.topologies.node_count
    return min(len(contents.cloud), MOST_TREES, max(10, MOST_LINES // nodes))


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
