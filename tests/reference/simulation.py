"""Alignments drawn along a tree, site by site and branch by branch, with transition probabilities by scipy's expm."""

import numpy as np
from scipy.linalg import expm

from phloem.data.alignment import Alignment
from phloem.target.substitution import SubstitutionModel
from phloem.trees.topology import TopologyBatch


def simulate(
    topology: TopologyBatch, lengths: np.ndarray, model: SubstitutionModel, sites: int, seed: int
) -> Alignment:
    """An alignment of `sites` columns on one tree with lengths (2n-3,)."""
    random = np.random.default_rng(seed)
    frequencies, matrix = model.frequencies.numpy(), model.rate_matrix().numpy()
    rates, weights = model.site_rates.rates().numpy(), model.site_rates.weights().numpy()
    rates, weights = np.append(rates, 0.0), np.append(weights, max(0.0, 1 - weights.sum()))  # the invariant sites
    category = random.choice(len(rates), sites, p=weights / weights.sum())
    states = np.empty((topology.node_count, sites), np.int64)
    states[topology.root] = random.choice(4, sites, p=frequencies / frequencies.sum())
    for node in reversed(range(topology.root)):
        above = states[topology.parent[0, node]]
        transitions = np.array([expm(matrix * rate * lengths[node]) for rate in rates])
        cumulated = transitions[category, above].cumsum(axis=1)  # (sites, 4)
        states[node] = np.minimum((random.random(sites)[:, None] > cumulated).sum(axis=1), 3)
    taxa = tuple(f"t{number}" for number in range(topology.taxon_count))
    return Alignment(taxa, (1 << states[: len(taxa)]).astype(np.uint8))
