"""The target of inference: priors, and the posterior up to its normalising constant, the marginal likelihood."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from phloem.errors import BadArgument
from phloem.target.likelihood import TreeLikelihood, check_shape
from phloem.trees.generation import topology_count
from phloem.trees.topology import TopologyBatch

# Log density of each tree with its lengths, (batch,), differentiable in the lengths.
Prior = Callable[[TopologyBatch, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class TreePrior:
    """p(τ, q): every topology alike, 1/(2n-5)!!, and each branch length Exponential(rate)."""

    rate: float = 10.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise BadArgument(f"branch-length prior of rate {self.rate:g}: it must be a finite number above 0.")

    def __call__(self, topologies: TopologyBatch, branch_lengths: Tensor) -> Tensor:
        """Log density of each tree with its lengths, (batch,)."""
        check_shape(topologies, branch_lengths)
        branch_lengths = branch_lengths.double()
        constant = topologies.branch_count * math.log(self.rate) - math.log(topology_count(topologies.taxon_count))
        constants = branch_lengths.new_full((len(topologies),), constant)
        rates = branch_lengths.new_full((topologies.branch_count,), -self.rate)
        return torch.addmv(constants, branch_lengths, rates)  # one operation: this is done in every training step


@dataclass(frozen=True, slots=True)
class TreePosterior:
    """p(Y, τ, q) = p(Y given τ, q) p(τ, q), whose likelihood can be tempered."""

    likelihood: TreeLikelihood
    prior: Prior = field(default_factory=TreePrior)

    def log_joint(self, topologies: TopologyBatch, branch_lengths: Tensor, inverse_temperature: float = 1.0) -> Tensor:
        """inverse_temperature · log p(Y given τ, q) + log p(τ, q), (batch,), with gradients for the lengths."""
        if not 0 <= inverse_temperature <= 1:
            raise BadArgument(f"inverse temperature {inverse_temperature:g}: must be from 0 to 1.")
        log_prior = self.prior(topologies, branch_lengths)
        if inverse_temperature == 0:  # 0 · -inf would not be a number
            return log_prior
        return torch.add(log_prior, self.likelihood(topologies, branch_lengths), alpha=inverse_temperature)
