"""Particles, which are trees drawn from Q and weighted against the target; and gradient estimators.

A particle is a topology with its branch lengths and, where some are inferred, parameters θ of the substitution model,
drawn from Q; its log weight is log p(Y, τ, q, θ) - log Q(τ) - log Q(θ) - log Q(q given τ, θ). Lengths and θ are
reparameterised, so all but the second term carry the gradients of what they come from. Topologies are discrete: their
gradient is that of log Q(τ) times a signal of how good each was.

An estimator gets K log weights and returns the lower bound and, for each particle, how strongly to push its log p and
log Q. Training multiplies the gradients by these factors.
"""

import math
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from torch import Tensor

from phloem.arrays import FloatArray
from phloem.autograd import plain_values
from phloem.errors import BadArgument, TaxonMismatch
from phloem.kernels.training import leave_one_out_bounds, log_mean_exp
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.trees.topology import TopologyBatch
from phloem.variational.joint import JointModel, TreeDraw

NAME_BYTES = 6  # of a topology's name, which a float can hold


class Particles(NamedTuple):
    """Trees from Q and the parts of their weights; logarithms are (particles,)."""

    topologies: TopologyBatch
    lengths: Tensor  # (particles, 2n-3)
    log_joint: Tensor  # log p(Y, τ, q, θ), with a tempered likelihood
    log_q_topology: Tensor
    log_q_branches: Tensor  # log Q(q, θ given τ)
    theta: Tensor  # (particles, dimension)

    @classmethod
    def of(cls, draw: TreeDraw, log_joint: Tensor) -> "Particles":
        """What was drawn, with its joint density."""
        log_q = draw.log_q_branches + draw.log_q_theta
        return cls(draw.topologies, draw.lengths, log_joint, draw.log_q_topology, log_q, draw.theta)

    def log_weights(self) -> FloatArray:
        """log p(Y, τ, q, θ) - log Q(τ, q, θ), (particles,), without gradients."""
        log_joint, *log_q = map(plain_values, (self.log_joint, self.log_q_topology, self.log_q_branches))
        weights: FloatArray = log_joint - log_q[0] - log_q[1]
        return weights


def check_same_taxa(model: JointModel, target: TreePosterior) -> None:
    """Raise unless model and target have the same taxa in the same order, and as many parameters to infer."""
    if model.dimension != target.dimension:
        raise BadArgument(
            f"Q has {model.dimension} coordinates of model parameters, the target {target.dimension}. "
            "Make Q with a `ParameterModel` of the target's dimension."
        )
    if model.network.support.taxa != target.likelihood.patterns.taxa:
        raise TaxonMismatch(
            "the support and the alignment differ in their taxa or in the order of them. "
            "Read the trees with taxa=alignment.taxa."
        )


def draw_particles(
    model: JointModel,
    target: TreePosterior,
    count: int,
    *,
    stream: RandomStream,
    inverse_temperature: float = 1.0,
    path_only: bool = False,
) -> Particles:
    """Draw trees from Q and weight them; particle i uses the random numbers of the stream's i-th particle.

    path_only: the gradient of log_q_branches flows through the lengths alone.
    """
    draw = model.draw(count, stream=stream, path_only=path_only)
    theta = draw.theta if target.dimension else None
    return Particles.of(draw, target.log_joint(draw.topologies, draw.lengths, inverse_temperature, theta=theta))


class Estimate(NamedTuple):
    """The lower bound of K particles and the factors of each particle's gradients.

    The ascent direction is Σ_i log_joint_i · ∇log p(Y, τ_i, q_i) + log_q_topology_i · ∇log Q(τ_i) +
    log_q_branches_i · ∇log Q(q_i given τ_i).
    """

    lower_bound: float
    log_joint: FloatArray  # (particles,)
    log_q_topology: FloatArray  # (particles,)
    log_q_branches: FloatArray  # (particles,)


