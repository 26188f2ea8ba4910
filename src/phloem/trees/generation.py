"""Topologies from nothing: uniformly at random, all of them, and the neighbours of given ones."""

import math

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels.insertions import insert_taxa
from phloem.kernels.rearrangements import interchange
from phloem.random_streams import RandomStream
from phloem.trees.topology import TopologyBatch

LARGEST_ENUMERATION = 10  # taxa: 2,027,025 topologies


def topology_count(taxon_count: int) -> int:
    """(2n-5)!!, the number of unrooted binary topologies on n taxa."""
    _check_taxon_count(taxon_count)
    return math.prod(_branch_counts(taxon_count))


def random_topologies(taxon_count: int, count: int, *, stream: RandomStream) -> TopologyBatch:
    """Uniform draws from all topologies. The first trees are the same however many are drawn."""
    _check_taxon_count(taxon_count)
    if count < 0:
        raise BadArgument(f"random topologies: {count} trees asked for. Ask for 0 or more.")
    uniform = stream.generator().random((count, taxon_count - 3))
    choices = (uniform * _branch_counts(taxon_count)).astype(np.int32)
    return TopologyBatch.from_trusted(insert_taxa(choices))


def all_topologies(taxon_count: int) -> TopologyBatch:
    """Every topology once, in the order of stepwise addition."""
    _check_taxon_count(taxon_count)
    if taxon_count > LARGEST_ENUMERATION:
        raise BadArgument(
            f"all topologies: {taxon_count} taxa have {topology_count(taxon_count):,}. "
            f"Enumerate at most {LARGEST_ENUMERATION} taxa, or draw random topologies."
        )
    index = np.arange(topology_count(taxon_count))
    choices = np.empty((len(index), taxon_count - 3), np.int32)
    for column, radix in enumerate(_branch_counts(taxon_count)):
        index, choices[:, column] = np.divmod(index, radix)
    return TopologyBatch.from_trusted(insert_taxa(choices))


def nni_neighbors(topologies: TopologyBatch) -> TopologyBatch:
    """The 2(n-3) topologies one nearest-neighbour interchange away from each, tree after tree."""
    return TopologyBatch.from_trusted(interchange(topologies.parent, topologies.neighbors))


def _branch_counts(taxon_count: int) -> list[int]:
    """How many branches there are to put taxon 3, 4, … n-1 on."""
    return [2 * taxon - 3 for taxon in range(3, taxon_count)]


def _check_taxon_count(taxon_count: int) -> None:
    if taxon_count < 3:
        raise BadArgument(f"topologies: {taxon_count} taxa. An unrooted tree needs at least 3.")
