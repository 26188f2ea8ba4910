"""The target of inference: priors, and the posterior up to its normalising constant, the marginal likelihood."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor

from phloem.errors import BadArgument
from phloem.target.likelihood import TreeLikelihood, check_shape
from phloem.trees.generation import topology_count
from phloem.trees.topology import TopologyBatch

# Log density of each tree with its lengths, (batch,), differentiable in the lengths.
Prior = Callable[[TopologyBatch, Tensor], Tensor]
# From the gradients of log-densities, (batch,), to those of the lengths, (batch, 2n-3).
PullBack = Callable[[Tensor], Tensor]


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
        _check_temperature(inverse_temperature)
        log_prior = self.prior(topologies, branch_lengths)
        if inverse_temperature == 0:  # 0 · -inf would not be a number
            return log_prior
        return torch.add(log_prior, self.likelihood(topologies, branch_lengths), alpha=inverse_temperature)

    def log_joint_by_hand(
        self, topologies: TopologyBatch, branch_lengths: Tensor, inverse_temperature: float
    ) -> tuple[Tensor, PullBack]:
        """The same as `log_joint`, not recorded by torch's autograd, and how gradients get from it to the lengths.

        This is for training, where autograd's bookkeeping would take half as long as the likelihood.
        """
        _check_temperature(inverse_temperature)
        prior = self.prior
        is_ours = isinstance(prior, TreePrior) and type(self).log_joint is TreePosterior.log_joint
        if not is_ours or not self.likelihood.model.is_fixed or inverse_temperature == 0:
            lengths = branch_lengths.detach().requires_grad_()
            recorded = self.log_joint(topologies, lengths, inverse_temperature)
            return recorded.detach(), lambda gradient: torch.autograd.grad(recorded, lengths, gradient)[0]
        rate = cast(TreePrior, prior).rate
        found = self.likelihood.evaluate(topologies, branch_lengths)
        log_prior = prior(topologies, branch_lengths)
        log_joint = torch.add(log_prior, torch.from_numpy(found.sums), alpha=inverse_temperature)
        slopes = torch.from_numpy(found.derivatives.lengths)

        def pull_back(gradient: Tensor) -> Tensor:
            return (inverse_temperature * gradient)[:, None] * slopes - (rate * gradient)[:, None]

        return log_joint, pull_back


def _check_temperature(inverse_temperature: float) -> None:
    if not 0 <= inverse_temperature <= 1:
        raise BadArgument(f"inverse temperature {inverse_temperature:g}: must be from 0 to 1.")
