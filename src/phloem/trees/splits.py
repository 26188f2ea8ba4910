"""Splits: what each branch divides, as sets of taxa, and how often a sample has each."""

from dataclasses import dataclass

import numpy as np

from phloem.kernels import clades
from phloem.kernels.arrays import BoolArray, FloatArray, WordArray
from phloem.trees.sample import TreeSample, group_rows
from phloem.trees.topology import TopologyBatch


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


@dataclass(frozen=True, slots=True, eq=False)
class SplitFrequencies:
    """The distinct nontrivial splits of a sample, most frequent first, with their shares of its weight."""

    taxa: tuple[str, ...]
    members: BoolArray  # (splits, n)  the side without taxon 0
    frequencies: FloatArray  # (splits,)    between 0 and 1


def split_frequencies(sample: TreeSample) -> SplitFrequencies:
    """How much of the sample's weight has each split; splits that are as frequent come as they first appear."""
    distinct = sample.distinct().normalized()
    topologies = distinct.topologies
    bits = split_bits(topologies)[:, topologies.taxon_count :]
    rows = bits.reshape(-1, bits.shape[-1])
    first, group = group_rows(rows)
    weights = np.repeat(distinct.weights, bits.shape[1])
    frequencies = np.zeros(len(first))
    np.add.at(frequencies, group, weights)
    order = np.argsort(-frequencies, kind="stable")
    members = unpack_bits(rows[first[order]], topologies.taxon_count)
    return SplitFrequencies(sample.taxa, members, frequencies[order])
