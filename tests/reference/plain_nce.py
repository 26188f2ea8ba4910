"""Noise contrastive estimation as its formula says: a loop over single trees, nothing merged, autograd.

Of the sources it uses the parameters alone; features come from a dense linear solve and loops over nodes.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from phloem.energy.model import EnergyModel
from phloem.trees.topology import TopologyBatch
from reference.laplacian import dense_features
from reference.node_loops import NAIVE


def energy(model: EnergyModel, topologies: TopologyBatch, tree: int) -> Tensor:
    """F(τ) of one tree, in double precision."""
    neighbors = [[int(other) for other in row if other >= 0] for row in topologies.neighbors[tree]]
    states = torch.from_numpy(dense_features(topologies.parent[tree], np.eye(topologies.taxon_count)))
    for convolution in model.features.convolutions:
        states = NAIVE[type(convolution)](convolution, states, neighbors)
    states = F.elu(model.features.second(F.elu(model.features.first(states))))
    return model.readout.second(F.elu(model.readout.first(states.sum(0))))[0]


def probability_of_data(log_model: Tensor, log_noise: float, ratio: float) -> Tensor:
    """That a tree is of the data, if there are `ratio` trees of the noise for each of the data: q / (q + ν·p_noise)."""
    return log_model.exp() / (log_model.exp() + ratio * math.exp(log_noise))


def loss(
    log_model: Sequence[Tensor],
    log_noise: Sequence[float],
    data: Sequence[float],
    noise: Sequence[float],
    ratio: float,
) -> Tensor:
    """-Σ data·log P(data) - ν·Σ noise·log P(noise), from a list of trees that may have one tree several times."""
    total = torch.zeros((), dtype=torch.float64)
    for log_q, log_p, of_data, of_noise in zip(log_model, log_noise, data, noise, strict=True):
        share = probability_of_data(log_q, log_p, ratio)
        total = total - of_data * share.log() - ratio * of_noise * (1 - share).log()
    return total
