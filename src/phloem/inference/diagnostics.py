"""How good importance weights are: the effective sample size, and the shape of the weights' upper tail."""

import math

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray

FEWEST_IN_TAIL = 5
PRIOR_SHAPE, PRIOR_DRAWS = 0.5, 10  # a weak prior on the shape, worth so many draws (Vehtari et al. 2024)
PRIOR_SCALE = 3  # of the grid for the profile likelihood (Zhang & Stephens 2009)


def effective_sample_size(log_weights: FloatArray) -> float:
    """(Σw)² / Σw²: how many independent draws of the posterior itself would be worth as much."""
    weights = _relative(log_weights)
    return float(weights.sum() ** 2 / (weights**2).sum())


def log_mean_error(log_weights: FloatArray) -> float:
    """The standard error of log (1/S) Σw, to first order."""
    return math.sqrt(max(0.0, 1 / effective_sample_size(log_weights) - 1 / len(log_weights)))


def pareto_shape(log_weights: FloatArray) -> float | None:
    """k̂, the shape of a generalised Pareto distribution fitted to the largest weights; None for too few draws.

    Below 0.5 the weights have a variance; up to about 0.7 sums of them are still reliable at practical sample sizes;
    from 1 on they would not even have a mean (Vehtari, Simpson, Gelman, Yao & Gabry 2024).
    """
    weights = np.sort(_relative(log_weights))
    count = len(weights)
    tail_size = math.ceil(min(0.2 * count, 3 * math.sqrt(count)))
    if count - 1 <= tail_size:
        return None
    cutoff = max(weights[-tail_size - 1], np.finfo(float).tiny)
    excesses = weights[weights > cutoff] - cutoff
    if weights[0] == weights[-1]:  # all alike: no tail at all
        return 0.0
    if len(excesses) < FEWEST_IN_TAIL:
        return None
    shape = _fit_shape(excesses)
    size = len(excesses)
    return (size * shape + PRIOR_DRAWS * PRIOR_SHAPE) / (size + PRIOR_DRAWS)


def _fit_shape(excesses: FloatArray) -> float:
    """The shape k of a generalised Pareto distribution, from sorted values above 0 (Zhang & Stephens 2009).

    With b = -k/σ the profile likelihood of b is known, k being mean log(1 - b·x). The estimate of b is its posterior
    mean over a grid of quantiles of a prior that the data scale.
    """
    size = len(excesses)
    points = 30 + math.isqrt(size)
    quantiles = 1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    first_quartile = excesses[math.floor(size / 4 + 0.5) - 1]
    grid = 1 / excesses[-1] + quantiles / (PRIOR_SCALE * first_quartile)
    shapes = np.log1p(-grid[:, None] * excesses).mean(axis=1)
    log_likelihoods = size * (np.log(-grid / shapes) - shapes - 1)
    weights = _relative(log_likelihoods)
    best = float(grid @ weights / weights.sum())
    return float(np.log1p(-best * excesses).mean())


def _relative(logarithms: FloatArray) -> FloatArray:
    """Weights as shares of the largest."""
    if not len(logarithms) or not math.isfinite(logarithms.max()):
        raise BadArgument("weights: at least one must be a finite number above 0.")
    return np.asarray(np.exp(logarithms - logarithms.max()))
