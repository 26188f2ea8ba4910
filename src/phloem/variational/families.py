"""Families of branch-length distributions: from parameters of every branch to a density over all lengths of a tree.

A family is a subclass of `BranchDistribution`; phloem's own are listed in `FAMILIES`. Training needs a reparameterised
sample with its log-density, for which torch operations are enough; one operation with a gradient by hand (`from_noise`)
makes steps faster.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import FloatArray, LongArray
from phloem.autograd import Operation, check_tensors
from phloem.errors import BadArgument
from phloem.kernels.philox import fill_normal_rows
from phloem.kernels.variational.branches import HALF_LOG_TWO_PI, sample_lognormal, sample_lognormal_backward
from phloem.kernels.variational.warped import (
    KEPT,
    SKEW,
    STEEPEST,
    sample_warped,
    sample_warped_backward,
    warped_noise_gradient,
)
from phloem.random_streams import RandomStream
from phloem.trees.topology import TopologyBatch

# With parameters of zero, as they are initially, lengths have a median of exp(-2) = 0.14: a sensible size.
LOCATION_OFFSET = -2.0
FIRST_TIE = -0.05  # neighbours make up for one another, so ties are below zero more often than above
FIRST_SPREAD = 0.1  # of the ties' weights, as a share of the others'


class BranchSample(NamedTuple):
    """Sampled lengths and their log-density, differentiable in the distribution's parameters."""

    lengths: Tensor  # (batch, 2n-3)
    log_prob: Tensor  # (batch,)


class LengthsFromNoise(Operation, ABC):
    """A family's parameters to lengths, (batch, branches), and log-densities, (batch,), for fixed noise."""

    @abstractmethod
    def noise_gradient(self, length_gradient: Tensor, density_gradient: Tensor) -> FloatArray:
        """The gradient for the noise, from those of lengths and log-densities, after `values`; parameters are fixed."""


class BranchDistribution(ABC):
    """Q(q given τ) for a batch of topologies: a density over the lengths of all branches of each.

    A family is a subclass. Its parameters come from a branch model, (batch, branches, `parameters_per_branch`); all
    zero should be a sensible start.
    """

    parameters_per_branch: ClassVar[int]

    @abstractmethod
    def __init__(self, parameters: Tensor, topologies: TopologyBatch) -> None:
        """From a branch model's parameters for these topologies."""

    @abstractmethod
    def sample(self, *, stream: RandomStream, path_only: bool = False) -> BranchSample:
        """One set of lengths per tree, reparameterised; tree i uses the random numbers of the stream's i-th particle.

        path_only: the log-density's gradient flows through the lengths alone, with the parameters held constant.
        """

    @abstractmethod
    def log_prob(self, lengths: Tensor) -> Tensor:
        """Log-density, (batch,), of given lengths, (batch, branches)."""

    @classmethod
    def from_noise(cls, topologies: TopologyBatch, noise: FloatArray, *, path_only: bool) -> LengthsFromNoise | None:
        """`sample` as one operation on the parameters, with a gradient by hand; None if there is no such operation.

        noise: independent standard normal numbers, (batch, branches), in place of a stream.
        """
        return None

    @classmethod
    def start(cls, weight: Tensor, bias: Tensor) -> None:
        """Change the first weights of a network's last layer, whose rows are a branch's parameters; usually not."""
        return

    @classmethod
    def begin_at(cls, parameters: Tensor, log_length: float) -> None:
        """Change parameters of zero, (parameters_per_branch,), so that log q is about this large; usually not."""
        return


@final
class Lognormal(BranchDistribution):
    """Independent lognormals: log q = μ - 2 + σ·ε with ε standard normal; a branch's parameters are μ and log σ."""

    parameters_per_branch = 2

    def __init__(self, parameters: Tensor, _topologies: TopologyBatch | None = None) -> None:
        _check_parameters("lognormal", parameters, self.parameters_per_branch)
        self._parameters = parameters

    @property
    def location(self) -> Tensor:
        """Mean of log q, (batch, branches)."""
        return self._parameters[:, :, 0].to(torch.float64) + LOCATION_OFFSET

    @property
    def log_scale(self) -> Tensor:
        """Logarithm of the standard deviation of log q, (batch, branches)."""
        return self._parameters[:, :, 1].to(torch.float64)

    def sample(self, *, stream: RandomStream, path_only: bool = False) -> BranchSample:
        """One set of lengths per tree, reparameterised."""
        noise = standard_normal(self._parameters.shape[0], self._parameters.shape[1], stream)
        return BranchSample(*_SampleLognormal(noise, path_only)(self._parameters))

    @classmethod
    def from_noise(cls, _topologies: TopologyBatch, noise: FloatArray, *, path_only: bool) -> LengthsFromNoise:
        """`sample` as one operation on the parameters."""
        return _SampleLognormal(noise, path_only)

    @classmethod
    def begin_at(cls, parameters: Tensor, log_length: float) -> None:
        """The median is that length."""
        parameters[0] = log_length - LOCATION_OFFSET

    def log_prob(self, lengths: Tensor) -> Tensor:
        """Log-density of given lengths, (batch,); -inf where one is not positive."""
        _check_lengths("lognormal", lengths, self._parameters)
        positive = lengths > 0
        log_lengths = torch.where(positive, lengths, 1).log()
        deviation = (log_lengths - self.location) * torch.exp(-self.log_scale)
        log_densities = -(log_lengths + self.log_scale + 0.5 * deviation**2 + HALF_LOG_TWO_PI).sum(dim=1)
        return torch.where(positive.all(dim=1), log_densities, -torch.inf)


