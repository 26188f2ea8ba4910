"""Noise contrastive estimation (Gutmann & Hyvärinen 2012): the loss, and batches of data and noise.

A density is learned by telling data from noise. With D(τ) = log q(τ) - log p_noise(τ) - log ν, S the logistic function
and ν noise trees for each tree of the data,

    J = -E_data log S(D) - ν · E_noise log(1 - S(D))

is least where q is the distribution of the data, normalised.
"""

import math
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.energy.model import FeatureCache
from phloem.energy.noise import Noise
from phloem.errors import BadArgument
from phloem.features.layers import NodeStates, TreeGraph
from phloem.random_streams import RandomStream
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch, TopologyIndex


class Contrast(NamedTuple):
    """The loss, and its gradient with respect to every log q(τ)."""

    loss: float
    gradient: FloatArray  # (trees,)


def contrast(
    log_model: FloatArray, log_noise: FloatArray, data: FloatArray, noise: FloatArray, ratio: float = 1.0
) -> Contrast:
    """The loss J with ν = `ratio` draws of the noise for each of the data; all arrays are (trees,).

    data, noise: each tree's share of the data and of the noise, in a batch or, for the expected loss, as probabilities.
    log_noise: each tree's log-probability under the noise.
    """
    with np.errstate(invalid="ignore"):
        difference = log_model - log_noise - math.log(ratio)
        of_data, of_noise = data * np.logaddexp(0, -difference), ratio * noise * np.logaddexp(0, difference)
        down, up = data * _logistic(-difference), ratio * noise * _logistic(difference)
    # A tree without a share has no loss, even if its logarithms are infinite, which would give 0 · ∞.
    losses = np.where(data > 0, of_data, 0.0) + np.where(noise > 0, of_noise, 0.0)
    return Contrast(float(losses.sum()), np.where(noise > 0, up, 0.0) - np.where(data > 0, down, 0.0))


def best_loss(data: FloatArray, noise: FloatArray, ratio: float = 1.0) -> float:
    """J*, the lowest expected loss of any model, from the probabilities of all trees, (trees,).

    With a = 1/(1+ν) and the mixture m = a·data + (1-a)·noise, J* = (1+ν)·(H(a) - a·KL(data‖m) - (1-a)·KL(noise‖m)),
    where H is the binary entropy; for ν = 1 this is 2·log 2 - 2·JSD(data ‖ noise).
    """
    share = 1 / (1 + ratio)
    mixture = share * data + (1 - share) * noise
    entropy = -share * math.log(share) - (1 - share) * math.log1p(-share)
    apart = share * divergence(data, mixture) + (1 - share) * divergence(noise, mixture)
    return (1 + ratio) * (entropy - apart)


def divergence(of: FloatArray, towards: FloatArray) -> float:
    """Kullback–Leibler divergence Σ p·log(p/q) of two vectors of probabilities; infinite if q is 0 where p is not."""
    seen = of > 0
    with np.errstate(divide="ignore"):
        return float(of[seen] @ np.log(of[seen] / towards[seen]))


def _logistic(x: FloatArray) -> FloatArray:
    small = np.exp(-np.abs(x))
    values: FloatArray = np.where(x >= 0, 1.0, small) / (1 + small)
    return values


class Batch(NamedTuple):
    """Distinct trees, with the share of the data's and of the noise's draws that each of them has."""

    states: NodeStates
    graph: TreeGraph
    topologies: TopologyBatch
    log_noise: FloatArray  # (trees,)
    data: FloatArray  # (trees,)
    noise: FloatArray  # (trees,)


class Batches:
    """Draws from a weighted sample and from noise; the n-th batch depends on the seed and on n alone."""

    def __init__(self, sample: TreeSample, noise: Noise, *, size: int, ratio: int, seed: int) -> None:
        observed = sample.distinct().normalized()
        observed = observed[observed.weights > 0]
        self._noise, self._size, self._ratio = noise, size, ratio
        log_noise = noise.log_prob(observed.topologies)
        if not np.isfinite(log_noise).all():
            raise BadArgument("noise: some trees of the data have probability zero under it. Use another noise.")
        self._cumulative = np.cumsum(observed.weights)
        self._data_stream = RandomStream(seed, "density/data")
        self._noise_stream = RandomStream(seed, "density/noise")
        if noise.listed is None:
            self._cache = FeatureCache(observed.topologies)
            self._places, self._log_noise = np.arange(len(observed)), log_noise
        else:
            self._cache = FeatureCache(noise.listed)
            self._places = TopologyIndex(noise.listed).find(observed.topologies)
            self._log_noise = np.full(len(noise.listed), -math.log(len(noise.listed)))

    def at(self, step: int) -> Batch:
        """The batch of a training step: `size` trees of the data and `ratio` times as many of the noise."""
        uniform = self._data_stream.at(step).generator().random(self._size)
        drawn = np.searchsorted(self._cumulative, uniform * self._cumulative[-1], side="right")
        data = self._places[np.minimum(drawn, len(self._places) - 1)]
        stream = self._noise_stream.at(step)
        if self._noise.listed is not None:
            return self._listed_batch(data, self._noise.places(self._size * self._ratio, stream=stream))
        return self._open_batch(data, stream)

    def _listed_batch(self, data: np.ndarray, noise: np.ndarray) -> Batch:
        """The batch from data and noise given as places in the same list."""
        places, group = np.unique(np.concatenate([data, noise]), return_inverse=True)
        trees, states, graph = self._cache.states(places)
        count = len(data)
        return Batch(
            states,
            graph,
            trees,
            self._log_noise[places],
            np.bincount(group[:count], minlength=len(places)) / count,
            np.bincount(group[count:], minlength=len(places)) / len(noise),
        )

    def _open_batch(self, data: np.ndarray, stream: RandomStream) -> Batch:
        """The batch with newly drawn trees of the noise, which may equal each other or the data's."""
        places, counts = np.unique(data, return_counts=True)
        draw = self._noise.draw(self._size * self._ratio, stream=stream)
        index = {row.tobytes(): place for place, row in enumerate(self._cache.topologies.parent[places])}
        group = [index.setdefault(row.tobytes(), len(index)) for row in draw.topologies.parent]
        first = np.full(len(index), -1)
        first[group[::-1]] = np.arange(len(group))[::-1]  # the first draw of each
        others = first[len(places) :]
        trees, states, graph = self._cache.states(places, draw.topologies.take(others))
        return Batch(
            states,
            graph,
            trees,
            np.concatenate([self._log_noise[places], draw.log_prob[others]]),
            np.concatenate([counts / len(data), np.zeros(len(others))]),
            np.bincount(group, minlength=len(index)) / len(group),
        )
