"""Splits: what each branch divides, as sets of taxa, and how often a sample has each."""

from dataclasses import dataclass

import numpy as np

from phloem.kernels import bit_sets, clades
from phloem.kernels.arrays import BoolArray, FloatArray, LongArray, WordArray
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.trees.zobrist import clade_hashes

TREES_AT_A_TIME = 1000


def split_bits(topologies: TopologyBatch) -> WordArray:
    """The taxa below every branch as bit sets, (batch, 2n-3, words): taxon i is bit i % 64 of word i // 64.

    Canonical trees hang on taxon 0's neighbour, so this is the side without taxon 0, but for taxon 0's own branch.
    """
    bits = clades.clade_bits(topologies.parent, topologies.taxon_count)
    return bits[:, :-1]


def nontrivial_splits(topologies: TopologyBatch) -> BoolArray:
    """The splits of the n-3 interior branches, (batch, n-3, n): true for the taxa on the side without taxon 0."""
    return unpack_bits(split_bits(topologies)[:, topologies.taxon_count :], topologies.taxon_count)


def unpack_bits(bits: WordArray, taxon_count: int) -> BoolArray:
    """Bit sets (…, words) as booleans (…, taxa)."""
    octets = np.ascontiguousarray(bits).astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=taxon_count, bitorder="little").view(np.bool_)


def pack_members(members: BoolArray) -> WordArray:
    """Booleans (…, taxa) as bit sets (…, words), the way back from `unpack_bits`."""
    taxon_count = members.shape[-1]
    words = np.zeros((*members.shape[:-1], (taxon_count + 63) // 64 * 8), np.uint8)
    words[..., : (taxon_count + 7) // 8] = np.packbits(members, axis=-1, bitorder="little")
    return words.view("<u8").astype(np.uint64, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class SplitFrequencies:
    """The distinct nontrivial splits of a sample, most frequent first, with their shares of its weight."""

    taxa: tuple[str, ...]
    members: BoolArray  # (splits, n)  the side without taxon 0
    frequencies: FloatArray  # (splits,)    between 0 and 1


def distinct_splits(topologies: TopologyBatch) -> tuple[WordArray, LongArray]:
    """The distinct nontrivial splits of all trees as bit sets (splits, words), in order of first appearance.

    Beside them the number of every interior branch's split, (batch, n-3). Equal splits are found by their hashes, and
    bit sets are made of the first of each alone, some trees at a time: those of all trees might not fit in memory.
    """
    taxon_count = topologies.taxon_count
    hashes = clade_hashes(topologies)[:, taxon_count:-1]
    first, number = bit_sets.group_sets(np.ascontiguousarray(hashes).reshape(-1, 2))
    trees, branches = np.divmod(first, max(1, taxon_count - 3))
    sets = np.empty((len(first), (taxon_count + 63) // 64), np.uint64)
    for start in range(0, len(topologies), TREES_AT_A_TIME):
        inside = slice(*np.searchsorted(trees, [start, start + TREES_AT_A_TIME]))
        bits = clades.clade_bits(topologies.parent[start : start + TREES_AT_A_TIME], taxon_count)
        sets[inside] = bits[trees[inside] - start, taxon_count + branches[inside]]
    return sets, number.reshape(hashes.shape[:2])


def split_frequencies(sample: TreeSample) -> SplitFrequencies:
    """How much of the sample's weight has each split; splits that are as frequent come as they first appear."""
    distinct = sample.distinct().normalized()
    sets, number = distinct_splits(distinct.topologies)
    weights = np.repeat(distinct.weights, number.shape[1])
    frequencies = np.bincount(number.ravel(), weights, minlength=len(sets))
    order = np.argsort(-frequencies, kind="stable")
    members = unpack_bits(sets[order], distinct.topologies.taxon_count)
    return SplitFrequencies(sample.taxa, members, np.minimum(frequencies[order], 1))
