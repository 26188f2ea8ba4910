"""How far samples of trees are from each other: by their splits and by their topologies."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels.arrays import BoolArray, FloatArray
from phloem.trees.sample import TreeSample, check_same_taxa
from phloem.trees.splits import SplitFrequencies

LEAST_FREQUENCY = 0.1  # of splits that count in averages, in at least one sample, as in MrBayes
ROUNDING = 1e-9  # frequencies are sums of many weights


class SplitTable(NamedTuple):
    """Every split that some sample has, with its frequency in each."""

    members: BoolArray  # (splits, n)
    frequencies: FloatArray  # (splits, samples)


class SplitDeviation(NamedTuple):
    """How far split frequencies differ between samples.

    average and largest are of the standard deviations, over the samples, of the splits that have at least
    `LEAST_FREQUENCY` in one of them; largest_difference is between any two samples, of any split.
    """

    average: float
    largest: float
    largest_difference: float


def split_table(samples: Sequence[SplitFrequencies]) -> SplitTable:
    """The splits of all samples, which must have their taxa in the same order."""
    if not samples or any(sample.taxa != samples[0].taxa for sample in samples):
        raise BadArgument("split frequencies: one or more samples with the same taxa in the same order are needed.")
    rows: dict[bytes, FloatArray] = {}
    for number, sample in enumerate(samples):
        for members, frequency in zip(sample.members, sample.frequencies.tolist(), strict=True):
            rows.setdefault(members.tobytes(), np.zeros(len(samples)))[number] = frequency
    members = np.frombuffer(b"".join(rows), np.bool_).reshape(-1, len(samples[0].taxa))
    return SplitTable(members, np.array(list(rows.values())).reshape(-1, len(samples)))


def split_deviation(samples: Sequence[SplitFrequencies]) -> SplitDeviation:
    """The average and the maximum standard deviation of split frequencies, as users of MrBayes know them."""
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
    """Half the sum of the differences of topology probabilities: 0 for the same distribution, 1 for disjoint ones."""
    check_same_taxa(other.taxa, one.taxa, "tree sample")
    probabilities: dict[bytes, list[float]] = {}
    for number, sample in enumerate((one.distinct().normalized(), other.with_taxa(one.taxa).distinct().normalized())):
        for parent, weight in zip(sample.topologies.parent, sample.weights.tolist(), strict=True):
            probabilities.setdefault(parent.tobytes(), [0.0, 0.0])[number] = weight
    return 0.5 * sum(abs(first - second) for first, second in probabilities.values())
