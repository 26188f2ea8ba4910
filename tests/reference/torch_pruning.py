"""Felsenstein's pruning as one would write it in PyTorch: a loop over nodes, gradients by autograd."""

import torch
from torch import Tensor


def log_likelihood(parent: list[int], matrices: Tensor, tips: Tensor, frequencies: Tensor, weights: Tensor) -> Tensor:
    """One tree: matrices (branches, categories, 4, 4), tips (taxa, patterns, 4), weights (categories,); (patterns,)."""
    taxa, patterns, _ = tips.shape
    inside = {node: torch.ones(matrices.shape[1], patterns, 4, dtype=tips.dtype) for node in range(taxa, len(parent))}
    for node in range(len(parent) - 1):
        below = tips[node].expand(matrices.shape[1], -1, -1) if node < taxa else inside[node]
        inside[parent[node]] = inside[parent[node]] * (below @ matrices[node].transpose(-1, -2))
    return torch.log(torch.einsum("cps,s,c->p", inside[len(parent) - 1], frequencies, weights))
