"""The statistics of calibration: are truths where posteriors say they are?

Where data come from the prior and posteriors are exact, the posterior probability below the true value is uniform,
over data sets, for every quantity of a tree, its parameters and its data (Talts et al. 2018; Modrák et al. 2023), and
of the clades to which posteriors give the probability p a share p is true. What `validate.py` records is made here,
and what `write_validation.py` says of it. Nothing here knows of a data set's true posterior.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import stats

from phloem.arrays import FloatArray, LongArray
from phloem.trees.sample import credible_set_size

POINTS = 50  # at which empirical distributions are compared with the uniform one
SIMULATIONS = 20_000  # of uniform ranks, for the simultaneous band
LEVEL = 0.95  # of bands
CREDIBLE = (0.5, 0.8, 0.95)
# Clades by their probability, from the lower to below the upper; the last bin of each row has its upper end.
BINS = ((0.0, 0.05), (0.05, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 0.99), (0.99, 1.0))
SETS = ((0.5, 1.0), (0.95, 1.0))  # those of the majority-rule tree, and those that are held for certain
ROUNDING = 1e-9  # sums of weights that are so close are equal


def rank(values: FloatArray, weights: FloatArray, truth: float, tie: float) -> float:
    """The posterior probability below the truth, and the share `tie` of that on the very value.

    values, weights: of draws, (draws,). tie: random, uniform on (0, 1): only then is the rank of a quantity with
    ties, such as anything of topologies, uniform. Without ties it does not matter.
    """
    below, equal = values < truth, values == truth
    return min(1.0, float((weights @ below + tie * (weights @ equal)) / weights.sum()))


class CredibleSet(NamedTuple):
    """The smallest set of most probable topologies that holds a share of the probability, as users are shown it."""

    probability: float  # of the set, which is more than the share
    topologies: int
    has_truth: bool


def credible_set(probabilities: FloatArray, share: float, truth: int | None) -> CredibleSet:
    """probabilities: of all topologies, in any order. truth: which of them is true, if any."""
    order = np.argsort(-probabilities, kind="stable")
    count = credible_set_size(probabilities[order], share)
    held = float(probabilities[order[:count]].sum() / probabilities.sum())
    return CredibleSet(held, count, truth in order[:count].tolist())


class CladeCount(NamedTuple):
    """Clades of some range of probabilities, of one data set or of several together."""

    clades: int
    expected: float  # how many of them are true, if their probabilities are right
    variance: float  # of that number over the posterior, in which clades exclude and imply each other
    true: int

    @property
    def deviation(self) -> float:
        """How many standard deviations there are too many true ones; 0 where nothing can be off."""
        return (self.true - self.expected) / math.sqrt(self.variance) if self.variance > 0 else 0.0


def clade_counts(
    number: LongArray, weights: FloatArray, truth: LongArray, bins: Iterable[tuple[float, float]] = (*BINS, *SETS)
) -> dict[str, CladeCount]:
    """For each range of probabilities, how many clades there are, and how many of them are true and should be.

    number: of each clade of each topology, (topologies, n-3). weights: of the topologies, sum to one. truth: the true
    tree's clades, (n-3,), which may have numbers that no topology has: those have the probability 0.
    """
    probabilities = clade_probabilities(number, weights, truth)
    found = {}
    for lower, upper in bins:
        inside = (probabilities >= lower) & ((probabilities < upper) | (upper == 1.0))
        of_topology = inside[number].sum(axis=1)
        mean = float(weights @ of_topology)
        variance = float(weights @ (of_topology - mean) ** 2)
        found[bin_name(lower, upper)] = CladeCount(
            int(inside.sum()), mean, variance if variance > ROUNDING else 0.0, int(inside[truth].sum())
        )
    return found


def clade_probabilities(number: LongArray, weights: FloatArray, truth: LongArray) -> FloatArray:
    """The probability of every clade by its number, 0 for those that only the true tree has."""
    count = 1 + max(int(number.max(initial=-1)), int(truth.max(initial=-1)))
    found = np.bincount(number.ravel(), np.repeat(weights, number.shape[1]), minlength=count)
    return np.where(found > 1 - ROUNDING, 1.0, found)


def bin_name(lower: float, upper: float) -> str:
    """`0.05-0.2`."""
    return f"{lower:g}-{upper:g}"


def pooled(counts: Sequence[CladeCount]) -> CladeCount:
    """Of several data sets, which are independent, so that variances add."""
    clades, expected, variance, true = (sum(column) for column in zip(*counts, strict=True))
    return CladeCount(int(clades), expected, variance, int(true))


class Uniformity(NamedTuple):
    """Whether ranks are uniform."""

    data_sets: int
    mean: float  # 0.5 if they are; above where truths are higher than posteriors say
    spread: float  # standard deviation over that of a uniform: above 1 where posteriors are too narrow
    p_value: float  # Kolmogorov and Smirnov's, two-sided
    leaves_band: bool


def uniformity(ranks: Sequence[float]) -> Uniformity:
    """Of ranks from independent data sets."""
    values = np.asarray(ranks)
    band = ecdf_band(len(values))
    difference = ecdf(values) - band.points
    outside = (difference < band.lower - ROUNDING) | (difference > band.upper + ROUNDING)
    return Uniformity(
        len(values),
        float(values.mean()),
        float(values.std() * math.sqrt(12)),
        float(stats.kstest(values, "uniform").pvalue),
        bool(outside.any()),
    )


class Band(NamedTuple):
    """Where an empirical distribution function of uniform ranks, less the identity, lies at all points together."""

    points: FloatArray
    lower: FloatArray
    upper: FloatArray


def ecdf(ranks: FloatArray) -> FloatArray:
    """The share of ranks up to each point."""
    return np.asarray(np.searchsorted(np.sort(ranks), _points(), side="right") / len(ranks))


@cache
def ecdf_band(count: int, level: float = LEVEL) -> Band:
    """The simultaneous band of Säilynoja, Bürkner & Vehtari (2022), by simulation.

    At every point the number of ranks below it is binomial. The band leaves out the same tail probability everywhere,
    as large as it can be while a share `level` of all simulated ranks stay inside at all points.
    """
    points = _points()
    random = np.random.default_rng(count)
    # With so many points the counts between them are multinomial: no ranks need to be drawn.
    between = random.multinomial(count, np.diff(np.concatenate([[0.0], points, [1.0]])), size=SIMULATIONS)
    below = between[:, :-1].cumsum(axis=1)
    each = np.arange(count + 1)[:, None]
    tails = 2 * np.minimum(stats.binom.cdf(each, count, points), stats.binom.sf(each - 1, count, points))
    least = tails[below, np.arange(len(points))].min(axis=1)
    tail = float(np.quantile(least, 1 - level)) / 2
    lower, upper = (stats.binom.ppf(share, count, points) / count - points for share in (tail, 1 - tail))
    return Band(points, lower, upper)


def binomial_band(count: int, share: float, level: float = LEVEL) -> tuple[float, float]:
    """Between which shares the successes of so many trials lie with at least this probability."""
    tail = (1 - level) / 2
    lower, upper = stats.binom.ppf([tail, 1 - tail], count, share)
    return float(lower / count), float(upper / count)


def successes_band(probabilities: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """Likewise of trials that have a probability each."""
    distribution = np.ones(1)
    for probability in probabilities:
        distribution = np.convolve(distribution, [1 - probability, probability])
    total = distribution.cumsum()
    ends = np.searchsorted(total, [(1 - level) / 2, (1 + level) / 2])
    lower, upper = ends / len(probabilities)
    return float(lower), float(upper)


def power(count: int, *, narrower: float = 1.0, shift: float = 0.0) -> float:
    """How often ranks from so many data sets leave their band where posteriors are wrong.

    They are normal, with a standard deviation that is too small by the factor `narrower`, or a mean that is off by
    `shift` of them.
    """
    band = ecdf_band(count)
    random = np.random.default_rng(count)
    ranks = np.sort(stats.norm.cdf(narrower * random.standard_normal((SIMULATIONS // 10, count)) + shift))
    found = (ranks[:, None] <= band.points[:, None]).mean(axis=2) - band.points
    return float(((found < band.lower - ROUNDING) | (found > band.upper + ROUNDING)).any(axis=1).mean())


def _points() -> FloatArray:
    return np.arange(1, POINTS) / POINTS
