"""Subsplit networks fitted to trees: by expectation maximisation (Zhang & Matsen 2018), or to their splits alone.

The trees are unrooted, a network's trees rooted: each iteration of EM weights the rootings of a tree by their
probability, counts how often every table entry is used, and takes the counts for probabilities.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal, NamedTuple

import numpy as np
import torch

from phloem.arrays import FloatArray
from phloem.errors import BadArgument
from phloem.kernels.variational import sbn as kernels
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.variational.potentials import fit_potentials, network_from_potentials
from phloem.variational.sbn import (
    SubsplitIndices,
    SubsplitNetwork,
    SubsplitSupport,
    collect_support,
    count_entries,
    log_rootings,
)

Method = Literal["em", "average", "splits"]
METHODS: tuple[Method, ...] = ("em", "average", "splits")
REFIT_TOLERANCE, MOST_REFIT_ITERATIONS = 3e-4, 100  # nats a tree: more would fit noise
FIRST_SMOOTHING = 1e-5  # the weight of every entry, as a share of the trees
FIRST_PRIOR = 0.05  # what a table has from splits alone weighs as much as so many of the trees


class FitIteration(NamedTuple):
    """A fit after some iterations of EM; iteration 0 is simple averaging."""

    iteration: int
    log_likelihood: float  # weighted mean over the sample
    objective: float  # log-likelihood plus log Dirichlet prior; never falls


@dataclass(frozen=True, slots=True)
class SubsplitFit:
    """A network fitted to a sample, and the iterations that led to it."""

    network: SubsplitNetwork
    iterations: tuple[FitIteration, ...]
    converged: bool


def fit_network(
    sample: TreeSample,
    *,
    method: Method = "em",
    smoothing: float = 0.0,
    tolerance: float = 1e-6,
    most_iterations: int = 10_000,
    closure: str = "none",
    progress: Callable[[FitIteration], None] | None = None,
) -> SubsplitFit:
    """Fit a network to a sample, on the support of its trees of positive weight (Zhang & Matsen 2018).

    The data are unrooted, the network's trees rooted. "average" counts all rootings of a tree alike; "em" starts there
    and repeatedly weights rootings by their probability until the objective rises by less than `tolerance`.
    `smoothing` is a pseudo-count for every table entry, as a share of the sample: it gives the mode under a Dirichlet
    prior, which keeps rare subsplits from probability zero.

    closure: of the support (see `collect_support`). On a closed one "em" starts with most rootings on rare splits, and
    subsplits that no tree has get a probability from smoothing alone. Trees with splits that it leaves out do not
    count. "splits" fits the frequencies of splits, on a closed support (see `fit_potentials`): the best predictor where
    nearly all trees of the sample differ; its iterations are its own, and are told as one.
    """
    if method not in METHODS:
        raise BadArgument(f"unknown method {method}: choose one of {', '.join(METHODS)}.")
    if not 0 <= smoothing <= 1:
        raise BadArgument(f"smoothing {smoothing:g}: give a share of the sample, from 0 to 1.")
    if not (tolerance > 0 and most_iterations >= 1):
        raise BadArgument(f"tolerance {tolerance:g}, {most_iterations} iterations: both must be positive.")
    if method == "splits" and closure != "clades":
        raise BadArgument("method splits: the support must be closed. Give --closure clades.")
    if method == "splits" and not smoothing:
        raise BadArgument(
            "method splits: it needs some smoothing. Give the weight of one tree, as a share of the sample."
        )
    observed = sample.normalized().distinct()
    observed = observed[observed.weights > 0]
    support = collect_support([observed], closure=closure)
    if support.splits_left_out:
        observed = observed[support.generates(observed.topologies)].normalized()
    if method == "splits":
        return _fit_splits(support, observed, smoothing)
    shares = _first_shares(support, observed, method)
    pseudo_counts = np.full(support.parameter_count, smoothing)
    iterations: list[FitIteration] = []
    networks = _improve(support, observed.topologies, observed.weights, shares, pseudo_counts)
    while True:
        network, found = next(networks)
        iterations.append(found)
        if progress:
            progress(found)
        converged = len(iterations) > 1 and found.objective - iterations[-2].objective < tolerance
        if method == "average" or converged or len(iterations) > most_iterations:
            return SubsplitFit(network, tuple(iterations), converged or method == "average")


def _fit_splits(support: SubsplitSupport, observed: TreeSample, smoothing: float) -> SubsplitFit:
    indices = support.indices(observed.topologies)
    fitted = fit_potentials(support, _split_frequencies(support, indices, observed.weights), smoothing=smoothing)
    network = network_from_potentials(support, fitted.potentials)
    log_likelihood = float(observed.weights @ network.log_prob(observed.topologies).detach().numpy())
    found = FitIteration(fitted.iterations, log_likelihood, fitted.objective)
    return SubsplitFit(network, (found,), fitted.converged)


def _split_frequencies(support: SubsplitSupport, indices: SubsplitIndices, weights: FloatArray) -> FloatArray:
    """The share of the trees with each split, (splits,). Rounding makes no share larger than 1."""
    splits = indices.splits
    counts = np.bincount(splits.ravel(), np.repeat(weights, splits.shape[1]), minlength=len(support.splits))
    return np.minimum(counts, 1.0)


def _first_shares(support: SubsplitSupport, observed: TreeSample, method: Method) -> FloatArray:
    """The first shares of each tree's rootings, (trees, 2n-3): all alike, or on a closed support more for rare splits.

    Where tables know no sisters, equal shares give tables by which all rootings of a tree are equally probable: EM
    would stop where it starts.
    """
    rootings = observed.topologies.branch_count
    if method == "average" or not support.closed:
        return np.full((len(observed), rootings), 1 / rootings)
    indices = support.indices(observed.topologies)
    rarity = 1 / _split_frequencies(support, indices, observed.weights)[indices.splits]
    shares: FloatArray = rarity / rarity.sum(axis=1, keepdims=True)
    return shares


def first_network(support: SubsplitSupport, trees: TreeSample) -> SubsplitNetwork:
    """The network from which training starts: near distinct trees, as far as the support generates them.

    Of a closed support, their splits say most of it: where many trees agree on how a clade divides, they are believed a
    little more. With tables for sisters, trees of a narrow posterior are enough for EM.
    """
    inside = trees[support.generates(trees.topologies)].normalized()
    if not support.closed:
        shares = _first_shares(support, inside, "em")
        pseudo_counts = np.full(support.parameter_count, FIRST_SMOOTHING)
        return _last(_improve(support, inside.topologies, inside.weights, shares, pseudo_counts))
    network = _fit_splits(support, inside, 1 / len(inside)).network
    return refit(network, inside.topologies, inside.weights, prior=FIRST_PRIOR)


def refit(network: SubsplitNetwork, topologies: TopologyBatch, weights: FloatArray, *, prior: float) -> SubsplitNetwork:
    """A network for weighted topologies of its support, where their weights say something, and as before elsewhere.

    weights: (batch,), of distinct topologies, with a sum of 1. prior: the weight, as a share of all trees', of what
    the network's own tables say. It is the mode under Dirichlet priors: a table that few trees use changes little, one
    that none uses not at all, and no entry becomes impossible.
    """
    support = network.support
    if weights.shape != (len(topologies),) or not abs(weights.sum() - 1) < 1e-6 or not weights.min() >= 0:
        raise BadArgument("refit: give each topology a weight of 0 or more, with a sum of 1.")
    if not prior > 0:
        raise BadArgument(f"refit: a prior of {prior:g}. Give a number above 0.")
    tables = network.tables()
    log_probs, shares = kernels.sum_rootings(log_rootings(support.indices(topologies), tables))
    if not np.isfinite(log_probs).all():
        raise BadArgument("refit: a topology is outside the network's support.")
    pseudo_counts = np.maximum(prior * tables.probabilities[: support.parameter_count], np.finfo(float).tiny)
    return _last(_improve(support, topologies, weights, shares, pseudo_counts))


def _last(networks: Iterator[tuple[SubsplitNetwork, FitIteration]]) -> SubsplitNetwork:
    """The network after which the objective hardly rises."""
    last = -np.inf
    while True:
        fitted, found = next(networks)
        if found.objective - last < REFIT_TOLERANCE or found.iteration == MOST_REFIT_ITERATIONS:
            return fitted
        last = found.objective


def _improve(
    support: SubsplitSupport,
    topologies: TopologyBatch,
    weights: FloatArray,
    shares: FloatArray,
    pseudo_counts: FloatArray,
) -> Iterator[tuple[SubsplitNetwork, FitIteration]]:
    """Networks of ever higher objective. shares: of each topology's rootings, (batch, 2n-3), to begin with."""
    indices = support.indices(topologies)
    used = pseudo_counts > 0  # else the prior says nothing
    for iteration in count():
        counts = count_entries(support, indices, shares, weights)[: support.parameter_count]
        network = SubsplitNetwork(support, _most_likely_logits(support, counts + pseudo_counts))
        tables = network.tables()
        log_probs, shares = kernels.sum_rootings(log_rootings(indices, tables))
        likely = weights > 0
        log_likelihood = float(weights[likely] @ log_probs[likely])
        parameters = tables.log_probabilities[: support.parameter_count]
        log_prior = float(pseudo_counts[used] @ parameters[used])
        yield network, FitIteration(iteration, log_likelihood, log_likelihood + log_prior)


def _most_likely_logits(support: SubsplitSupport, counts: FloatArray) -> torch.Tensor:
    """Log counts of the entries; a table that is never used is uniform."""
    starts = support.free_starts
    unused = kernels.sum_tables(counts, starts) == 0
    with np.errstate(divide="ignore"):
        logits = np.log(counts)
    logits[np.repeat(unused, np.diff(starts))] = 0
    return torch.from_numpy(logits)
