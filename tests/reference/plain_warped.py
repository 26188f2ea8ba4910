"""The warped family as its formulas say, a branch at a time, with gradients by torch."""

import math

import torch
from torch import Tensor

from phloem.trees.topology import TopologyBatch


def warp(value: Tensor, log_scale: Tensor) -> Tensor:
    """T(u) = sinh(d·asinh u)/d."""
    weight = _weight(value, log_scale)
    return torch.sinh(weight * torch.asinh(value)) / weight


def log_slope(value: Tensor, log_scale: Tensor) -> Tensor:
    """log T'(u)."""
    return torch.log(torch.cosh(_weight(value, log_scale) * torch.asinh(value))) - 0.5 * torch.log(1 + value**2)


def _weight(value: Tensor, log_scale: Tensor) -> Tensor:
    slope = 0.75 if value < 0 else -0.75
    return torch.exp(1.5 * torch.tanh(slope * log_scale.exp() / 1.5))


def before(topologies: TopologyBatch, tree: int) -> dict[int, tuple[int | None, int | None]]:
    """The branch above and the sibling of each branch that depends on them, those first on which others depend.

    Branch v is above node v. The last node is the root: below taxon 0's branch, which depends on nothing.
    """
    neighbors = topologies.neighbors[tree]
    found: dict[int, tuple[int | None, int | None]] = {0: (None, None)}
    for node in reversed(range(topologies.taxon_count, topologies.node_count)):
        above = 0 if node == topologies.node_count - 1 else node
        _, first, second = neighbors[node].tolist()
        found[first] = (above, None)
        found[second] = (above, first)
    return found


def draw(parameters: Tensor, topologies: TopologyBatch, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Lengths (trees, branches) and log-densities (trees,) from noise, differentiable."""
    lengths, densities = [], []
    for tree in range(len(topologies)):
        values: dict[int, Tensor] = {}
        total = torch.zeros((), dtype=torch.float64)
        own = {}
        for branch, (above, sibling) in before(topologies, tree).items():
            location, log_scale, by_above, by_sibling = parameters[tree, branch].double()
            value = noise[tree, branch]
            if above is not None:
                value = value + torch.tanh(by_above) * values[above]
            if sibling is not None:
                value = value + torch.tanh(by_sibling) * values[sibling]
            values[branch] = value
            log_length = location - 2 + log_scale.exp() * warp(value, log_scale)
            own[branch] = log_length.exp()
            total = total - (log_length + log_scale + log_slope(value, log_scale))
            total = total - 0.5 * noise[tree, branch] ** 2 - 0.5 * math.log(2 * math.pi)
        lengths.append(torch.stack([own[branch] for branch in range(topologies.branch_count)]))
        densities.append(total)
    return torch.stack(lengths), torch.stack(densities)


def unwarp(warped: Tensor, log_scale: Tensor) -> Tensor:
    """T⁻¹(y) = sinh(asinh(d·y)/d)."""
    weight = _weight(warped, log_scale)  # T keeps the sign
    return torch.sinh(torch.asinh(weight * warped) / weight)


def ties(parameters: Tensor, topologies: TopologyBatch, tree: int) -> Tensor:
    """A of u = ε + A·u, (branches, branches)."""
    matrix = torch.zeros(topologies.branch_count, topologies.branch_count, dtype=torch.float64)
    for branch, others in before(topologies, tree).items():
        for column, other in enumerate(others):
            if other is not None:
                matrix[branch, other] = torch.tanh(parameters[tree, branch, 2 + column])
    return matrix


def log_prob(parameters: Tensor, topologies: TopologyBatch, lengths: Tensor) -> Tensor:
    """Log-density of given lengths, (trees,), differentiable."""
    densities = []
    for tree in range(len(topologies)):
        log_lengths = lengths[tree].log()
        values, total = [], torch.zeros((), dtype=torch.float64)
        for branch in range(topologies.branch_count):
            location, log_scale = parameters[tree, branch, :2].double()
            values.append(unwarp((log_lengths[branch] - location + 2) / log_scale.exp(), log_scale))
            total = total - log_lengths[branch] - log_scale - log_slope(values[branch], log_scale)
        value = torch.stack(values)
        noise = value - ties(parameters.double(), topologies, tree) @ value
        densities.append(total - (0.5 * noise**2 + 0.5 * math.log(2 * math.pi)).sum())
    return torch.stack(densities)
