"""128-bit clade hashes: a clade is the XOR of its taxa's fixed random keys (Zobrist 1970)."""

import numpy as np

from phloem.kernels import clades
from phloem.kernels.arrays import WordArray
from phloem.trees.topology import TopologyBatch

# Two streams of SplitMix64 (Steele, Lea & Flood 2014). Any odd seeds do.
FIRST_SEED = np.uint64(0x9E3779B97F4A7C15)
SECOND_SEED = np.uint64(0xD1B54A32D192ED03)


def _split_mix(counter: WordArray) -> WordArray:
    mixed = counter * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def taxon_keys(taxon_count: int) -> WordArray:
    """Fixed random keys, (taxa, 2) words: taxon i has the same key whatever the number of taxa."""
    counter = np.arange(1, taxon_count + 1, dtype=np.uint64)
    return np.stack([_split_mix(counter + FIRST_SEED), _split_mix(counter + SECOND_SEED)], axis=1)


def clade_hashes(topologies: TopologyBatch) -> WordArray:
    """Hash of the taxa at or below every node, (batch, nodes, 2); the root's is that of all taxa.

    The complement's hash is one XOR with the root's away.
    """
    return clades.clade_hashes(topologies.parent, taxon_keys(topologies.taxon_count))
