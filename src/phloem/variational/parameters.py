"""Q(θ): a distribution over the unconstrained coordinates of a substitution model's parameters.

A Gaussian with full covariance, each of whose coordinates is warped on either side of its median. With ε standard
normal and A a matrix that ties each coordinate to those before it,

    u = ε + A ε        y_i = m_i + s_i · T_i(u_i)        θ = center + factor · y

T(u) = sinh(w · asinh u) / w, with w_i above 1 for longer and below 1 for shorter tails, one on the left and one on the
right. Center and factor are those of a normal approximation of the posterior and stay as they are, so that all that is
learned begins near zero and is of the same size.

Branch lengths given θ depend on ε, linearly, which is what a branch model learns (`shifted`).
"""

import math
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn

from phloem.arrays import FloatArray
from phloem.autograd import Operation
from phloem.errors import BadArgument
from phloem.trees.topology import TopologyBatch
from phloem.variational.families import BranchDistribution, LengthsFromNoise

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
LEFT, RIGHT = 0, 1
# Of what a branch model learns, over the root of θ's dimension: how a length moves with θ is a small matter about which
# the gradients of single steps hardly agree, and steps as large as those of locations would make all lengths run away.
SHIFT = 0.2


class ParameterSample(NamedTuple):
    """Coordinates drawn from Q(θ), and their log-density."""

    coordinates: Tensor  # (trees, dimension)
    log_prob: Tensor  # (trees,)


@final
class ParameterModel(nn.Module):
    """Q(θ). center, factor: of a normal approximation, (dimension,) and (dimension, dimension), lower triangular."""

    center: Tensor
    factor: Tensor

    def __init__(self, center: FloatArray, factor: FloatArray) -> None:
        super().__init__()
        dimension = len(center)
        if factor.shape != (dimension, dimension) or not (np.diagonal(factor) > 0).all():
            raise BadArgument("parameter model: the factor must be square and triangular, with a diagonal above 0.")
        self.register_buffer("center", torch.from_numpy(np.array(center, np.float64)))
        self.register_buffer("factor", torch.from_numpy(np.tril(factor)))
        self.location = _zeros(dimension)
        self.log_scale = _zeros(dimension)
        self.ties = _zeros(dimension, dimension)  # below the diagonal
        self.log_tails = _zeros(dimension, 2)  # log w, on the left and on the right

    @property
    def dimension(self) -> int:
        """How many coordinates there are."""
        return len(self.center)

    def sampling(self, noise: FloatArray) -> "ParametersFromNoise":
        """Coordinates from standard normal noise, (trees, dimension), as an operation on `learned`."""
        return ParametersFromNoise(self, noise)

    @property
    def learned(self) -> tuple[Tensor, ...]:
        """What the operation takes."""
        return self.location, self.log_scale, self.ties, self.log_tails

    def sample(self, noise: FloatArray) -> ParameterSample:
        """Coordinates from standard normal noise, recorded by torch's autograd."""
        return ParameterSample(*self.sampling(noise)(*self.learned))

    def noise_of(self, coordinates: FloatArray) -> FloatArray:
        """The noise that coordinates, (trees, dimension), are made of."""
        location, log_scale, ties, log_tails = (tensor.detach().numpy() for tensor in self.learned)
        whitened = np.linalg.solve(self.factor.numpy(), (coordinates - self.center.numpy()).T).T
        warped = (whitened - location) * np.exp(-log_scale)
        tail = np.exp(np.where(warped < 0, log_tails[:, LEFT], log_tails[:, RIGHT]))
        values = np.sinh(np.arcsinh(tail * warped) / tail)
        tied = np.eye(self.dimension) + np.tril(ties, -1)
        return np.asarray(np.linalg.solve(tied, values.T).T)


