"""p(Y given τ) of every topology of a few taxa: branch lengths integrated out by a long importance sampler.

For each topology the posterior of the log-lengths is maximised and its curvature taken there; a multivariate t with
that centre and shape proposes lengths. Likelihoods are a plain loop over nodes, gradients torch's: nothing is shared
with the sources but the topologies' parents.
"""

import math

import numpy as np
import torch
from torch import Tensor

from phloem.data.patterns import SitePatterns
from phloem.trees.topology import TopologyBatch

PRIOR_RATE = 10.0
FREEDOM = 2.0  # degrees of freedom of the proposal: lengths near zero need tails as heavy as these


def log_joint_of_log_lengths(parent: list[int], log_lengths: Tensor, patterns: SitePatterns) -> Tensor:
    """log p(Y given τ, q) + log p(q) + log |dq / d log q| for many sets of lengths (samples, branches), (samples,)."""
    tips = torch.from_numpy(patterns.tip_partials)  # (taxa, patterns, 4)
    lengths = log_lengths.exp()
    stay = torch.exp(-4 / 3 * lengths)
    inside: dict[int, Tensor] = {}
    for node in range(len(parent) - 1):
        below = tips[node] if node < len(tips) else inside[node]
        change = ((1 - stay[:, node]) / 4)[:, None, None]
        message = change * below.sum(-1, keepdim=True) + stay[:, node, None, None] * below
        inside[parent[node]] = inside.get(parent[node], 1.0) * message
    sites = torch.log(inside[len(parent) - 1].sum(-1) / 4)  # (samples, patterns)
    log_likelihood = sites @ torch.from_numpy(patterns.counts.astype(np.float64))
    return log_likelihood + (math.log(PRIOR_RATE) - PRIOR_RATE * lengths + log_lengths).sum(-1)


def log_marginal(parent: list[int], patterns: SitePatterns, samples: int) -> tuple[float, float]:
    """log ∫ p(Y given τ, q) p(q) dq with its standard error."""
    branches = len(parent) - 1
    center = torch.full((1, branches), -2.5, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([center], max_iter=200, tolerance_grad=1e-6, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = -log_joint_of_log_lengths(parent, center, patterns)[0]
        value.backward()
        return value

    optimizer.step(loss)
    middle = center.detach()[0]
    curvature = torch.autograd.functional.hessian(
        lambda point: -log_joint_of_log_lengths(parent, point[None], patterns)[0], middle
    )
    values, vectors = torch.linalg.eigh(curvature)
    shape = vectors * values.clamp(min=0.05).rsqrt()  # shape @ shape.T is the covariance
    normal = torch.randn(samples, branches, dtype=torch.float64)
    chi_square = torch.distributions.Chi2(torch.tensor(FREEDOM, dtype=torch.float64)).sample((samples,))
    spread = normal * torch.rsqrt(chi_square / FREEDOM)[:, None]
    log_density = (
        math.lgamma((FREEDOM + branches) / 2)
        - math.lgamma(FREEDOM / 2)
        - branches / 2 * math.log(FREEDOM * math.pi)
        - shape.slogdet().logabsdet
        - (FREEDOM + branches) / 2 * torch.log1p((spread**2).sum(1) / FREEDOM)
    )
    log_weights = log_joint_of_log_lengths(parent, middle + spread @ shape.T, patterns) - log_density
    log_mean = torch.logsumexp(log_weights, 0) - math.log(samples)
    relative = torch.exp(log_weights - log_mean)
    return log_mean.item(), (relative.std() / math.sqrt(samples)).item()


def exact_posterior(
    topologies: TopologyBatch, patterns: SitePatterns, samples: int, seed: int
) -> tuple[np.ndarray, float, float]:
    """Probabilities of all topologies, the log marginal likelihood, and its standard error.

    A first look at all of them takes a few of the samples; those of some weight then get their own.
    """
    torch.manual_seed(seed)
    rows = [row.tolist() for row in topologies.parent]
    logs, errors = np.array([log_marginal(row, patterns, samples // 30) for row in rows]).T
    for place in np.nonzero(logs > logs.max() + math.log(0.002))[0]:
        logs[place], errors[place] = log_marginal(rows[place], patterns, samples)
    total = np.logaddexp.reduce(logs)
    probabilities = np.exp(logs - total)
    return probabilities, total - math.log(len(logs)), float(np.sqrt(((probabilities * errors) ** 2).sum()))
