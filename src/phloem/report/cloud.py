"""Many trees for one picture: what the page lays over each other on a canvas."""

from typing import Any

import numpy as np

from phloem.report.contents import ReportContents
from phloem.report.embedded import packed
from phloem.report.hanging import Hanger
from phloem.report.named_splits import consensus_keys, split_keys
from phloem.report.tree_layout import TreeLayout
from phloem.report.tree_svg import row_height_of
from phloem.trees.splits import split_bits, unpack_bits

MOST_TREES = 200
MOST_LINES = 60_000  # of all trees: more take long to draw
APART = 32_768  # added to the parent of a branch that the consensus lacks
LARGEST = 65_535


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
