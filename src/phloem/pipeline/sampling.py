"""Posterior trees to share: drawn again by their weights, or with them."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray, LongArray
from phloem.pipeline.posterior import Posterior
from phloem.random_streams import RandomStream
from phloem.target.prior import TreePrior
from phloem.trees.sample import TreeSample

USUAL_COUNT = 1000


class PosteriorSample(NamedTuple):
    """Trees with branch lengths and, for each, what a trace shows of it."""

    trees: TreeSample
    log_likelihood: FloatArray  # (trees,)
    log_prior: FloatArray  # (trees,)
    log_q: FloatArray  # (trees,)  log Q(τ, q)
    topology: LongArray  # (trees,)  its rank, 1 for the most probable one of the run
    is_weighted: bool
    effective_size: float  # of the draws that these are from or, with weights, that these are


def sample_posterior(
    posterior: Posterior, count: int | None = None, *, seed: int = 1, weighted: bool = False
) -> PosteriorSample:
    """Trees from the draws of a run: as often as their weights say and all alike, or each once with its weight.

    count: how many; without it 1,000, or all draws where there are fewer. More trees than the draws are effectively
    worth repeat some of them.
    """
    draws = posterior.draws
    if count is None:
        count = min(USUAL_COUNT, len(draws))
    if count < 1:
        raise BadArgument(f"--count {count}: ask for at least one tree.")
    if count > len(draws):
        raise BadArgument(
            f"--count {count:,}: the run has {len(draws):,} draws. Ask for no more, or train one with more --repeats."
        )
    random = RandomStream(seed, "sample").generator()
    all_weights = posterior.trees.weights
    if weighted:
        chosen = random.permutation(len(draws))[:count]
        weights = all_weights[chosen] / all_weights[chosen].sum()
    else:
        chosen = random.permutation(resample(all_weights, count, float(random.random())))
        weights = np.full(count, 1 / count)
    lengths = shortest_decimals(draws.branch_lengths[chosen])
    topologies = draws.topologies[draws.group[chosen]]
    with torch.no_grad():
        log_prior = TreePrior(posterior.config.prior_rate)(topologies, torch.from_numpy(lengths)).numpy()
    return PosteriorSample(
        trees=TreeSample(draws.taxa, topologies, weights, lengths),
        log_likelihood=draws.log_joint[chosen] - log_prior,
        log_prior=log_prior,
        log_q=(draws.log_q_topology + draws.log_q_branches)[chosen],
        topology=_ranks(posterior.trees.topology_weights())[draws.group[chosen]],
        is_weighted=weighted,
        effective_size=1 / float(weights @ weights if weighted else all_weights @ all_weights),
    )


def resample(weights: FloatArray, count: int, offset: float) -> LongArray:
    """Systematic resampling: draw i comes count·weight times, rounded up or down, so that no luck is added.

    weights: sum to one. offset: a random number from 0 up to 1.
    """
    ends = np.cumsum(weights)
    points = (np.arange(count) + offset) / count * ends[-1]
    return np.asarray(np.minimum(np.searchsorted(ends, points, side="right"), len(weights) - 1))


def shortest_decimals(lengths: NDArray[np.float32]) -> FloatArray:
    """The numbers with the fewest digits that stand for these, so that text of them is short."""
    return lengths.astype("U").astype(np.float64)


def _ranks(weights: FloatArray) -> LongArray:
    ranks = np.empty(len(weights), np.int64)
    ranks[np.argsort(-weights, kind="stable")] = np.arange(1, len(weights) + 1)
    return ranks
