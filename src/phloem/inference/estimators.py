"""Gradient estimators: from the log weights of K particles to how far each particle's logarithms are to be pushed up.

A particle is a topology and its branch lengths, drawn from Q; its log weight is log p(Y, τ, q) - log Q(τ) -
log Q(q given τ). Branch lengths are reparameterised, so the first and the last term carry the gradient of their model.
Topologies are discrete: their gradient is that of log Q(τ) times a signal of how good each was.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray
from phloem.kernels.bounds import leave_one_out_bounds, log_mean_exp


class Estimate(NamedTuple):
    """The lower bound of K particles and, for each particle, the factors of its gradients.

    The gradient to be followed upwards is Σ_i log_joint_i · ∇log p(Y, τ_i, q_i) + log_q_topology_i · ∇log Q(τ_i) +
    log_q_branches_i · ∇log Q(q_i given τ_i).
    """

    lower_bound: float
    log_joint: FloatArray  # (particles,)
    log_q_topology: FloatArray  # (particles,)
    log_q_branches: FloatArray  # (particles,)


def lower_bound(log_weights: FloatArray) -> FloatArray:
    """log (1/K) Σ_i w_i over the last axis: K particles' bound of the log marginal likelihood."""
    greatest = log_weights.max(axis=-1, keepdims=True)
    shift = np.where(np.isfinite(greatest), greatest, 0.0)  # where all weights are zero, so is their mean
    with np.errstate(divide="ignore"):
        log_sums = np.log(np.exp(log_weights - shift).sum(axis=-1))
    result: FloatArray = log_sums + shift[..., 0] - math.log(log_weights.shape[-1])
    return result


def vimco(log_weights: FloatArray) -> Estimate:
    """VIMCO (Mnih & Rezende 2016): the exact gradient of the K-particle bound, in expectation.

    A topology's signal is how much the bound owes to its particle: the bound minus what it would be with the geometric
    mean of the others' weights in its place, which does not depend on it.
    """
    bound, shares = _bound_and_shares(log_weights, fewest=2)
    baselines = leave_one_out_bounds(log_weights)
    signal = np.zeros_like(baselines)  # a particle beside none but impossible ones has nothing to be compared with
    np.subtract(bound, baselines, out=signal, where=baselines > -math.inf)
    return Estimate(bound, shares, signal - shares, -shares)


def rws(log_weights: FloatArray) -> Estimate:
    """Reweighted wake-sleep (Bornschein & Bengio 2015): topologies follow their normalised weights, towards KL(p ‖ Q).

    Branch lengths follow the bound, as in VIMCO.
    """
    bound, shares = _bound_and_shares(log_weights, fewest=1)
    return Estimate(bound, shares, shares, -shares)


def doubly_reparameterized(estimate: Estimate) -> Estimate:
    """The same expectation for branch lengths with less noise (Tucker et al. 2019), where log Q's path alone counts.

    Σ_i s_i ∇log w_i has a part in which the lengths stand still and only the density moves. Reparameterising that part
    as well turns it into one through the lengths, and both together become Σ_i s_i² ∇log w_i through the lengths alone,
    which vanishes as Q becomes the posterior. Topologies are as before.
    """
    squares = estimate.log_joint**2
    return estimate._replace(log_joint=squares, log_q_branches=-squares)


Estimator = Callable[[FloatArray], Estimate]
ESTIMATORS: dict[str, Estimator] = {"vimco": vimco, "rws": rws}


def _bound_and_shares(log_weights: FloatArray, fewest: int) -> tuple[float, FloatArray]:
    """The bound, and its derivatives by the log weights: the normalised weights."""
    if log_weights.ndim != 1 or len(log_weights) < fewest:
        raise BadArgument(
            f"estimator: log weights of shape {log_weights.shape}, where at least {fewest} particles are needed."
        )
    bound = log_mean_exp(log_weights)
    if bound == -math.inf:  # no particle is possible, and none is better than another
        return bound, np.zeros_like(log_weights)
    return bound, np.exp(log_weights - bound) / len(log_weights)
