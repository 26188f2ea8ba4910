"""Distributions of a tree's branch lengths: what every family offers, and the diagonal lognormal."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import FloatArray
from phloem.autograd import refuse_second_derivatives
from phloem.errors import BadArgument
from phloem.kernels.philox import fill_normal_rows
from phloem.kernels.variational.branches import HALF_LOG_TWO_PI, sample_lognormal, sample_lognormal_backward
from phloem.random_streams import RandomStream

# Where a model's numbers are zero, as they are at first, lengths have a median of exp(-2) = 0.14: a sensible size.
LOCATION_OFFSET = -2.0


class BranchSample(NamedTuple):
    """Sampled lengths and their log-density, differentiable in what they were drawn from."""

    lengths: Tensor  # (batch, 2n-3)
    log_prob: Tensor  # (batch,)


class BranchDistribution(ABC):
    """Q(q given τ) for a batch of topologies: a density over the lengths of all branches of each.

    A family is such a class. It is made from the numbers that a branch model gives every branch, (batch, branches,
    `numbers_per_branch`), all zero for a sensible beginning.
    """

    numbers_per_branch: ClassVar[int]

    @abstractmethod
    def __init__(self, numbers: Tensor) -> None:
        """From the branch model's numbers."""

    @abstractmethod
    def sample(self, *, stream: RandomStream, path_only: bool = False) -> BranchSample:
        """One set of lengths a tree, reparameterised; tree i has the random numbers of the stream's i-th particle.

        path_only: the log-density's gradient flows through the lengths alone, as if the numbers stood still.
        """

    @abstractmethod
    def log_prob(self, lengths: Tensor) -> Tensor:
        """Log-density of given lengths (batch, branches), (batch,)."""


@final
class Lognormal(BranchDistribution):
    """Independent lognormals: log q = μ - 2 + σ·ε with ε standard normal; a branch's numbers are μ and log σ."""

    numbers_per_branch = 2

    def __init__(self, numbers: Tensor) -> None:
        if numbers.ndim != 3 or numbers.shape[2] != self.numbers_per_branch:
            raise BadArgument(
                f"lognormal: numbers of shape {tuple(numbers.shape)}, where (batch, branches, 2) is needed."
            )
        self._numbers = numbers

    @property
    def location(self) -> Tensor:
        """Mean of log q, (batch, branches)."""
        return self._numbers[:, :, 0].to(torch.float64) + LOCATION_OFFSET

    @property
    def log_scale(self) -> Tensor:
        """Logarithm of the standard deviation of log q, (batch, branches)."""
        return self._numbers[:, :, 1].to(torch.float64)

    def sample(self, *, stream: RandomStream, path_only: bool = False) -> BranchSample:
        """One set of lengths a tree, reparameterised."""
        noise = np.empty(self._numbers.shape[:2])
        fill_normal_rows(stream.key(), stream.particle, stream.step, noise)
        return BranchSample(*_SampleLognormal.apply(self._numbers, noise, path_only))

    def log_prob(self, lengths: Tensor) -> Tensor:
        """Log-density of given lengths, (batch,); -inf where one is not positive."""
        if lengths.shape != self._numbers.shape[:2]:
            raise BadArgument(
                f"lognormal: lengths of shape {tuple(lengths.shape)} for {tuple(self._numbers.shape[:2])} branches."
            )
        positive = lengths > 0
        log_lengths = torch.where(positive, lengths, 1).log()
        deviation = (log_lengths - self.location) * torch.exp(-self.log_scale)
        log_densities = -(log_lengths + self.log_scale + 0.5 * deviation**2 + HALF_LOG_TWO_PI).sum(dim=1)
        return torch.where(positive.all(dim=1), log_densities, -torch.inf)


class _SampleLognormal(torch.autograd.Function):
    """(lengths, log-densities) from the numbers and fixed noise."""

    @staticmethod
    def forward(ctx: Any, numbers: Tensor, noise: FloatArray, path_only: bool) -> tuple[Tensor, Tensor]:
        numbers = numbers.detach().contiguous()
        lengths, log_densities = np.empty_like(noise), np.empty(len(noise))
        sample_lognormal(numbers.numpy(), LOCATION_OFFSET, noise, lengths, log_densities)
        ctx.saved = numbers, noise, lengths, path_only
        return torch.from_numpy(lengths), torch.from_numpy(log_densities)

    @staticmethod
    def backward(ctx: Any, length_gradient: Tensor, density_gradient: Tensor) -> tuple[Tensor, None, None]:
        refuse_second_derivatives()
        numbers, noise, lengths, path_only = ctx.saved
        gradient = torch.empty_like(numbers)
        sample_lognormal_backward(
            numbers.numpy(),
            noise,
            lengths,
            length_gradient.contiguous().numpy(),
            density_gradient.contiguous().numpy(),
            path_only,
            gradient.numpy(),
        )
        return gradient, None, None
