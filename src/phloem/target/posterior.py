"""The target of inference: priors, and the posterior up to its normalising constant, the marginal likelihood."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, cast, final

import numpy as np
import torch
from torch import Tensor

from phloem.autograd import Operation
from phloem.errors import BadArgument
from phloem.target.free_parameters import FreeParameters
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


class JointSlopes(NamedTuple):
    """How each tree's log joint changes with its own lengths and model parameters."""

    lengths: Tensor  # (batch, 2n-3)
    theta: Tensor  # (batch, dimension)


@dataclass(frozen=True, slots=True)
class TreePosterior:
    """p(Y, τ, q, θ) = p(Y given τ, q, θ) p(τ, q) p(θ), whose likelihood can be tempered.

    parameters: those of the substitution model that are inferred. Then the log joint takes `theta`, their coordinates
    for each tree, (batch, dimension). Without them the model is that of the likelihood.
    """

    likelihood: TreeLikelihood
    prior: Prior = field(default_factory=TreePrior)
    parameters: FreeParameters | None = None

    @property
    def dimension(self) -> int:
        """How many coordinates the model's parameters have; 0 if none are inferred."""
        return 0 if self.parameters is None else self.parameters.dimension

    def log_joint(
        self,
        topologies: TopologyBatch,
        branch_lengths: Tensor,
        inverse_temperature: float = 1.0,
        *,
        theta: Tensor | None = None,
    ) -> Tensor:
        """inverse_temperature · log p(Y given τ, q, θ) + log p(τ, q) + log p(θ), (batch,), with gradients."""
        _check_temperature(inverse_temperature)
        log_prior = self.prior(topologies, branch_lengths)
        if self.parameters is not None:
            log_prior = log_prior + _ParameterPrior(self.parameters)(self._checked(topologies, theta))
        if inverse_temperature == 0:  # 0 · -inf would not be a number
            return log_prior
        log_likelihood = self.log_likelihood(topologies, branch_lengths, theta)
        return torch.add(log_prior, log_likelihood, alpha=inverse_temperature)

    def log_likelihood(self, topologies: TopologyBatch, branch_lengths: Tensor, theta: Tensor | None) -> Tensor:
        """log p(Y given τ, q, θ), (batch,), with gradients."""
        if self.parameters is None:
            return self.likelihood(topologies, branch_lengths)
        operation = _LikelihoodOfParameters(self.likelihood, self.parameters, topologies)
        values: Tensor = operation(branch_lengths, self._checked(topologies, theta))
        return values

    def log_joint_by_hand(
        self,
        topologies: TopologyBatch,
        branch_lengths: Tensor,
        inverse_temperature: float,
        *,
        theta: Tensor | None = None,
    ) -> tuple[Tensor, JointSlopes]:
        """The same as `log_joint`, not recorded by torch's autograd, and its gradients.

        This is for training, where autograd's bookkeeping would take half as long as the likelihood.
        """
        _check_temperature(inverse_temperature)
        prior = self.prior
        is_ours = isinstance(prior, TreePrior) and type(self).log_joint is TreePosterior.log_joint
        if not is_ours or not self.likelihood.model.is_fixed or inverse_temperature == 0:
            return self._recorded_slopes(topologies, branch_lengths, inverse_temperature, theta)
        rate = cast(TreePrior, prior).rate
        log_prior = prior(topologies, branch_lengths)
        if self.parameters is None:
            found, by_theta = self.likelihood.evaluate(topologies, branch_lengths), _no_coordinates(topologies)
        else:
            coordinates = self._checked(topologies, theta).numpy()
            rates = self.parameters.rates(coordinates)
            found = self.likelihood.evaluate(topologies, branch_lengths, rates)
            log_density, slope = self.parameters.log_prior(coordinates)
            by_parameters = rates.gradients(found.derivatives, np.full(len(topologies), inverse_temperature))
            by_theta = torch.from_numpy(slope + self.parameters.pull_back(coordinates, by_parameters))
            log_prior = log_prior + torch.from_numpy(log_density)
        log_joint = torch.add(log_prior, torch.from_numpy(found.sums), alpha=inverse_temperature)
        by_lengths = inverse_temperature * torch.from_numpy(found.derivatives.lengths) - rate
        return log_joint, JointSlopes(by_lengths, by_theta)

    def _recorded_slopes(
        self,
        topologies: TopologyBatch,
        branch_lengths: Tensor,
        inverse_temperature: float,
        theta: Tensor | None,
    ) -> tuple[Tensor, JointSlopes]:
        """By autograd: a tree's log joint depends on nothing of other trees."""
        inputs = [branch_lengths.detach().requires_grad_()]
        if self.parameters is not None:
            inputs.append(self._checked(topologies, theta).detach().requires_grad_())
        recorded = self.log_joint(
            topologies, inputs[0], inverse_temperature, theta=inputs[1] if self.parameters else None
        )
        found = torch.autograd.grad(recorded, inputs, torch.ones_like(recorded))
        return recorded.detach(), JointSlopes(found[0], found[1] if self.parameters else _no_coordinates(topologies))

    def _checked(self, topologies: TopologyBatch, theta: Tensor | None) -> Tensor:
        """The coordinates, of which there must be a row for each tree."""
        expected = (len(topologies), self.dimension)
        if theta is None or tuple(theta.shape) != expected:
            given = "none" if theta is None else f"shape {tuple(theta.shape)}"
            raise BadArgument(f"model parameters: {given} given, and shape {expected} is needed. Give them as `theta`.")
        return theta


