"""Small alignments, models and trees for the tests of the tree search."""

import numpy as np
import torch

from phloem.arrays import FloatArray
from phloem.data.alignment import Alignment
from phloem.data.patterns import SitePatterns, compress
from phloem.random_streams import RandomStream
from phloem.search.surface import SearchTree, Surface
from phloem.target.likelihood import TreeLikelihood
from phloem.target.substitution import SiteRates, SubstitutionModel, gtr, hky85, jc69
from phloem.trees.generation import random_topologies
from phloem.trees.topology import TopologyBatch
from reference.simulation import simulate

FREQUENCIES = [0.35, 0.15, 0.2, 0.3]
EXCHANGEABILITIES = [1.1, 2.7, 0.6, 0.9, 3.3, 1.0]


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


MODELS = {
    "JC": jc69(),
    "HKY": hky85(3.0, FREQUENCIES),
    "GTR+G4": gtr(EXCHANGEABILITIES, FREQUENCIES, SiteRates(scalar(0.5))),
    "GTR+I+G4": gtr(EXCHANGEABILITIES, FREQUENCIES, SiteRates(scalar(0.7), invariant=scalar(0.2))),
}


def random_patterns(taxa: int, sites: int, seed: int, symbols: str = "ACGT") -> SitePatterns:
    """Columns of random symbols, and some where all taxa are alike."""
    random = np.random.default_rng(seed)
    letters = random.choice(list(symbols), (taxa, sites))
    letters[:, : sites // 5] = letters[0, : sites // 5]
    return compress(Alignment.from_sequences(names(taxa), ["".join(row) for row in letters]))


def evolved(
    taxa: int, sites: int, seed: int, model: SubstitutionModel | None = None, longest: float = 0.3
) -> tuple[Alignment, TopologyBatch]:
    """Sequences along a random tree, and the tree."""
    topology = random_topologies(taxa, 1, stream=RandomStream(seed, "true tree"))
    lengths = np.random.default_rng(seed).uniform(0.01, longest, topology.branch_count)
    return simulate(topology, lengths, model or jc69(), sites, seed), topology


def names(taxa: int) -> list[str]:
    return [f"t{number}" for number in range(taxa)]


def random_lengths(topology: TopologyBatch, seed: int, scale: float = 0.2) -> FloatArray:
    return np.random.default_rng(seed).exponential(scale, topology.branch_count) + 1e-6


def placed(surface: Surface, topology: TopologyBatch, lengths: FloatArray) -> SearchTree:
    """The tree with its partials in place and the lengths as they are."""
    tree = SearchTree(surface)
    tree.place(topology, lengths)
    tree.smooth(0, 1.0)
    return tree


def log_likelihood(surface: Surface, topology: TopologyBatch, lengths: FloatArray) -> float:
    """By the engine that inference uses, which has oracles of its own."""
    likelihood = TreeLikelihood(surface.patterns, surface.model, threads=1)
    return likelihood(topology, torch.tensor(lengths[None])).item()


def pattern_log_likelihoods(surface: Surface, topology: TopologyBatch, lengths: FloatArray) -> FloatArray:
    """Of every pattern of the surface, by the same engine."""
    likelihood = TreeLikelihood(surface.patterns, surface.model, threads=1)
    sites = likelihood.of_sites(topology, torch.tensor(lengths[None]))[0]
    values = np.empty(len(surface.patterns))
    values[surface.patterns.pattern_of_site] = sites
    return values
