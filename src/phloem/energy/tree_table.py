"""Topologies with their raw features, which are computed once."""

import numpy as np
import torch

from phloem.features.graph import TreeGraph
from phloem.features.states import FEWEST_TAXA_TO_PROJECT, DenseStates, NodeStates, RawStates
from phloem.kernels.arrays import LongArray, RealArray
from phloem.kernels.dirichlet import project_tips
from phloem.trees.topology import TopologyBatch

MOST_BYTES = 1 << 30  # of features; those of more trees are computed when they are needed


class TreeTable:
    """Some topologies; any of them can be had as what a network begins with."""

    def __init__(self, topologies: TopologyBatch, dtype: torch.dtype = torch.float32) -> None:
        self.topologies = topologies
        self._dtype = dtype
        self._features: RealArray | None = None
        taxa = topologies.taxon_count
        kind = np.float32 if dtype == torch.float32 else np.float64
        size = topologies.parent.size * taxa * np.dtype(kind).itemsize
        if taxa < FEWEST_TAXA_TO_PROJECT and size <= MOST_BYTES:
            self._features = project_tips(topologies.neighbors, np.eye(taxa, dtype=kind))  # (trees, nodes, taxa)

    def __len__(self) -> int:
        return len(self.topologies)

    def states(
        self, places: LongArray, others: TopologyBatch | None = None
    ) -> tuple[TopologyBatch, NodeStates, TreeGraph]:
        """The trees at some places, and others after them, with their raw features and the graph that they are on."""
        topologies = self.topologies.take(places)
        if others is not None and len(others):
            topologies = TopologyBatch.concatenate([topologies, others])
        graph = TreeGraph.of_topologies(topologies)
        if self._features is None:
            return topologies, RawStates(topologies, self._dtype), graph
        features = torch.from_numpy(self._features[places].reshape(-1, topologies.taxon_count))
        if others is not None and len(others):
            features = torch.cat([features, RawStates(others, self._dtype).dense()])
        return topologies, DenseStates(features), graph
