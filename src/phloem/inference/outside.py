"""What lies outside the support of Q: trees of the chains that found it stand for it among a run's draws.

The posterior has two parts, that on trees which Q can generate and the rest. Draws with their weights are a sample of
the first; the share of the second, and a sample of it, come from chains that started at the draws and went anywhere.
With the share s, p(Y) is the marginal likelihood of the draws over 1 - s.
"""

import math

import numpy as np

from phloem.arrays import BoolArray
from phloem.inference.agreement import Measured
from phloem.inference.chains import ChainTrees
from phloem.inference.diagnostics import smooth
from phloem.inference.draws import Draws, join, log_mean_weight
from phloem.inference.evaluation import Estimated

LEAST_ADDED, MOST_ADDED = 0.005, 0.5  # of the posterior: less does not matter, of more the draws say too little
ERRORS = 3.0  # standard errors by which the share is more than the least


def is_added(outside: Measured) -> bool:
    """Whether trees of chains are to stand for what is outside the support, a share of the posterior."""
    return outside.value - ERRORS * outside.error >= LEAST_ADDED and outside.value <= MOST_ADDED


def with_outside(draws: Draws, trees: ChainTrees, is_outside: BoolArray, outside_share: Measured) -> Draws:
    """The draws, and trees of chains that are outside the support, with such a share of all weight.

    Neighbours in a chain are alike. So no more trees join than independent ones would be outside if the share's error
    were theirs, evenly spaced over all chains: standard errors then are right for both parts.

    Their weights relate to those of the draws as these are once smoothed, and all weights together over the number of
    draws from Q are p(Y). log Q(τ) of what Q cannot generate is -inf.
    """
    share, error = outside_share
    found = np.flatnonzero(is_outside)
    count = max(1, min(len(found), round(share**2 * (1 - share) / error**2) if error else len(found)))
    added = found[(np.arange(count) * len(found)) // count]
    log_odds = math.log(share) - math.log1p(-share)
    log_weight = log_mean_weight(smooth(draws.log_weights)) + log_odds + math.log(len(draws) / count)
    topologies, group = trees.topologies[added].distinct()
    outside = Draws(
        draws.taxa,
        topologies,
        np.array(group, np.int32),
        trees.branch_lengths[added].astype(np.float32),
        trees.log_joint[added],
        np.full(count, -np.inf),
        np.zeros(count),
        np.full(count, log_weight),
        trees.theta[added],
    )
    return join([draws, outside])


def of_both_parts(inside: Estimated, outside: Measured) -> Estimated:
    """The log marginal likelihood, from that of the support and the share outside, with the error of both."""
    std = None if inside.std is None else math.hypot(inside.std, log_error_outside(outside))
    return Estimated(inside.mean - math.log1p(-outside.value), std)


def log_error_outside(outside: Measured) -> float:
    """What the error of the share outside adds to that of a log marginal likelihood."""
    return outside.error / (1 - outside.value)