@final
class Warped(BranchDistribution):
    """Lengths as skewed as posteriors are, each tied to its neighbours (`kernels.variational.warped` has the formulas).

    A branch's parameters are μ and log σ, as of a lognormal, and what ties it to the branch above and to its sibling.
    With ties of zero and small σ it is the lognormal.
    """

    parameters_per_branch = 4

    def __init__(self, parameters: Tensor, topologies: TopologyBatch) -> None:
        _check_parameters("warped", parameters, self.parameters_per_branch)
        if parameters.shape[:2] != (len(topologies), topologies.branch_count):
            raise BadArgument(
                f"warped: parameters of shape {tuple(parameters.shape)} for {len(topologies)} trees of "
                f"{topologies.branch_count} branches."
            )
        self._parameters = parameters
        self._topologies = topologies

    def sample(self, *, stream: RandomStream, path_only: bool = False) -> BranchSample:
        """One set of lengths per tree, reparameterised."""
        noise = standard_normal(self._parameters.shape[0], self._parameters.shape[1], stream)
        return BranchSample(*_SampleWarped(self._topologies, noise, path_only)(self._parameters))

    @classmethod
    def from_noise(cls, topologies: TopologyBatch, noise: FloatArray, *, path_only: bool) -> LengthsFromNoise:
        """`sample` as one operation on the parameters."""
        return _SampleWarped(topologies, noise, path_only)

    @classmethod
    def start(cls, weight: Tensor, bias: Tensor) -> None:
        """Begin with weak ties."""
        weight[2:] *= FIRST_SPREAD
        bias[2:] = FIRST_TIE

    @classmethod
    def begin_at(cls, parameters: Tensor, log_length: float) -> None:
        """As for lognormals."""
        parameters[0] = log_length - LOCATION_OFFSET

    def log_prob(self, lengths: Tensor) -> Tensor:
        """Log-density of given lengths, (batch,); -inf where one is not positive."""
        _check_lengths("warped", lengths, self._parameters)
        location, log_scale, *ties = self._parameters.to(torch.float64).unbind(dim=2)
        positive = lengths > 0
        log_lengths = torch.where(positive, lengths, 1).log()
        values, log_slope = unwarp((log_lengths - location - LOCATION_OFFSET) * torch.exp(-log_scale), log_scale)
        noise = values
        for tie, (other, exists) in zip(ties, _neighbors_before(self._topologies), strict=True):
            noise = noise - torch.where(exists, torch.tanh(tie) * values.gather(1, other), 0.0)
        log_densities = -(log_lengths + log_scale + log_slope + 0.5 * noise**2 + HALF_LOG_TWO_PI).sum(dim=1)
        return torch.where(positive.all(dim=1), log_densities, -torch.inf)


def unwarp(warped: Tensor, log_scale: Tensor) -> tuple[Tensor, Tensor]:
    """u with T(u) = warped, and log T'(u)."""
    side = torch.where(warped < 0, warped.new_tensor(SKEW), warped.new_tensor(-SKEW))
    weight = torch.exp(STEEPEST * torch.tanh(side * log_scale.exp() / STEEPEST))
    height = weight * warped  # sinh(d·asinh u)
    values = torch.sinh(torch.asinh(height) / weight)
    return values, 0.5 * (torch.log1p(height**2) - torch.log1p(values**2))


# By the names of `--family`; `phloem.config` lists them too, as it never loads torch.
FAMILIES: dict[str, type[BranchDistribution]] = {"warped": Warped, "lognormal": Lognormal}


def is_made_of_noise(family: type[BranchDistribution]) -> bool:
    """Whether a family has `from_noise`, without which its lengths cannot be moved."""
    return family.from_noise.__func__ is not BranchDistribution.from_noise.__func__  # type: ignore[attr-defined]


def _check_parameters(family: str, parameters: Tensor, count: int) -> None:
    check_tensors(parameters)
    if parameters.ndim != 3 or parameters.shape[2] != count:
        shape = tuple(parameters.shape)
        raise BadArgument(f"{family}: parameters of shape {shape}. Give them as (batch, branches, {count}).")


def _check_lengths(family: str, lengths: Tensor, parameters: Tensor) -> None:
    check_tensors(lengths)
    if lengths.shape != parameters.shape[:2]:
        raise BadArgument(
            f"{family}: lengths of shape {tuple(lengths.shape)} for {tuple(parameters.shape[:2])} branches."
        )


