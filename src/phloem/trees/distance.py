"""Robinson–Foulds distance: the number of splits that one of two trees has and the other lacks."""

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels import clades
from phloem.kernels.arrays import IntArray, WordArray
from phloem.trees.topology import TopologyBatch
from phloem.trees.zobrist import clade_hashes


def robinson_foulds(first: TopologyBatch, second: TopologyBatch) -> IntArray:
    """Distance of every tree of `first` to every tree of `second`, (batch, other batch): 0, 2, … 2(n-3).

    Linear in the number of taxa for each pair, after one sort for each tree.
    """
    if first.taxon_count != second.taxon_count:
        raise BadArgument(f"topologies on {first.taxon_count} and on {second.taxon_count} taxa cannot be compared.")
    shared = clades.count_shared_pairwise(_sorted_split_hashes(first), _sorted_split_hashes(second))
    distances: IntArray = np.int32(2) * (np.int32(first.taxon_count - 3) - shared)
    return distances


def _sorted_split_hashes(topologies: TopologyBatch) -> WordArray:
    hashes = clade_hashes(topologies)[:, topologies.taxon_count : -1]
    return clades.sort_rows(np.ascontiguousarray(hashes))
