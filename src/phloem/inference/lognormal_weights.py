"""Lengths drawn from diagonal lognormals for fixed topologies, many trees at a time, and what their log weights say.

A log weight is log p(Y, τ, q) - log Q(q given τ); its mean is the tree's evidence lower bound. In the noise ε it is
nearly a quadratic form, since y = log q = location + scale·ε and log p(Y, τ, q) + Σ y is nearly quadratic in y.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phloem.kernels.arrays import BoolArray, FloatArray, LongArray
from phloem.kernels.lognormal import HALF_LOG_TWO_PI, LARGEST_LOG_LENGTH
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.trees.topology import TopologyBatch
from phloem.variational.lognormal import LOCATION_OFFSET, Lognormal

Rows = slice | LongArray | BoolArray
CHUNK_NODES = 50_000  # of trees weighed at a time, so that many samples take little memory


class Lognormals(NamedTuple):
    """Mean and logarithm of the standard deviation of log q, for every branch of every tree."""

    location: FloatArray  # (trees, branches)
    log_scale: FloatArray  # (trees, branches)

    @classmethod
    def of(cls, numbers: Tensor) -> "Lognormals":
        """From the numbers of a branch model, (trees, branches, 2)."""
        distribution = Lognormal(numbers.detach())
        return cls(distribution.location.numpy().copy(), distribution.log_scale.numpy().copy())

    def numbers(self) -> Tensor:
        """As a branch model would give them, (trees, branches, 2)."""
        return torch.from_numpy(np.stack([self.location - LOCATION_OFFSET, self.log_scale], axis=2))

    def rows(self, trees: Rows) -> "Lognormals":
        """Those of some trees, in arrays of their own."""
        return Lognormals(*(np.array(part[trees]) for part in self))


class Weighed(NamedTuple):
    """Log weights of sampled lengths, and how log p(Y, τ, q) + Σ log q changes with the logarithms of the lengths."""

    log_weights: FloatArray  # (samples, trees)
    gradients: FloatArray | None  # (samples, trees, branches)


class Shape(NamedTuple):
    """Mean, slope and curvature of the log weights in units of the noise, by Stein's identities: E g and E g εᵀ."""

    mean: FloatArray  # (trees,)
    slope: FloatArray  # (trees, branches)
    curvature: FloatArray  # (trees, branches, branches)  symmetric; -1 on the diagonal where the scales are the best

    def rows(self, trees: Rows) -> "Shape":
        """That of some trees, in arrays of its own."""
        return Shape(*(np.array(part[trees]) for part in self))


def samples_at_a_time(topologies: TopologyBatch) -> int:
    """How many samples of all these trees make a chunk."""
    return max(1, CHUNK_NODES // (topologies.node_count * len(topologies)))


def weigh(
    target: TreePosterior,
    topologies: TopologyBatch,
    lognormals: Lognormals,
    noise: FloatArray,
    *,
    with_gradients: bool = False,
) -> Weighed:
    """Weigh the lengths that noise (samples, trees, branches) stands for; one tree of noise serves all trees."""
    samples, shape = len(noise), (len(noise), *lognormals.location.shape)
    log_lengths = np.minimum(lognormals.location + np.exp(lognormals.log_scale) * noise, LARGEST_LOG_LENGTH)
    lengths = torch.from_numpy(np.exp(log_lengths).reshape(-1, shape[2]))
    lengths.requires_grad_(with_gradients)
    repeated = topologies[np.tile(np.arange(len(topologies)), samples)]
    log_joint = target.log_joint(repeated, lengths)
    log_density = -(log_lengths + lognormals.log_scale + 0.5 * noise**2 + HALF_LOG_TWO_PI).sum(axis=2)
    gradients = None
    if with_gradients:
        log_joint.sum().backward()
        assert lengths.grad is not None
        gradients = (lengths.grad * lengths.detach()).numpy().reshape(shape) + 1.0
    return Weighed(log_joint.detach().numpy().reshape(shape[:2]) - log_density, gradients)


def measure_shape(target: TreePosterior, topologies: TopologyBatch, lognormals: Lognormals, noise: FloatArray) -> Shape:
    """The shape of all trees' log weights from the same noise (samples, branches)."""
    trees, branches = lognormals.location.shape
    mean, slope = np.zeros(trees), np.zeros((trees, branches))
    curvature = np.zeros((trees, branches, branches))
    chunk = samples_at_a_time(topologies)
    scale = np.exp(lognormals.log_scale)
    for first in range(0, len(noise), chunk):
        part = noise[first : first + chunk]
        weighed = weigh(target, topologies, lognormals, part[:, None], with_gradients=True)
        assert weighed.gradients is not None
        scaled = weighed.gradients * scale  # (samples, trees, branches)
        mean += weighed.log_weights.sum(axis=0)
        slope += scaled.sum(axis=0)
        curvature += scaled.transpose(1, 2, 0) @ part
    curvature = (curvature + curvature.transpose(0, 2, 1)) / 2
    return Shape(mean / len(noise), slope / len(noise), curvature / len(noise))


def even_noise(pairs: int, branches: int, *, stream: RandomStream) -> FloatArray:
    """Noise (2·pairs, branches) with the mean, the covariance and the odd moments of the standard normal, exactly.

    A quadratic function of it has the exact mean, and a cubic one too. There must be more pairs than branches.
    """
    half = stream.generator().standard_normal((pairs, branches))
    factor = np.linalg.cholesky(half.T @ half / pairs)
    half = np.linalg.solve(factor, half.T).T
    return np.concatenate([half, -half])