def _neighbors_before(topologies: TopologyBatch) -> list[tuple[Tensor, Tensor]]:
    """For the branch above and for the sibling: which branch that is, and whether there is one, (batch, branches)."""
    neighbors = topologies.neighbors
    interior = np.arange(topologies.taxon_count, topologies.node_count)
    above = np.broadcast_to(
        np.where(interior == topologies.node_count - 1, 0, interior), neighbors[:, interior, 1].shape
    )
    first, second = neighbors[:, interior, 1], neighbors[:, interior, 2]
    others: LongArray = np.full((2, len(topologies), topologies.branch_count), -1)
    np.put_along_axis(others[0], first, above, axis=1)
    np.put_along_axis(others[0], second, above, axis=1)
    np.put_along_axis(others[1], second, first, axis=1)
    return [(torch.from_numpy(np.maximum(other, 0)), torch.from_numpy(other >= 0)) for other in others]


def standard_normal(trees: int, branches: int, stream: RandomStream) -> FloatArray:
    """Independent numbers, (trees, branches), those of one particle in a row."""
    noise = np.empty((trees, branches))
    fill_normal_rows(stream.key(), stream.particle, stream.step, noise)
    return noise


@final
class _SampleLognormal(LengthsFromNoise):
    """Lengths and log-densities from parameters and fixed noise."""

    shares_memory = True

    def __init__(self, noise: FloatArray, path_only: bool) -> None:
        self.noise = noise
        self.path_only = path_only

    def values(self, _wanted: tuple[bool, ...], parameters: Tensor) -> tuple[Tensor, Tensor]:
        """The lengths and the log-density of each tree's."""
        self.parameters = parameters.detach().contiguous()
        self.lengths, log_densities = np.empty_like(self.noise), np.empty(len(self.noise))
        sample_lognormal(self.parameters.numpy(), LOCATION_OFFSET, self.noise, self.lengths, log_densities)
        return torch.from_numpy(self.lengths), torch.from_numpy(log_densities)

    def gradients(
        self, _wanted: tuple[bool, ...], length_gradient: Tensor, density_gradient: Tensor
    ) -> tuple[Tensor, ...]:
        """The parameters' gradient."""
        gradient = torch.empty_like(self.parameters)
        sample_lognormal_backward(
            self.parameters.numpy(),
            self.noise,
            self.lengths,
            length_gradient.contiguous().numpy(),
            density_gradient.contiguous().numpy(),
            self.path_only,
            gradient.numpy(),
        )
        return (gradient,)

    def noise_gradient(self, length_gradient: Tensor, density_gradient: Tensor) -> FloatArray:
        """The gradient for the noise."""
        of_density = density_gradient.numpy()[:, None]
        scale = np.exp(self.parameters.numpy()[:, :, 1].astype(np.float64))
        return np.asarray((length_gradient.numpy() * self.lengths - of_density) * scale - of_density * self.noise)


@final
class _SampleWarped(LengthsFromNoise):
    """Lengths and log-densities from parameters and fixed noise."""

    shares_memory = True

    def __init__(self, topologies: TopologyBatch, noise: FloatArray, path_only: bool) -> None:
        self.neighbors = topologies.neighbors
        self.noise = noise
        self.path_only = path_only

    def values(self, _wanted: tuple[bool, ...], parameters: Tensor) -> tuple[Tensor, Tensor]:
        """The lengths and the log-density of each tree's."""
        array = parameters.detach().contiguous().numpy()
        self.kind = parameters.dtype
        self.lengths, log_densities = np.empty_like(self.noise), np.empty(len(self.noise))
        self.kept, self.coefficients = np.empty((*self.noise.shape, KEPT)), np.empty((*self.noise.shape, 2))
        sample_warped(
            array,
            LOCATION_OFFSET,
            self.neighbors,
            self.noise,
            self.lengths,
            log_densities,
            self.kept,
            self.coefficients,
        )
        return torch.from_numpy(self.lengths), torch.from_numpy(log_densities)

    def gradients(
        self, _wanted: tuple[bool, ...], length_gradient: Tensor, density_gradient: Tensor
    ) -> tuple[Tensor, ...]:
        """The parameters' gradient."""
        gradient = torch.empty((*self.noise.shape, Warped.parameters_per_branch), dtype=self.kind)
        sample_warped_backward(
            self.neighbors,
            self.noise,
            self.lengths,
            self.kept,
            self.coefficients,
            length_gradient.contiguous().numpy(),
            density_gradient.contiguous().numpy(),
            self.path_only,
            gradient.numpy(),
        )
        return (gradient,)

    def noise_gradient(self, length_gradient: Tensor, density_gradient: Tensor) -> FloatArray:
        """The gradient for the noise."""
        gradient = np.empty_like(self.noise)
        warped_noise_gradient(
            self.neighbors,
            self.noise,
            self.lengths,
            self.kept,
            self.coefficients,
            length_gradient.contiguous().numpy(),
            density_gradient.contiguous().numpy(),
            gradient,
        )
        return gradient