def lower_bound(log_weights: FloatArray) -> FloatArray:
    """log (1/K) Σ_i w_i over the last axis: the K-particle lower bound of the log marginal likelihood."""
    greatest = log_weights.max(axis=-1, keepdims=True)
    shift = np.where(np.isfinite(greatest), greatest, 0.0)  # if all weights are zero, so is their mean
    with np.errstate(divide="ignore"):
        log_sums = np.log(np.exp(log_weights - shift).sum(axis=-1))
    result: FloatArray = log_sums + shift[..., 0] - math.log(log_weights.shape[-1])
    return result


def vimco(log_weights: FloatArray) -> Estimate:
    """VIMCO (Mnih & Rezende 2016): an unbiased gradient of the K-particle bound.

    A topology's learning signal is its particle's contribution: the bound minus the bound with its weight replaced by
    the geometric mean of the others, which does not depend on it.
    """
    bound, shares = _bound_and_shares(log_weights, fewest=2)
    baselines = leave_one_out_bounds(log_weights)
    signal = np.zeros_like(baselines)  # zero if all other particles are impossible, so there is no baseline
    np.subtract(bound, baselines, out=signal, where=baselines > -math.inf)
    return Estimate(bound, shares, signal - shares, -shares)


def rws(log_weights: FloatArray) -> Estimate:
    """Reweighted wake-sleep (Bornschein & Bengio 2015): topologies follow their normalised weights, towards KL(p ‖ Q).

    Branch lengths follow the bound, as in VIMCO.
    """
    bound, shares = _bound_and_shares(log_weights, fewest=1)
    return Estimate(bound, shares, shares, -shares)


def doubly_reparameterized(estimate: Estimate) -> Estimate:
    """The same expected gradient for branch lengths with less noise (Tucker et al. 2019); needs `path_only` particles.

    Σ_i s_i ∇log w_i has a term in which the lengths are fixed and only the density moves. Reparameterising that term
    too makes it one through the lengths, and the sum becomes Σ_i s_i² ∇log w_i through the lengths alone, which
    vanishes as Q approaches the posterior. Topologies are unaffected.
    """
    squares = estimate.log_joint**2
    return estimate._replace(log_joint=squares, log_q_branches=-squares)


def of_held_topologies(estimate: Estimate, log_weights: FloatArray, names: FloatArray, *, doubly: bool) -> Estimate:
    """For branch lengths where Q(τ) is held: every topology has a bound of its own, of the particles that it has.

    The bound of all particles together hardly feels a topology with poor lengths, as another makes up for it. One that
    only its lengths make improbable would never get better ones, and the fit of Q(τ) in the end would give it up.

    names: numbers that are equal for equal topologies. doubly: the reparameterised form that `doubly_reparameterized`
    describes.
    """
    _, group, counts = np.unique(names, return_inverse=True, return_counts=True)
    largest = np.full(len(counts), -np.inf)
    np.maximum.at(largest, group, log_weights)
    weights = np.exp(log_weights - np.where(largest > -np.inf, largest, 0.0)[group])
    totals = np.bincount(group, weights)
    shares = weights / np.where(totals > 0, totals, 1.0)[group]
    factors = counts[group] / len(group) * (shares**2 if doubly else shares)
    return estimate._replace(log_joint=factors, log_q_branches=-factors)


def topology_names(topologies: TopologyBatch) -> FloatArray:
    """A number for each topology, (batch,), the same in every process; others have others, but for one pair in 10¹⁴."""
    digests = (blake2b(row.tobytes(), digest_size=NAME_BYTES).digest() for row in topologies.parent)
    return np.array([float(int.from_bytes(digest, "little")) for digest in digests])


Estimator = Callable[[FloatArray], Estimate]
ESTIMATORS: dict[str, Estimator] = {"vimco": vimco, "rws": rws}


def _bound_and_shares(log_weights: FloatArray, fewest: int) -> tuple[float, FloatArray]:
    """The bound, and its derivatives with respect to the log weights: the normalised weights."""
    if log_weights.ndim != 1 or len(log_weights) < fewest:
        raise BadArgument(
            f"estimator: log weights of shape {log_weights.shape}. Give those of at least {fewest} particles."
        )
    bound = log_mean_exp(log_weights)
    if bound == -math.inf:  # all particles are impossible, so none is better than another
        return bound, np.zeros_like(log_weights)
    return bound, np.exp(log_weights - bound) / len(log_weights)
