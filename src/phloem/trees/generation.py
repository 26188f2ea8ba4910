"""New topologies: uniform draws, Yule trees, all of them, and the neighbours of given ones."""

import math

import numpy as np

from phloem.arguments import checked
from phloem.arrays import FloatArray, LongArray
from phloem.errors import BadArgument
from phloem.kernels.trees.canonical import canonical_trees
from phloem.kernels.trees.generation import insert_taxa, interchange, interchange_one
from phloem.random_streams import RandomStream
from phloem.trees.topology import TopologyBatch

LARGEST_ENUMERATION = 10  # taxa: 2,027,025 topologies


def topology_count(taxon_count: int) -> int:
    """(2n-5)!!, the number of unrooted binary topologies on n taxa."""
    _check_taxon_count(taxon_count)
    return math.prod(_branch_counts(taxon_count))


@checked
def random_topologies(taxon_count: int, count: int, *, stream: RandomStream) -> TopologyBatch:
    """Uniform draws from all topologies. The first trees do not depend on `count`."""
    _check_taxon_count(taxon_count)
    if count < 0:
        raise BadArgument(f"random topologies: {count} trees asked for. Ask for 0 or more.")
    uniform = stream.generator().random((count, taxon_count - 3))
    choices = (uniform * _branch_counts(taxon_count)).astype(np.int32)
    return TopologyBatch.from_trusted(insert_taxa(choices))


@checked
def yule_trees(taxon_count: int, count: int, *, stream: RandomStream) -> tuple[TopologyBatch, FloatArray]:
    """Trees of a Yule process that ended with so many species, and their branch lengths (count, 2n-3).

    All species are as far from the root, at distance 1, which the unrooted trees do not show. Seen backwards, pairs of
    lineages merge, any two alike; k of them take a time that is Exponential(k).
    """
    _check_taxon_count(taxon_count)
    if count < 0:
        raise BadArgument(f"Yule trees: {count} trees asked for. Ask for 0 or more.")
    parent = np.full((count, 2 * taxon_count - 1), -1, np.int32)
    ages = np.zeros(parent.shape)
    trees = np.arange(count)
    lineages = np.tile(np.arange(taxon_count, dtype=np.int32), (count, 1))
    random = stream.generator().random((count, taxon_count - 1, 2))
    waiting = stream.named("times").generator().exponential(size=(count, taxon_count - 1))
    for step, left in enumerate(range(taxon_count, 1, -1)):
        one = (random[:, step, 0] * left).astype(np.int64)
        other = (one + 1 + (random[:, step, 1] * (left - 1)).astype(np.int64)) % left
        added = taxon_count + step
        parent[trees, lineages[trees, one]] = parent[trees, lineages[trees, other]] = added
        ages[:, added] = (ages[:, added - 1] if step else 0.0) + waiting[:, step] / left
        lineages[trees, one] = added
        lineages[trees, other] = lineages[:, left - 1]
    lengths = (ages[trees[:, None], parent] - ages) / ages[:, -1:]
    parents, lengths, _ = canonical_trees(parent, lengths, taxon_count, False)  # without the root
    topologies = TopologyBatch.from_canonical(np.ascontiguousarray(parents[:, :-1]))
    return topologies, np.ascontiguousarray(lengths[:, : 2 * taxon_count - 3])


@checked
def all_topologies(taxon_count: int) -> TopologyBatch:
    """Every topology once, in the order of stepwise addition."""
    _check_taxon_count(taxon_count)
    if taxon_count > LARGEST_ENUMERATION:
        raise BadArgument(
            f"all topologies: {taxon_count} taxa have {topology_count(taxon_count):,}. "
            f"Enumerate at most {LARGEST_ENUMERATION} taxa, or draw random topologies."
        )
    return numbered_topologies(taxon_count, np.arange(topology_count(taxon_count)))


def numbered_topologies(taxon_count: int, numbers: LongArray) -> TopologyBatch:
    """The topologies at these indices of `all_topologies`, without making the others."""
    count = topology_count(taxon_count)
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < min(count, 2**63):
        raise BadArgument(f"topologies on {taxon_count} taxa are numbered from 0 to {count - 1:,}.")
    rest = numbers
    choices = np.empty((len(numbers), taxon_count - 3), np.int32)
    for column, radix in enumerate(_branch_counts(taxon_count)):
        rest, choices[:, column] = np.divmod(rest, radix)
    return TopologyBatch.from_trusted(insert_taxa(choices))


@checked
def nni_neighbors(topologies: TopologyBatch) -> TopologyBatch:
    """The 2(n-3) topologies one nearest-neighbour interchange away from each, tree after tree."""
    return TopologyBatch.from_trusted(interchange(topologies.parent, topologies.neighbors))


def random_nni(topologies: TopologyBatch, *, stream: RandomStream) -> TopologyBatch:
    """One of the 2(n-3) neighbours of each topology, uniformly: a symmetric proposal."""
    moves = 2 * (topologies.taxon_count - 3)
    if moves == 0:
        return topologies
    chosen = stream.generator().integers(moves, size=len(topologies))
    return TopologyBatch.from_trusted(interchange_one(topologies.parent, topologies.neighbors, chosen))


def _branch_counts(taxon_count: int) -> list[int]:
    """The number of branches on which taxon 3, 4, … n-1 can be placed."""
    return [2 * taxon - 3 for taxon in range(3, taxon_count)]


def _check_taxon_count(taxon_count: int) -> None:
    if taxon_count < 3:
        raise BadArgument(f"topologies: {taxon_count} taxa. An unrooted tree needs at least 3.")
