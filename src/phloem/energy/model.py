"""The energy of a topology: one number from the features of its nodes."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from phloem.arrays import FloatArray, LongArray, RealArray
from phloem.energy.noise import Noise
from phloem.features.graph import FEWEST_TAXA_TO_PROJECT, DenseStates, NodeStates, RawStates, TreeGraph
from phloem.features.layers import run
from phloem.features.learnable import ConvolutionChoice, NodeFeatures, TreeReadout
from phloem.kernels.features.dirichlet import project_tips
from phloem.trees.topology import TopologyBatch

MOST_BYTES = 1 << 30  # of features; those of more trees are computed when they are needed
CHUNK_NODES = 4_096  # nodes that are scored at a time: few enough for their states to stay in the cache


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


class EnergyModel(nn.Module):
    """F(τ) = MLP(Σ_v h_v): the lower, the more probable a topology (Zhang 2023).

    The last bias takes the place of log Z and is learned with the rest, so that a trained model nearly sums to one.
    """

    def __init__(
        self, taxon_count: int, convolution: ConvolutionChoice = "ggnn", *, depth: int = 2, width: int = 100
    ) -> None:
        super().__init__()
        self.features = NodeFeatures(taxon_count, convolution, depth=depth, width=width)
        self.readout = TreeReadout(width)

    @property
    def dtype(self) -> torch.dtype:
        return self.features.first.weight.dtype

    def energy(self, states: NodeStates, graph: TreeGraph) -> Tensor:
        """F(τ), (trees,), from raw features."""
        steps, states = self.features.pending(states, graph)
        return run(steps + self.readout.steps(), states, graph)[:, 0]

    def energies(self, topologies: TopologyBatch) -> FloatArray:
        """F(τ), (batch,); nothing is kept for gradients."""
        values = np.empty(len(topologies))
        step = max(1, CHUNK_NODES // topologies.node_count)
        with torch.no_grad():
            for start in range(0, len(topologies), step):
                chunk = topologies[start : start + step]
                values[start : start + step] = self.energy(*self.features.raw_states(chunk)).numpy()
        return values


@dataclass(frozen=True, slots=True, eq=False)
class Unnormalized:
    """log q(τ) = log base(τ) - F(τ), up to a constant: the network says by how much q differs from its base."""

    model: EnergyModel
    base: Noise

    def log_density(self, topologies: TopologyBatch) -> FloatArray:
        """log q(τ), not normalised, (batch,); -inf for what the base never gives."""
        return self.base.log_prob(topologies) - self.model.energies(topologies)
