"""The energy of a topology, from the learnable features of its nodes; and densities up to a constant."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from phloem.arrays import FloatArray, LongArray, RealArray
from phloem.energy.noise import Noise
from phloem.features.convolutions import ConvolutionChoice, NodeFeatures, TreeReadout
from phloem.features.layers import DenseStates, NodeStates, RawStates, TreeGraph, run
from phloem.kernels.features.dirichlet import project_tips
from phloem.trees.topology import TopologyBatch

# From this size on two passes over a tree are cheaper than products with features that are already there.
FEWEST_TAXA_TO_PROJECT = 64
MOST_BYTES = 1 << 30  # of cached features; above this they are computed when needed
CHUNK_NODES = 4_096  # scored at a time: few enough for their states to stay in the processor's cache


class FeatureCache:
    """The raw features of a fixed list of topologies, held in memory if they are small enough."""

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
        """The trees at some places of the list, then others, with their raw features and the graph of their nodes."""
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

    The last bias plays the part of log Z and is learned with the rest, so a trained model nearly sums to one.
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
        layers, states = self.features.pending_layers(states, graph)
        return run(layers + self.readout.layers(), states, graph)[:, 0]

    def energies(self, topologies: TopologyBatch) -> FloatArray:
        """F(τ), (batch,), without gradients."""
        values = np.empty(len(topologies))
        chunk = max(1, CHUNK_NODES // topologies.node_count)
        with torch.no_grad():
            for start in range(0, len(topologies), chunk):
                states, graph = self.features.raw_states(topologies[start : start + chunk])
                values[start : start + chunk] = self.energy(states, graph).numpy()
        return values


@dataclass(frozen=True, slots=True, eq=False)
class Unnormalized:
    """log q(τ) = log base(τ) - F(τ), up to a constant: the network learns how q differs from its base."""

    model: EnergyModel
    base: Noise

    def log_density(self, topologies: TopologyBatch) -> FloatArray:
        """log q(τ), unnormalised, (batch,); -inf for topologies that the base never gives."""
        return self.base.log_prob(topologies) - self.model.energies(topologies)
