"""Unrooted trees hung up for drawing, all in the same way, so that they can be compared by eye."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from phloem.kernels.arrays import BoolArray, FloatArray, IntArray
from phloem.report.named_splits import members_below, without_first
from phloem.trees.splits import split_bits, unpack_bits
from phloem.trees.summary_tree import SummaryTree
from phloem.trees.topology import TopologyBatch


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
