"""Diagnostics of importance weights, and Pareto smoothing.

Vehtari, Simpson, Gelman, Yao & Gabry (2024): a generalised Pareto distribution is fitted to the largest weights. Its
shape k̂ says how far they can be trusted; replacing them by its quantiles reduces their noise.
"""

import math
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.errors import BadArgument

FEWEST_IN_TAIL = 5
PRIOR_SHAPE, PRIOR_DRAWS = 0.5, 10  # a weak prior on the shape, worth 10 draws
PRIOR_SCALE = 3  # of the grid for the profile likelihood (Zhang & Stephens 2009)


class Tail(NamedTuple):
    """The largest weights, relative to the very largest, as `cutoff` plus generalised Pareto (`shape`, `scale`)."""

    cutoff: float
    size: int  # weights above the cutoff
    shape: float
    scale: float


def effective_sample_size(log_weights: FloatArray) -> float:
    """(Σw)² / Σw²: the number of independent draws from the posterior itself that would be as good."""
    weights = _relative(log_weights)
    return float(weights.sum() ** 2 / (weights**2).sum())


def log_mean_error(log_weights: FloatArray) -> float:
    """The standard error of log (1/S) Σw, to first order."""
    return math.sqrt(max(0.0, 1 / effective_sample_size(log_weights) - 1 / len(log_weights)))


def pareto_shape(log_weights: FloatArray) -> float | None:
    """k̂, the shape of the weights' upper tail; None if there are too few draws to tell.

    Below 0.5 the weights have a finite variance; up to about 0.7 their sums are still reliable at practical sample
    sizes; from 1 on they have no finite mean. If all weights are equal it is 0.
    """
    if len(log_weights) > FEWEST_IN_TAIL and log_weights.min() == log_weights.max():
        return 0.0
    tail = fit_tail(log_weights)
    return None if tail is None else tail.shape


def unseen_share(log_weights: FloatArray) -> float | None:
    """The weight of draws heavier than any, as the fitted tail expects them, as a share of all; None as for the shape.

    An infinite variance matters as far as there are such draws to come: where weights are even but for a few, hardly.
    """
    weights = _relative(log_weights)
    if len(weights) > FEWEST_IN_TAIL and weights.min() == weights.max():
        return 0.0
    tail = fit_tail(log_weights)
    if tail is None:
        return None
    if tail.shape >= 1:
        return math.inf
    above = 1 - tail.cutoff  # from the cutoff to the largest weight, which is 1
    reach = tail.shape * above / tail.scale
    if reach <= -1:  # the tail ends before it
        return 0.0
    exceeding = math.exp(-above / tail.scale) if tail.shape == 0 else (1 + reach) ** (-1 / tail.shape)
    mean = 1 + (tail.scale + tail.shape * above) / (1 - tail.shape)  # of those that exceed it
    return tail.size * exceeding * mean / float(weights.sum())


def smooth(log_weights: FloatArray) -> FloatArray:
    """The weights with those of the tail replaced by the expected order statistics of the fitted tail.

    No weight becomes larger than the largest was. Without a tail to fit, the weights are unchanged.
    """
    tail = fit_tail(log_weights)
    if tail is None:
        return log_weights
    largest = np.argsort(log_weights, kind="stable")[-tail.size :]
    levels = (np.arange(tail.size) + 0.5) / tail.size
    heights = -np.log1p(-levels)  # quantiles of the exponential, which is the case of shape 0
    if tail.shape:
        heights = np.expm1(tail.shape * heights) / tail.shape
    weights = tail.cutoff + tail.scale * heights
    smoothed = log_weights.copy()
    smoothed[largest] = log_weights.max() + np.log(np.minimum(weights, 1.0))
    return smoothed


def fit_tail(log_weights: FloatArray) -> Tail | None:
    """The tail fitted to the largest fifth of the weights, or to 3√S of them if that is less; None for too few."""
    weights = np.sort(_relative(log_weights))
    size = math.ceil(min(0.2 * len(weights), 3 * math.sqrt(len(weights))))
    if size >= len(weights) - 1:
        return None
    cutoff = max(float(weights[-size - 1]), float(np.finfo(float).tiny))
    excesses = weights[weights > cutoff] - cutoff
    size = len(excesses)
    if size < FEWEST_IN_TAIL:
        return None
    shape, scale = _fit(excesses)
    return Tail(cutoff, size, (size * shape + PRIOR_DRAWS * PRIOR_SHAPE) / (size + PRIOR_DRAWS), scale)


def _fit(excesses: FloatArray) -> tuple[float, float]:
    """Shape k and scale σ of a generalised Pareto distribution, from sorted values above 0 (Zhang & Stephens 2009).

    With b = -k/σ the profile likelihood of b is known, k being mean log(1 - b·x). The estimate of b is its posterior
    mean over a grid of quantiles of a prior that the data scale.
    """
    size = len(excesses)
    points = 30 + math.isqrt(size)
    quantiles = 1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    first_quartile = excesses[math.floor(size / 4 + 0.5) - 1]
    grid = 1 / excesses[-1] + quantiles / (PRIOR_SCALE * first_quartile)
    shapes = np.log1p(-grid[:, None] * excesses).mean(axis=1)
    # 1/σ = -b/k, or its limit if b is 0, which happens with draws of only a few distinct values.
    rates = np.divide(-grid, shapes, out=np.full(points, 1 / excesses.mean()), where=shapes != 0)
    log_likelihoods = size * (np.log(rates) - shapes - 1)
    weights = _relative(log_likelihoods)
    best = float(grid @ weights / weights.sum())
    shape = float(np.log1p(-best * excesses).mean())
    return shape, -shape / best


def _relative(logarithms: FloatArray) -> FloatArray:
    """Weights as shares of the largest."""
    if not len(logarithms) or not math.isfinite(logarithms.max()):
        raise BadArgument("weights: at least one must be finite and above 0.")
    return np.asarray(np.exp(logarithms - logarithms.max()))
