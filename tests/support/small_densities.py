"""Densities on a few taxa, for tests: samples of all topologies, trained or not."""

from functools import cache

import numpy as np
import torch
from scipy import stats

from phloem.config.density import DensityConfig
from phloem.energy.density import TreeDensity, normalize
from phloem.energy.model import FeatureCache
from phloem.energy.noise import choose_noise
from phloem.energy.training import DensityTraining
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, nni_neighbors, random_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch, TopologyIndex

NAMES = "abcdefghijklmnopqrst"


def sample_of(topologies: TopologyBatch, weights: np.ndarray) -> TreeSample:
    return TreeSample(tuple(NAMES[: topologies.taxon_count]), topologies, np.asarray(weights, np.float64), None)


def target(taxa: int, *, seed: int = 1, concentration: float = 0.2) -> TreeSample:
    """All topologies, weighted by a draw from a Dirichlet distribution."""
    topologies = all_topologies(taxa)
    weights = np.random.default_rng(seed).dirichlet(np.full(len(topologies), concentration))
    return sample_of(topologies, weights)


def neighborhood(taxa: int) -> TreeSample:
    """The topologies up to two interchanges away from one, with weights of any size."""
    tree = random_topologies(taxa, 1, stream=RandomStream(3, "center"))
    around = nni_neighbors(tree)
    topologies, _ = TopologyBatch.concatenate([tree, around, nni_neighbors(around)]).distinct()
    return sample_of(topologies, np.random.default_rng(2).exponential(size=len(topologies)) ** 2)


def config_of(**settings) -> DensityConfig:
    return DensityConfig(**{"width": 6, "batch": 8, "steps": 20, "reports": 4, "noise": "uniform"} | settings)


def training_of(sample: TreeSample, *, double: bool = False, **settings) -> DensityTraining:
    """A training before its first step; in double precision it can be looked at, but not go on."""
    config = config_of(**settings)
    training = DensityTraining(sample, choose_noise(sample, config), config)
    if double:
        training.density.model.double()
        training._batches._cache = FeatureCache(training._batches._cache.topologies, torch.float64)
    return training


def density_of(training: DensityTraining, sample: TreeSample, draws: int = 1000) -> TreeDensity:
    """The density as the training has it."""
    unnormalized, noise = training.density, training.noise
    normalizer = normalize(unnormalized, noise, draws, stream=RandomStream(1, "normalizer"))
    return TreeDensity(training.config, sample.distinct().normalized(), unnormalized, noise, normalizer)


@cache
def trained(taxa: int, noise: str = "uniform", base: str = "noise") -> TreeDensity:
    """A density that has learned something of a target on so many taxa."""
    sample = target(taxa) if taxa < 8 else neighborhood(taxa)
    if noise == "listed":
        sample = sample[: len(sample) * 2 // 3]
    training = training_of(sample, noise=noise, base=base, width=10, batch=100, steps=120, rate=0.02)
    for _ in range(120):
        training.step()
    return density_of(training, sample)


def fit_of(drawn: TopologyBatch, topologies: TopologyBatch, probabilities: np.ndarray, least: float = 10) -> float:
    """The p-value of draws by a chi-square test; cells in which few are expected are one."""
    places = TopologyIndex(topologies).find(drawn)
    assert (places >= 0).all()
    observed = np.bincount(places, minlength=len(topologies))
    expected = probabilities * len(drawn)
    assert observed[expected == 0].sum() == 0
    rare = expected < least
    observed, expected = (np.append(counts[~rare], counts[rare].sum()) for counts in (observed, expected))
    seen = expected > 0
    return float(stats.chisquare(observed[seen], expected[seen], sum_check=False).pvalue)
