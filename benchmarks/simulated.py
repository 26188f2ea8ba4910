"""Simulated alignments whose posterior is narrow or wide, for studies of the verdict.

Older than `phloem simulate`, and kept: its random numbers are those of the data sets behind `results.md`.
"""

import numpy as np

from phloem.data.alignment import Alignment
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies


def simulate(taxa: int, sites: int, mean_length: float, seed: int) -> Alignment:
    """Sequences under Jukes–Cantor down a random tree with exponential lengths, from its root to its leaves."""
    random = np.random.default_rng(seed)
    (parent,) = random_topologies(taxa, 1, stream=RandomStream(seed, "verdicts")).parent
    lengths = random.exponential(mean_length, len(parent))
    states = np.empty((len(parent), sites), np.int64)
    states[-1] = random.integers(0, 4, sites)
    for node in reversed(range(len(parent) - 1)):  # parents come after their children
        is_anew = random.random(sites) < 1 - np.exp(-4 / 3 * lengths[node])
        states[node] = np.where(is_anew, random.integers(0, 4, sites), states[parent[node]])
    names = tuple("abcdef"[:taxa]) if taxa <= 6 else tuple(f"t{number + 1}" for number in range(taxa))
    return Alignment(names, (1 << states[:taxa]).astype(np.uint8))
