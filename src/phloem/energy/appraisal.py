"""How good a density is on its way: its normaliser, its expected loss, and how far from the sample it is."""

from typing import NamedTuple

import numpy as np

from phloem.energy.model import Unnormalized
from phloem.energy.nce import contrast
from phloem.energy.noise import MOST_TAXA_TO_LIST, ListedNoise, Noise
from phloem.energy.normalization import Normalizer, estimate, log_sum
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.trees.topology_index import TopologyIndex


class Appraisal(NamedTuple):
    """What is known of a density at a moment."""

    normalizer: Normalizer
    expected_loss: float | None  # J over all topologies; None where these are too many
    divergence: float  # Kullback–Leibler, from the sample to the normalised density


class Appraiser:
    """Compares densities with a sample: over all topologies where they are few, else by draws of the noise."""

    def __init__(self, sample: TreeSample, noise: Noise, *, ratio: float, draws: int) -> None:
        observed = sample.distinct().normalized()
        self._observed = observed[observed.weights > 0]
        self._noise, self._ratio, self._draws = noise, ratio, draws
        self._all = few_topologies(noise)
        if self._all is not None:
            self._places = TopologyIndex(self._all).find(self._observed.topologies)
            self._data = np.zeros(len(self._all))
            self._data[self._places] = self._observed.weights
            self._log_noise = noise.log_prob(self._all)

    def __call__(self, density: Unnormalized, *, stream: RandomStream) -> Appraisal:
        """Appraise a density. The stream is for draws."""
        if self._all is None:
            normalizer = estimate(density, self._noise, self._draws, stream=stream)
            log_observed = density.log_density(self._observed.topologies)
            loss = None
        else:
            log_model = density.log_density(self._all)
            normalizer = Normalizer(log_sum(log_model), 0.0, len(self._all))
            log_observed = log_model[self._places]
            loss = contrast(log_model, self._log_noise, self._data, np.exp(self._log_noise), self._ratio).loss
        weights = self._observed.weights
        apart = float(weights @ (np.log(weights) - log_observed + normalizer.log_value))
        return Appraisal(normalizer, loss, apart)


def few_topologies(noise: Noise) -> TopologyBatch | None:
    """All topologies that a density with this noise is about, if they are few enough to go through at every report."""
    if isinstance(noise, ListedNoise):
        return noise.listed
    return all_topologies(noise.taxon_count) if noise.taxon_count <= MOST_TAXA_TO_LIST else None
