"""The target of inference: the posterior up to its normalising constant, the marginal likelihood."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from phloem.errors import BadArgument
from phloem.target.likelihood import TreeLikelihood
from phloem.target.prior import TreePrior
from phloem.trees.topology import TopologyBatch


@dataclass(frozen=True, slots=True)
class TreePosterior:
    """p(Y, τ, q) = p(Y given τ, q) p(τ, q), whose likelihood can be tempered."""

    likelihood: TreeLikelihood
    prior: TreePrior = field(default_factory=TreePrior)

    def log_joint(self, topologies: TopologyBatch, branch_lengths: Tensor, inverse_temperature: float = 1.0) -> Tensor:
        """inverse_temperature · log p(Y given τ, q) + log p(τ, q), (batch,), with gradients for the lengths."""
        if not 0 <= inverse_temperature <= 1:
            raise BadArgument(f"inverse temperature {inverse_temperature:g}: must be from 0 to 1.")
        log_prior = self.prior(topologies, branch_lengths)
        if inverse_temperature == 0:  # 0 · -inf would not be a number
            return log_prior
        return torch.add(log_prior, self.likelihood(topologies, branch_lengths), alpha=inverse_temperature)