@final
class _LikelihoodOfParameters(Operation):
    """Log-likelihoods, (batch,), from lengths and from coordinates of every tree's model."""

    def __init__(self, likelihood: TreeLikelihood, parameters: FreeParameters, topologies: TopologyBatch) -> None:
        self.likelihood = likelihood
        self.parameters = parameters
        self.topologies = topologies

    def values(self, wanted: tuple[bool, ...], lengths: Tensor, theta: Tensor) -> Tensor:
        """The log-likelihoods."""
        self.coordinates = theta.detach().numpy().copy()
        self.rates = self.parameters.rates(self.coordinates)
        if not any(wanted):
            return torch.from_numpy(self.likelihood.values(self.topologies, lengths, self.rates))
        found = self.likelihood.evaluate(self.topologies, lengths, self.rates)
        self.derivatives = found.derivatives
        return torch.from_numpy(found.sums)

    def gradients(self, _wanted: tuple[bool, ...], gradient: Tensor) -> tuple[Tensor, ...]:
        """The gradients of the lengths and of the coordinates."""
        by_parameters = self.rates.gradients(self.derivatives, gradient.numpy())
        by_theta = self.parameters.pull_back(self.coordinates, by_parameters)
        return gradient[:, None] * torch.from_numpy(self.derivatives.lengths), torch.from_numpy(by_theta)


@final
class _ParameterPrior(Operation):
    """log p(θ), (batch,), from coordinates."""

    def __init__(self, parameters: FreeParameters) -> None:
        self.parameters = parameters

    def values(self, _wanted: tuple[bool, ...], theta: Tensor) -> Tensor:
        """The log densities."""
        log_density, self.slope = self.parameters.log_prior(theta.detach().numpy())
        return torch.from_numpy(log_density)

    def gradients(self, _wanted: tuple[bool, ...], gradient: Tensor) -> tuple[Tensor, ...]:
        """The gradient of the coordinates."""
        return (gradient[:, None] * torch.from_numpy(self.slope),)


def _no_coordinates(topologies: TopologyBatch) -> Tensor:
    return torch.zeros(len(topologies), 0, dtype=torch.float64)


def _check_temperature(inverse_temperature: float) -> None:
    if not 0 <= inverse_temperature <= 1:
        raise BadArgument(f"inverse temperature {inverse_temperature:g}: must be from 0 to 1.")
