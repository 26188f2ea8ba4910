"""The trees of a step: some of the data, some of the noise, each distinct one once."""

import math
from typing import NamedTuple

import numpy as np

from phloem.energy.noise import Noise
from phloem.energy.tree_table import TreeTable
from phloem.errors import BadArgument
from phloem.features.graph import TreeGraph
from phloem.features.states import NodeStates
from phloem.kernels.arrays import FloatArray
from phloem.random_streams import RandomStream
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.trees.topology_index import TopologyIndex


class Batch(NamedTuple):
    """Distinct trees, and which shares of the data's and of the noise's draws each of them has."""

    states: NodeStates
    graph: TreeGraph
    topologies: TopologyBatch
    log_noise: FloatArray  # (trees,)
    data: FloatArray  # (trees,)
    noise: FloatArray  # (trees,)


class Batches:
    """Draws from a weighted sample and from noise; the n-th batch is a function of the seed and of n."""

    def __init__(self, sample: TreeSample, noise: Noise, *, size: int, ratio: int, seed: int) -> None:
        observed = sample.distinct().normalized()
        observed = observed[observed.weights > 0]
        self._noise, self._size, self._ratio = noise, size, ratio
        log_noise = noise.log_prob(observed.topologies)
        if not np.isfinite(log_noise).all():
            raise BadArgument("noise: some trees of the data have no probability under it. Use another noise.")
        self._steps = np.cumsum(observed.weights)
        self._data_stream = RandomStream(seed, "density/data")
        self._noise_stream = RandomStream(seed, "density/noise")
        if noise.listed is None:
            self._table = TreeTable(observed.topologies)
            self._places, self._log_noise = np.arange(len(observed)), log_noise
        else:
            self._table = TreeTable(noise.listed)
            self._places = TopologyIndex(noise.listed).find(observed.topologies)
            self._log_noise = np.full(len(noise.listed), -math.log(len(noise.listed)))

    def at(self, step: int) -> Batch:
        """The batch of a step: `size` trees of the data and `ratio` times as many of the noise."""
        uniform = self._data_stream.at(step).generator().random(self._size)
        drawn = np.searchsorted(self._steps, uniform * self._steps[-1], side="right")
        data = self._places[np.minimum(drawn, len(self._places) - 1)]
        stream = self._noise_stream.at(step)
        if self._noise.listed is not None:
            return self._listed_batch(data, self._noise.places(self._size * self._ratio, stream=stream))
        return self._open_batch(data, stream)

    def _listed_batch(self, data: np.ndarray, noise: np.ndarray) -> Batch:
        """Data and noise are places in the same table."""
        places, group = np.unique(np.concatenate([data, noise]), return_inverse=True)
        trees, states, graph = self._table.states(places)
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
        """The noise's trees are new ones, some of them equal to each other or to the data's."""
        places, counts = np.unique(data, return_counts=True)
        draw = self._noise.draw(self._size * self._ratio, stream=stream)
        numbers = {row.tobytes(): number for number, row in enumerate(self._table.topologies.parent[places])}
        group = [numbers.setdefault(row.tobytes(), len(numbers)) for row in draw.topologies.parent]
        first = np.full(len(numbers), -1)
        first[group[::-1]] = np.arange(len(group))[::-1]  # where each was drawn first
        others = first[len(places) :]
        trees, states, graph = self._table.states(places, draw.topologies.take(others))
        return Batch(
            states,
            graph,
            trees,
            np.concatenate([self._log_noise[places], draw.log_prob[others]]),
            np.concatenate([counts / len(data), np.zeros(len(others))]),
            np.bincount(group, minlength=len(numbers)) / len(group),
        )
