"""Splits: how branches divide the taxa, split frequencies, and distances between trees and between samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from phloem.arguments import checked
from phloem.arrays import BoolArray, FloatArray, IntArray, LongArray, WordArray
from phloem.errors import BadArgument
from phloem.kernels.trees import clades
from phloem.trees.sample import ROUNDING, TreeSample, check_same_taxa
from phloem.trees.topology import TopologyBatch, clade_hashes

TREES_AT_A_TIME = 1000  # whose bit sets are in memory together
LEAST_FREQUENCY = 0.1  # in at least one sample, for a split to count in averages; as in MrBayes


def split_bits(topologies: TopologyBatch) -> WordArray:
    """The taxa below every branch as bit sets, (batch, 2n-3, words): taxon i is bit i % 64 of word i // 64.

    Canonical trees are rooted at taxon 0's neighbour, so this is the side without taxon 0, except for taxon 0's own
    branch.
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
    """Booleans (…, taxa) as bit sets (…, words), the inverse of `unpack_bits`."""
    taxon_count = members.shape[-1]
    words = np.zeros((*members.shape[:-1], (taxon_count + 63) // 64 * 8), np.uint8)
    words[..., : (taxon_count + 7) // 8] = np.packbits(members, axis=-1, bitorder="little")
    return words.view("<u8").astype(np.uint64, copy=False)


def without_first(members: BoolArray) -> BoolArray:
    """The side without taxon 0 of each split, (splits, n), whichever side is given."""
    return np.asarray(members ^ members[:, :1])


@dataclass(frozen=True, slots=True, eq=False)
class SplitFrequencies:
    """The distinct nontrivial splits of a sample, most frequent first, with their shares of its weight."""

    taxa: tuple[str, ...]
    members: BoolArray  # (splits, n)  the side without taxon 0
    frequencies: FloatArray  # (splits,)    between 0 and 1


def distinct_splits(topologies: TopologyBatch) -> tuple[WordArray, LongArray]:
    """The distinct nontrivial splits of all trees as bit sets (splits, words), in order of first appearance.

    Also the number of every interior branch's split, (batch, n-3). Equal splits are found by their hashes; bit sets
    are made only for the first of each, some trees at a time, as those of all trees might not fit in memory.
    """
    taxon_count = topologies.taxon_count
    hashes = clade_hashes(topologies)[:, taxon_count:-1]
    first, number = clades.group_sets(np.ascontiguousarray(hashes).reshape(-1, 2))
    trees, branches = np.divmod(first, max(1, taxon_count - 3))
    sets = np.empty((len(first), (taxon_count + 63) // 64), np.uint64)
    for start in range(0, len(topologies), TREES_AT_A_TIME):
        inside = slice(*np.searchsorted(trees, [start, start + TREES_AT_A_TIME]))
        bits = clades.clade_bits(topologies.parent[start : start + TREES_AT_A_TIME], taxon_count)
        sets[inside] = bits[trees[inside] - start, taxon_count + branches[inside]]
    return sets, number.reshape(hashes.shape[:2])


@checked
def split_frequencies(sample: TreeSample) -> SplitFrequencies:
    """The share of the sample's weight that has each split; ties are in order of first appearance."""
    distinct = sample.distinct().normalized()
    sets, number = distinct_splits(distinct.topologies)
    weights = np.repeat(distinct.weights, number.shape[1])
    frequencies = np.bincount(number.ravel(), weights, minlength=len(sets))
    order = np.argsort(-frequencies, kind="stable")
    members = unpack_bits(sets[order], distinct.topologies.taxon_count)
    return SplitFrequencies(sample.taxa, members, np.minimum(frequencies[order], 1))


@checked
def robinson_foulds(first: TopologyBatch, second: TopologyBatch) -> IntArray:
    """Distance of every tree of `first` to every tree of `second`, (batch, other batch): 0, 2, … 2(n-3).

    The Robinson–Foulds distance is the number of splits that one of two trees has and the other lacks. Linear in
    the number of taxa for each pair, after one sort for each tree.
    """
    if first.taxon_count != second.taxon_count:
        raise BadArgument(f"topologies on {first.taxon_count} and on {second.taxon_count} taxa cannot be compared.")
    shared = clades.count_shared_pairwise(_sorted_split_hashes(first), _sorted_split_hashes(second))
    distances: IntArray = np.int32(2) * (np.int32(first.taxon_count - 3) - shared)
    return distances


def _sorted_split_hashes(topologies: TopologyBatch) -> WordArray:
    hashes = clade_hashes(topologies)[:, topologies.taxon_count : -1]
    return clades.sort_rows(np.ascontiguousarray(hashes))


class SplitTable(NamedTuple):
    """Every split of any of the samples, with its frequency in each."""

    members: BoolArray  # (splits, n)
    frequencies: FloatArray  # (splits, samples)


class SplitDeviation(NamedTuple):
    """How far split frequencies differ between samples.

    average, largest: of the standard deviations over samples of the splits with at least `LEAST_FREQUENCY` in one of
    them. largest_difference: of any split, between any two samples.
    """

    average: float
    largest: float
    largest_difference: float


def split_table(samples: Sequence[SplitFrequencies]) -> SplitTable:
    """The splits of all samples, which must have their taxa in the same order."""
    if not samples or any(sample.taxa != samples[0].taxa for sample in samples):
        raise BadArgument("split frequencies: give one or more samples with the same taxa in the same order.")
    rows: dict[bytes, FloatArray] = {}
    for number, sample in enumerate(samples):
        for members, frequency in zip(sample.members, sample.frequencies.tolist(), strict=True):
            rows.setdefault(members.tobytes(), np.zeros(len(samples)))[number] = frequency
    members = np.frombuffer(b"".join(rows), np.bool_).reshape(-1, len(samples[0].taxa))
    return SplitTable(members, np.array(list(rows.values())).reshape(-1, len(samples)))


def split_deviation(samples: Sequence[SplitFrequencies]) -> SplitDeviation:
    """The average and the maximum standard deviation of split frequencies, as in MrBayes."""
    frequencies = split_table(samples).frequencies
    if len(samples) < 2 or not len(frequencies):
        return SplitDeviation(0.0, 0.0, 0.0)
    deviations = frequencies[frequencies.max(axis=1) >= LEAST_FREQUENCY - ROUNDING].std(axis=1, ddof=1)
    return SplitDeviation(
        average=float(deviations.mean()) if len(deviations) else 0.0,
        largest=float(deviations.max(initial=0.0)),
        largest_difference=float(np.ptp(frequencies, axis=1).max()),
    )


def total_variation(one: TreeSample, other: TreeSample) -> float:
    """Half the sum of absolute differences of topology probabilities: 0 for equal, 1 for disjoint distributions."""
    check_same_taxa(other.taxa, one.taxa, "tree sample")
    probabilities: dict[bytes, list[float]] = {}
    for number, sample in enumerate((one.distinct().normalized(), other.with_taxa(one.taxa).distinct().normalized())):
        for parent, weight in zip(sample.topologies.parent, sample.weights.tolist(), strict=True):
            probabilities.setdefault(parent.tobytes(), [0.0, 0.0])[number] = weight
    return 0.5 * sum(abs(first - second) for first, second in probabilities.values())
