"""The energy of a topology: one number from the features of its nodes."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from phloem.energy.noise import Noise
from phloem.features.fused import run
from phloem.features.graph import TreeGraph
from phloem.features.learnable import ConvolutionChoice, NodeFeatures, TreeReadout
from phloem.features.states import NodeStates
from phloem.kernels.arrays import FloatArray
from phloem.trees.topology import TopologyBatch

CHUNK_NODES = 4_096  # nodes that are scored at a time: few enough for their states to stay in the cache


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
