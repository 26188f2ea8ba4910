"""Priors: uniform on topologies, independent exponential on branch lengths."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from phloem.errors import BadArgument
from phloem.trees.generation import topology_count
from phloem.trees.topology import TopologyBatch


@dataclass(frozen=True, slots=True)
class TreePrior:
    """p(τ, q): every topology alike, 1/(2n-5)!!, and each branch length Exponential(rate)."""

    rate: float = 10.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise BadArgument(f"branch-length prior of rate {self.rate:g}: it must be a finite number above 0.")

    def __call__(self, topologies: TopologyBatch, branch_lengths: Tensor) -> Tensor:
        """Log density of each tree with its lengths, (batch,)."""
        constant = topologies.branch_count * math.log(self.rate) - math.log(topology_count(topologies.taxon_count))
        constants = branch_lengths.new_full((len(topologies),), constant)
        rates = branch_lengths.new_full((topologies.branch_count,), -self.rate)
        return torch.addmv(constants, branch_lengths, rates)  # one operation: this is done in every training step
