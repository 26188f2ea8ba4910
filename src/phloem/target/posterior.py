"""The target of inference: the posterior up to its normalising constant, the marginal likelihood."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from phloem.autograd import Operation
from phloem.errors import BadArgument
from phloem.target.free_parameters import FreeParameters
from phloem.target.likelihood import TreeLikelihood
from phloem.target.priors import LengthPrior, TreePrior, is_usual
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.topology import TopologyBatch

# Fields of inferred parameters.
IN_WORDS = {
    "kappa": "kappa",
    "exchangeabilities": "exchangeabilities",
    "frequencies": "frequencies",
    "shape": "shape of gamma rates",
    "invariant": "proportion of invariant sites",
    "multiplier": "rates of parts",
}
# Log density of each tree with its lengths, (batch,), differentiable in the lengths.
Prior = Callable[[TopologyBatch, Tensor], Tensor]


class JointSlopes(NamedTuple):
    """How each tree's log joint changes with its own lengths and model parameters."""

    lengths: Tensor  # (batch, 2n-3)
    theta: Tensor  # (batch, dimension)


@dataclass(frozen=True, slots=True)
class TreePosterior:
    """p(Y, τ, q, θ) = p(Y given τ, q, θ) p(τ, q) p(θ), whose likelihood can be tempered.

    parameters: those of the substitution model that are inferred. Then the log joint takes `theta`, their coordinates
    for each tree, (batch, dimension). Without them the model is that of the likelihood. constraints: with any, the
    prior, which must be uniform on topologies, is that of trees that satisfy them: others have probability zero.
    """

    likelihood: TreeLikelihood
    prior: Prior = field(default_factory=TreePrior)
    parameters: FreeParameters | None = None
    constraints: TopologyConstraints | None = None

    @property
    def dimension(self) -> int:
        """How many coordinates the model's parameters have; 0 if none are inferred."""
        return 0 if self.parameters is None else self.parameters.dimension

    def priors_in_words(self) -> dict[str, str]:
        """The priors, by what they are about."""
        if isinstance(self.prior, LengthPrior) and is_usual(self.prior):
            alike = "all alike" if self.constraints is None else f"alike if they have {self.constraints.in_words()}"
            found = {"topologies": alike, "branch lengths": self.prior.in_words()}
        else:
            found = {"topologies and branch lengths": "your own"}
        for one in self.parameters.inferred if self.parameters else ():
            found[IN_WORDS[one.field]] = one.kind.prior
        return found

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
        log_prior = self.log_prior(topologies, branch_lengths, theta)
        if inverse_temperature == 0:  # 0 · -inf would not be a number
            return log_prior
        log_likelihood = self.log_likelihood(topologies, branch_lengths, theta)
        return torch.add(log_prior, log_likelihood, alpha=inverse_temperature)

    def log_prior(self, topologies: TopologyBatch, branch_lengths: Tensor, theta: Tensor | None) -> Tensor:
        """log p(τ, q) + log p(θ), (batch,), with gradients."""
        log_prior = self.log_prior_of_trees(topologies, branch_lengths)
        if self.parameters is None:
            return log_prior
        of_theta: Tensor = _ParameterPrior(self.parameters)(self._checked(topologies, theta))
        return log_prior + of_theta

    def log_prior_of_trees(self, topologies: TopologyBatch, branch_lengths: Tensor) -> Tensor:
        """log p(τ, q), (batch,)."""
        log_prior = self.prior(topologies, branch_lengths)
        if self.constraints is None:
            return log_prior
        return log_prior + torch.from_numpy(self.constraints.log_weight(topologies))

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
        is_ours = type(self).log_joint is TreePosterior.log_joint and self.likelihood.model.is_fixed
        if not isinstance(prior, LengthPrior) or not is_usual(prior) or not is_ours or inverse_temperature == 0:
            return self._recorded_slopes(topologies, branch_lengths, inverse_temperature, theta)
        log_prior = self.log_prior_of_trees(topologies, branch_lengths)
        if self.parameters is None:
            found, by_theta = self.likelihood.evaluate(topologies, branch_lengths), _no_coordinates(topologies)
        else:
            coordinates = self._checked(topologies, theta).numpy()
            models = self.parameters.at(coordinates)
            found = self.likelihood.evaluate(topologies, branch_lengths, models.rates)
            log_density, slope = self.parameters.log_prior(coordinates)
            by_likelihood = models.gradient(found.derivatives, np.full(len(topologies), inverse_temperature))
            by_theta = torch.from_numpy(slope + by_likelihood)
            log_prior = log_prior + torch.from_numpy(log_density)
        log_joint = torch.add(log_prior, torch.from_numpy(found.sums), alpha=inverse_temperature)
        by_lengths = inverse_temperature * torch.from_numpy(found.derivatives.lengths) + prior.slope(branch_lengths)
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
        self.models = self.parameters.at(theta.detach().numpy())
        if not any(wanted):
            return torch.from_numpy(self.likelihood.values(self.topologies, lengths, self.models.rates))
        found = self.likelihood.evaluate(self.topologies, lengths, self.models.rates)
        self.derivatives = found.derivatives
        return torch.from_numpy(found.sums)

    def gradients(self, _wanted: tuple[bool, ...], gradient: Tensor) -> tuple[Tensor, ...]:
        """The gradients of the lengths and of the coordinates."""
        by_theta = self.models.gradient(self.derivatives, gradient.numpy())
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
