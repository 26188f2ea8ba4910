"""Gradient estimators: from the log weights of K particles to something whose gradient training follows upwards.

A particle is a topology and its branch lengths, drawn from Q; its log weight is log p(Y, τ, q) - log Q(τ) -
log Q(q given τ). Branch lengths are reparameterised, so log weights carry the gradient for their model. Topologies are
discrete: their gradient needs log Q(τ) times a signal of how good each was.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from phloem.errors import BadArgument


class Estimate(NamedTuple):
    """The lower bound of K particles, and a number whose gradient is, in expectation, that of the objective."""

    lower_bound: Tensor  # scalar, without gradient
    surrogate: Tensor  # scalar: its value means nothing, its gradient is to be followed upwards


def lower_bound(log_weights: Tensor) -> Tensor:
    """log (1/K) Σ_i w_i over the last axis: K particles' bound of the log marginal likelihood."""
    return torch.logsumexp(log_weights, -1) - math.log(log_weights.shape[-1])


def vimco(log_joint: Tensor, log_q_topology: Tensor, log_q_branches: Tensor) -> Estimate:
    """VIMCO (Mnih & Rezende 2016): the exact gradient of the K-particle bound, in expectation.

    A topology's signal is how much the bound owes to its particle: the bound minus what it would be with the geometric
    mean of the others' weights in its place, which does not depend on it.
    """
    _check(log_joint, log_q_topology, log_q_branches, fewest=2)
    log_weights = log_joint - log_q_topology - log_q_branches
    bound = lower_bound(log_weights)
    with torch.no_grad():
        signal = bound - leave_one_out_bounds(log_weights)
    return Estimate(bound.detach(), bound + (signal * log_q_topology).sum())


def rws(log_joint: Tensor, log_q_topology: Tensor, log_q_branches: Tensor) -> Estimate:
    """Reweighted wake-sleep (Bornschein & Bengio 2015): topologies follow their normalised weights, towards KL(p ‖ Q).

    Branch lengths follow the bound, as in VIMCO.
    """
    _check(log_joint, log_q_topology, log_q_branches, fewest=1)
    log_weights = log_joint - log_q_topology.detach() - log_q_branches
    bound = lower_bound(log_weights)
    signal = torch.softmax(log_weights.detach(), -1)
    return Estimate(bound.detach(), bound + (signal * log_q_topology).sum())


Estimator = Callable[[Tensor, Tensor, Tensor], Estimate]
ESTIMATORS: dict[str, Estimator] = {"vimco": vimco, "rws": rws}


def leave_one_out_bounds(log_weights: Tensor) -> Tensor:
    """For each of K particles the bound with the geometric mean of the others' weights in place of its own, (K,)."""
    count = len(log_weights)
    means = (log_weights.sum() - log_weights) / (count - 1)
    replaced = log_weights.expand(count, count).clone()
    replaced.fill_diagonal_(0)
    return lower_bound(replaced + torch.diag(means))


def _check(*parts: Tensor, fewest: int) -> None:
    if any(part.ndim != 1 or part.shape != parts[0].shape for part in parts):
        raise BadArgument(f"estimator: shapes {[tuple(part.shape) for part in parts]}, where (particles,) is needed.")
    if len(parts[0]) < fewest:
        raise BadArgument(f"estimator: {len(parts[0])} particles, where at least {fewest} are needed.")
