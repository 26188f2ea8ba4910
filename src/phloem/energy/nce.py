"""Noise contrastive estimation (Gutmann & Hyvärinen 2012): a density from telling data and noise apart.

With D(τ) = log q(τ) - log p_noise(τ) - log ν, S the logistic function and ν noise trees for each tree of the data,
J = -E_data log S(D) - ν · E_noise log(1 - S(D)). It is least where q is the data's distribution, normalised.
"""

import math
from typing import NamedTuple

import numpy as np

from phloem.kernels.arrays import FloatArray


class Contrast(NamedTuple):
    """The loss, and its gradient for every log q(τ)."""

    loss: float
    gradient: FloatArray  # (trees,)


def contrast(
    log_model: FloatArray, log_noise: FloatArray, data: FloatArray, noise: FloatArray, ratio: float = 1.0
) -> Contrast:
    """J over some trees, (trees,) each.

    data, noise: the share of the data and of the noise that each tree has: those of a batch, or probabilities for the
    expected loss. log_noise: the noise's log-probability of it. ratio: ν.
    """
    with np.errstate(invalid="ignore"):
        difference = log_model - log_noise - math.log(ratio)
        of_data, of_noise = data * np.logaddexp(0, -difference), ratio * noise * np.logaddexp(0, difference)
        down, up = data * _logistic(-difference), ratio * noise * _logistic(difference)
    # What has no share has no loss, also where the logarithms are infinite: such a tree has 0 · ∞.
    losses = np.where(data > 0, of_data, 0.0) + np.where(noise > 0, of_noise, 0.0)
    return Contrast(float(losses.sum()), np.where(noise > 0, up, 0.0) - np.where(data > 0, down, 0.0))


def best_loss(data: FloatArray, noise: FloatArray, ratio: float = 1.0) -> float:
    """J*, from the probabilities of all trees, (trees,): no model has a lower expected loss.

    With a = 1/(1+ν) and the mixture m = a·data + (1-a)·noise, J* = (1+ν)·(H(a) - a·KL(data‖m) - (1-a)·KL(noise‖m)),
    where H is the entropy of a coin; for ν = 1 this is 2·log 2 - 2·JSD(data ‖ noise).
    """
    share = 1 / (1 + ratio)
    mixture = share * data + (1 - share) * noise
    entropy = -share * math.log(share) - (1 - share) * math.log1p(-share)
    apart = share * divergence(data, mixture) + (1 - share) * divergence(noise, mixture)
    return (1 + ratio) * (entropy - apart)


def divergence(of: FloatArray, towards: FloatArray) -> float:
    """Kullback–Leibler, Σ p·log(p/q), from probabilities; infinite where q has none of what p has."""
    seen = of > 0
    with np.errstate(divide="ignore"):
        return float(of[seen] @ np.log(of[seen] / towards[seen]))


def _logistic(x: FloatArray) -> FloatArray:
    small = np.exp(-np.abs(x))
    values: FloatArray = np.where(x >= 0, 1.0, small) / (1 + small)
    return values
