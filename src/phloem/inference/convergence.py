"""Have chains converged? Their agreement with one another and in time."""

import math
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.inference.chains import ChainTrees
from phloem.trees.splits import (
    SplitDeviation,
    SplitFrequencies,
    distinct_splits,
    split_deviation,
    split_frequencies,
    unpack_bits,
)

GROUPS = 4  # of chains, which are compared
ERROR_GROUPS = 20  # of chains, from which errors are: each has its share of all starts, as these are in order
RARE = 0.05  # splits with less than this, or more than one less this, say little about mixing


class ChainSplits(NamedTuple):
    """Every split of any tree, the most frequent first, with its frequency and the standard error of that."""

    frequencies: SplitFrequencies
    errors: FloatArray  # (splits,)  by how far groups of chains differ; 0 if there is one chain
    by_chain: FloatArray  # (splits, chains)  the share of each chain's trees that have it


class Convergence(NamedTuple):
    """How far chains agree.

    shrink: R̂, of log p(Y, τ, q) or of the tree length, whichever is larger: between groups of chains and halves in
    time, each of which has its own mean (Margossian et al. 2024). groups, halves: how split frequencies differ between
    them. largest_error: of a split's frequency. effective: independent trees that they are worth, by the splits, of
    which none mixes worse.
    """

    shrink: float
    groups: SplitDeviation
    halves: SplitDeviation
    largest_error: float
    effective: float


def chain_splits(trees: ChainTrees) -> ChainSplits:
    """Frequencies of splits with their errors."""
    sets, number = distinct_splits(trees.topologies)
    chains = trees.chains
    chain = np.repeat(np.arange(chains), number.size // chains)
    counts = np.bincount(number.ravel() * chains + chain, minlength=len(sets) * chains).reshape(-1, chains)
    shares = counts.astype(np.float64) * (chains / len(trees))
    frequencies, errors = measured_by_chain(shares)
    order = np.argsort(-frequencies, kind="stable")
    found = SplitFrequencies(trees.taxa, unpack_bits(sets[order], len(trees.taxa)), np.minimum(frequencies[order], 1))
    return ChainSplits(found, errors[order], shares[order])


def convergence(trees: ChainTrees, splits: ChainSplits) -> Convergence:
    """How far chains agree."""
    by_chain = trees.by_chain
    half = (by_chain.shape[1] + 1) // 2
    groups = [by_chain[group::GROUPS].ravel() for group in range(min(GROUPS, trees.chains))]
    halves = [part.ravel() for part in (by_chain[:, :half], by_chain[:, half:]) if part.size]
    both = [
        part.ravel()
        for group in range(min(GROUPS, trees.chains))
        for part in (by_chain[group::GROUPS, :half], by_chain[group::GROUPS, half:])
        if part.size
    ]
    return Convergence(
        shrink=max(_shrink([values[part] for part in both]) for values in _values(trees)),
        groups=split_deviation([split_frequencies(trees.select(part)) for part in groups]),
        halves=split_deviation([split_frequencies(trees.select(part)) for part in halves]),
        largest_error=float(splits.errors.max(initial=0.0)),
        effective=_effective(trees, splits),
    )


def _values(trees: ChainTrees) -> list[FloatArray]:
    """What chains must agree about: the log posterior, the tree length, and the coordinates of model parameters."""
    return [trees.log_joint, trees.branch_lengths.sum(axis=1), *trees.theta.T]


def _shrink(parts: list[FloatArray]) -> float:
    """√(1 + variance of the means / mean of the variances)."""
    within = float(np.mean([part.var() for part in parts]))
    between = float(np.var([part.mean() for part in parts], ddof=1)) if len(parts) > 1 else 0.0
    if within == 0:
        return 1.0 if between == 0 else math.inf
    return math.sqrt(1 + between / within)


def _effective(trees: ChainTrees, splits: ChainSplits) -> float:
    """The number of independent trees with which the least certain split would be as uncertain as it is."""
    frequencies, errors = splits.frequencies.frequencies, splits.errors
    is_known = (frequencies > RARE) & (frequencies < 1 - RARE) & (errors > 0)
    sizes = frequencies[is_known] * (1 - frequencies[is_known]) / errors[is_known] ** 2
    return float(min(len(trees), sizes.min(initial=len(trees))))


def measured_by_chain(by_chain: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means over chains, the last axis, and their standard errors, from the means of groups of chains."""
    groups = min(ERROR_GROUPS, by_chain.shape[-1])
    means = np.stack([by_chain[..., group::groups].mean(axis=-1) for group in range(groups)])
    errors = means.std(axis=0, ddof=1) / math.sqrt(groups) if groups > 1 else np.zeros(by_chain.shape[:-1])
    return by_chain.mean(axis=-1), errors
