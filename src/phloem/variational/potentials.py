"""Split potentials: trees as probable as the product of their splits' weights.

Of all distributions over the trees of a closed support with given probabilities of splits it is the one with the
largest entropy: nothing is said of how splits go together, but that they must make a tree. It has a parameter for each
split and none for each way to divide a clade, of which most were never seen: a sample of a wide posterior, whose trees
are all different, predicts the next one better by its splits' frequencies than by what was seen of its subsplits.

A closed network expresses it exactly. Rooted on one of its branches after the other, a tree has the same product of
weights, so subsplits have their parts of sums over the trees of a clade, and root splits their probabilities.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize

from phloem.arrays import FloatArray, IntArray, LongArray
from phloem.errors import BadArgument
from phloem.kernels.variational.sbn import sum_products
from phloem.trees.splits import unpack_bits
from phloem.variational.sbn import SubsplitNetwork, SubsplitSupport

MOST_ITERATIONS = 300
TOLERANCE = 1e-5  # of the objective's gradient: the difference of a split's probability


class PotentialFit(NamedTuple):
    """Potentials fitted to the frequencies of splits."""

    potentials: FloatArray  # (splits,)
    objective: float  # mean log-likelihood of the sample, less what the prior takes
    iterations: int
    converged: bool


def fit_potentials(support: SubsplitSupport, frequencies: FloatArray, *, smoothing: float) -> PotentialFit:
    """The most probable potentials, given the frequencies of the splits in a sample.

    frequencies: (splits,), of trees of the support. smoothing: the weight of a single tree, as a share of the sample.
    A potential's prior is normal, with a deviation of 1 about the logarithm of the frequency, to which half a tree is
    added. It counts as much as one tree: the larger the sample, the nearer are the splits' probabilities to their
    frequencies.
    """
    if frequencies.shape != (len(support.splits),) or not ((frequencies >= 0) & (frequencies <= 1 + 1e-9)).all():
        raise BadArgument("split potentials: give each split of the support a frequency from 0 to 1.")
    if not 0 < smoothing <= 1:
        raise BadArgument(f"split potentials: smoothing {smoothing:g}. Give a share of the sample above 0, up to 1.")
    trees = _Trees(support)
    center = np.log((frequencies + 0.5 * smoothing) / (1 + 0.5 * smoothing))
    scale = 1 / np.sqrt(frequencies * (1 - np.minimum(frequencies, 1)) + smoothing)  # makes all directions alike

    def objective(scaled: FloatArray) -> tuple[float, FloatArray]:
        change = scaled * scale
        log_total, probabilities, _ = trees.sums(center + change)
        value = log_total - frequencies @ (center + change) + 0.5 * smoothing * (change @ change)
        return value, (probabilities - frequencies + smoothing * change) * scale

    limits = {"maxiter": MOST_ITERATIONS, "gtol": TOLERANCE, "ftol": 0.0, "maxcor": 20}
    found = minimize(objective, np.zeros(len(frequencies)), jac=True, method="L-BFGS-B", options=limits)
    return PotentialFit(center + found.x * scale, -float(found.fun), int(found.nit), found.nit < MOST_ITERATIONS)


def network_from_potentials(support: SubsplitSupport, potentials: FloatArray) -> SubsplitNetwork:
    """The network by which trees are as probable as the product of exp(potential) over their splits."""
    if potentials.shape != (len(support.splits),) or not np.isfinite(potentials).all():
        raise BadArgument("split potentials: give each split of the support a finite number.")
    log_total, _, log_shares = _Trees(support).sums(potentials)
    log_shares[: len(support.splits)] -= log_total
    return SubsplitNetwork(support, torch.from_numpy(log_shares[: support.parameter_count].copy()))


class _Trees:
    """All trees of a closed support, to be summed over."""

    def __init__(self, support: SubsplitSupport) -> None:
        if not support.closed:
            raise BadArgument("split potentials: the support is not closed. Collect it with --closure clades.")
        splits = len(support.splits)
        split_of_side = np.empty(len(support.clades), np.int32)
        split_of_side[support.splits.T] = np.arange(splits)
        sides = np.concatenate([support.splits, support.subsplits[support.divisions[splits:]]])
        self.halves: IntArray = split_of_side[sides]
        self.children, self.starts = support.children, support.starts
        sizes = unpack_bits(support.clades, len(support.taxa)).sum(axis=1)
        table_sizes = sizes[sides[support.starts[1:-1]]].sum(axis=1)
        self.order: LongArray = 1 + np.argsort(table_sizes, kind="stable")
        self.pendant = int(np.flatnonzero((support.splits < len(support.taxa)).any(axis=1))[0])

    def sums(self, potentials: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """The log-sum over all trees, the probability of each split, and the kernel's log-shares."""
        log_sums, log_shares = np.empty(len(self.starts) - 1), np.empty(self.starts[-1])
        sum_products(potentials, self.halves, self.children, self.starts, self.order, log_sums, log_shares)
        log_total = float(log_shares[self.pendant])  # every tree has this split
        return log_total, np.exp(log_shares[: self.starts[1]] - log_total), log_shares
