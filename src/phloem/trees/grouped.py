"""Many weighted trees with branch lengths: each distinct topology is held once."""

from dataclasses import dataclass

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray, IntArray, read_only
from phloem.trees.sample import TreeSample, group_rows
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import check_weights


@dataclass(frozen=True, slots=True, eq=False)
class GroupedTrees:
    """Trees on the same taxa, each with lengths for all branches and a share of the whole weight, which is 1."""

    taxa: tuple[str, ...]
    topologies: TopologyBatch  # distinct ones
    group: IntArray  # (trees,)  which of the topologies each tree has
    weights: FloatArray  # (trees,)  sum to one
    branch_lengths: FloatArray  # (trees, 2n-3)

    def __post_init__(self) -> None:
        trees = len(self.group)
        check_weights(self.weights, trees)
        if len(self.taxa) != self.topologies.taxon_count:
            raise BadArgument(f"grouped trees: {len(self.taxa)} names for {self.topologies.taxon_count} taxa.")
        if self.branch_lengths.shape != (trees, self.topologies.branch_count):
            raise BadArgument(f"grouped trees: branch lengths of shape {self.branch_lengths.shape} do not fit.")
        if not self.weights.any():
            raise BadArgument("grouped trees: all weights are zero.")
        object.__setattr__(self, "weights", read_only(self.weights / self.weights.sum()))

    @classmethod
    def from_sample(cls, sample: TreeSample) -> "GroupedTrees":
        """The trees of a sample, which must have branch lengths."""
        if sample.branch_lengths is None or not np.isfinite(sample.branch_lengths).all():
            raise BadArgument("grouped trees: every branch of every tree needs a length.")
        first, group = group_rows(sample.topologies.parent)
        return cls(sample.taxa, sample.topologies[first], group.astype(np.int32), sample.weights, sample.branch_lengths)

    def __len__(self) -> int:
        return len(self.group)

    def select(self, trees: IntArray) -> TreeSample:
        """Some of the trees by number, some perhaps more than once, all with the same weight."""
        weights = np.full(len(trees), 1 / max(1, len(trees)))
        return TreeSample(self.taxa, self.topologies[self.group[trees]], weights, self.branch_lengths[trees])

    def topology_weights(self) -> FloatArray:
        """The share of each distinct topology, (topologies,)."""
        return np.asarray(np.bincount(self.group, self.weights, minlength=len(self.topologies)))

    def topology_sample(self) -> TreeSample:
        """The distinct topologies, most probable first, with their shares of the weight."""
        weights = self.topology_weights()
        order = np.argsort(-weights, kind="stable")
        return TreeSample(self.taxa, self.topologies[order], weights[order], None)