@final
class ParametersFromNoise(Operation):
    """Coordinates, (trees, dimension), and log-densities, (trees,), for fixed noise."""

    shares_memory = True

    def __init__(self, model: ParameterModel, noise: FloatArray) -> None:
        self.factor = model.factor.numpy()
        self.center = model.center.numpy()
        self.log_volume = float(np.log(np.diagonal(self.factor)).sum())
        self.noise = noise

    def values(
        self, _wanted: tuple[bool, ...], location: Tensor, log_scale: Tensor, ties: Tensor, log_tails: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The coordinates and the log-density of each tree's."""
        self.tied = np.eye(len(self.center)) + np.tril(ties.detach().numpy(), -1)
        u = self.noise @ self.tied.T
        logs = log_tails.detach().numpy()
        self.is_left = u < 0
        self.tail = np.exp(np.where(self.is_left, logs[:, LEFT], logs[:, RIGHT]))
        self.angle = np.arcsinh(u)
        self.sinh, self.cosh = np.sinh(self.tail * self.angle), np.cosh(self.tail * self.angle)
        self.root = np.sqrt(1.0 + u**2)
        self.u = u
        self.scale = np.exp(log_scale.detach().numpy())
        self.warped = self.sinh / self.tail
        coordinates = self.center + (location.detach().numpy() + self.scale * self.warped) @ self.factor.T
        log_slope = np.log(self.cosh / self.root) + log_scale.detach().numpy()
        log_prob = -(0.5 * self.noise**2 + HALF_LOG_TWO_PI + log_slope).sum(axis=1) - self.log_volume
        return torch.from_numpy(coordinates), torch.from_numpy(log_prob)

    def gradients(
        self, _wanted: tuple[bool, ...], by_coordinates: Tensor, by_log_prob: Tensor
    ) -> tuple[Tensor | None, ...]:
        """The gradients of what is learned."""
        by_density = by_log_prob.numpy()[:, None]
        by_place = by_coordinates.numpy() @ self.factor
        by_u = self._by_u(by_place, by_density)
        turned = self.tail * self.angle
        tanh = self.sinh / self.cosh
        by_log_tail = by_place * self.scale * (self.angle * self.cosh - self.warped) - by_density * turned * tanh
        gradients = (
            by_place.sum(axis=0),
            (by_place * self.scale * self.warped - by_density).sum(axis=0),
            np.tril(by_u.T @ self.noise, -1),
            np.stack([(by_log_tail * side).sum(axis=0) for side in (self.is_left, ~self.is_left)], axis=1),
        )
        return tuple(map(torch.from_numpy, gradients))

    def noise_gradient(self, by_coordinates: FloatArray, by_log_prob: FloatArray) -> FloatArray:
        """The gradient for the noise, from those of coordinates and log-densities, after `values`."""
        by_density = by_log_prob[:, None]
        by_u = self._by_u(by_coordinates @ self.factor, by_density)
        return np.asarray(by_u @ self.tied - by_density * self.noise)

    def _by_u(self, by_place: FloatArray, by_density: FloatArray) -> FloatArray:
        slope = self.cosh / self.root
        log_slope_change = self.tail * self.sinh / self.cosh / self.root - self.u / self.root**2
        return np.asarray(by_place * self.scale * slope - by_density * log_slope_change)


@final
class ShiftedByParameters(LengthsFromNoise):
    """A family's lengths, whose locations move with the noise of the model's parameters.

    Parameters of branches, (trees, branches, the family's + dimension): the last ones are by how much. The first of the
    family's is a location.
    """

    shares_memory = True

    def __init__(self, family: LengthsFromNoise, noise: FloatArray) -> None:
        self.family = family
        self.noise = noise  # (trees, dimension)

    def values(self, wanted: tuple[bool, ...], parameters: Tensor) -> tuple[Tensor, Tensor]:
        """The lengths and the log-density of each tree's."""
        self.parameters = parameters.detach()
        lengths, log_densities = self.family.values(wanted, shifted(self.parameters, self.noise))
        assert isinstance(lengths, Tensor)
        return lengths, log_densities

    def gradients(
        self, wanted: tuple[bool, ...], length_gradient: Tensor, density_gradient: Tensor
    ) -> tuple[Tensor, ...]:
        """The parameters' gradient."""
        (gradient,) = self.family.gradients(wanted, length_gradient, density_gradient)
        assert gradient is not None
        noise = torch.from_numpy(_shares(self.noise)).to(gradient.dtype)
        return (torch.cat([gradient, gradient[:, :, :1] * noise[:, None]], dim=2),)

    def noise_gradient(self, length_gradient: Tensor, density_gradient: Tensor) -> FloatArray:
        """The gradients for the noise of the branches and for that of the parameters, (trees, branches + dimension)."""
        of_branches = self.family.noise_gradient(length_gradient, density_gradient)
        (gradient,) = self.family.gradients((True,), length_gradient, density_gradient)
        assert gradient is not None
        coefficients = self.parameters[:, :, -self.noise.shape[1] :].double()
        of_parameters = (gradient[:, :, :1].double() * coefficients).sum(dim=1)
        return np.concatenate([of_branches, _shares(of_parameters.numpy())], axis=1)


def lengths_from_noise(
    family: type[BranchDistribution],
    topologies: TopologyBatch,
    noise: FloatArray,
    theta_noise: FloatArray | None,
    *,
    path_only: bool,
) -> LengthsFromNoise | None:
    """A family's operation from parameters of branches to lengths, for fixed noise; None if it has none."""
    operation = family.from_noise(topologies, noise, path_only=path_only)
    if operation is None or theta_noise is None or not theta_noise.shape[1]:
        return operation
    return ShiftedByParameters(operation, theta_noise)


def shifted(parameters: Tensor, noise: FloatArray) -> Tensor:
    """A family's parameters with their location moved by the noise of the model's parameters."""
    dimension = noise.shape[1]
    of_family, coefficients = parameters[:, :, :-dimension], parameters[:, :, -dimension:]
    shift = torch.bmm(coefficients, torch.from_numpy(_shares(noise)).to(parameters.dtype)[:, :, None])
    return torch.cat([of_family[:, :, :1] + shift, of_family[:, :, 1:]], dim=2)


def _shares(noise: FloatArray) -> FloatArray:
    """Noise, (trees, dimension), by how much it may count."""
    return SHIFT / math.sqrt(noise.shape[1]) * noise


def _zeros(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(*shape, dtype=torch.float64))
