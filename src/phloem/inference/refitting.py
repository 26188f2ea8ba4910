"""After training: probabilities of topologies fitted to weighted draws.

Gradients of the bound of a few particles hardly feel a topology that is far too unlikely, as another particle makes up
for it, so a trained Q(τ) draws some of them, and gives others too little. A fit to draws with their weights, which
approaches the posterior's own projection on the network, min KL(p ‖ Q), mends both in seconds.

A topology's weight is its evidence, which one draw of lengths tells nearly as well as a hundred, over the probability
that it was drawn at all (Horvitz & Thompson 1952). How often it was drawn does not matter then: topologies that surely
are among the draws count by their evidence alone, those that hardly ever are by importance weights.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from phloem.arrays import FloatArray
from phloem.inference.diagnostics import smooth
from phloem.inference.draws import DrawCollector, Draws, join, shares
from phloem.inference.evaluation import CHUNK_NODES, draw_log_weights
from phloem.inference.particles import lower_bound
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.trees.topology import TopologyBatch
from phloem.variational.fitting import refit
from phloem.variational.joint import JointModel
from phloem.variational.sbn import SubsplitNetwork

# Of the draws: for a first fit, which ends the worst; for a second, to these too; and for a last look at the result.
SHARES = (0.4, 1.0, 0.2)
PRIOR_DRAWS = 20  # what the network itself says of a table is worth so many effective draws,
LEAST_PRIOR = 1e-3  # or, where all topologies are known by their evidence, such a share of them
CLEARLY = 3.0  # standard errors


class WeighedTopologies(NamedTuple):
    """Distinct topologies and their weights."""

    topologies: TopologyBatch
    weights: FloatArray  # (topologies,)  sum to one
    effective_draws: float  # independent posterior trees, by the topologies that might not have been drawn


class _Round(NamedTuple):
    """Draws, and the network that they are from."""

    draws: Draws
    log_evidence: FloatArray  # (draws,)  log p(Y, τ, q) / Q(q given τ), the largest weights smoothed
    network: SubsplitNetwork


def refit_topologies(
    model: JointModel,
    target: TreePosterior,
    draws: int,
    *,
    particles: int,
    stream: RandomStream,
    progress: Callable[[float], None] = lambda _share: None,
) -> None:
    """Fit the model's network to weighted draws, twice; a fit after which the bound is clearly lower is undone.

    draws: for the second fit. particles: of the bound. Where few draws are effective, the network changes little.
    """
    network = model.network
    before, last = network.logits.detach().clone(), (-np.inf, 0.0)
    rounds: list[_Round] = []
    for number, share in enumerate(SHARES):
        progress(sum(SHARES[:number]) / sum(SHARES))
        drawn = DrawCollector()
        count = math.ceil(share * draws)
        log_weights = draw_log_weights(model, target, count, stream=stream.at(number), keep=drawn)
        bound = _bound_and_error(log_weights, particles)
        if not bound[0] > last[0] - CLEARLY * math.hypot(bound[1], last[1]):
            network.logits.data.copy_(before)
            break
        before, last = network.logits.detach().clone(), bound
        if number + 1 < len(SHARES):
            rounds.append(_round(drawn.draws(network.support.taxa), SubsplitNetwork(network.support, before)))
            found = _weigh(rounds)
            prior = PRIOR_DRAWS / found.effective_draws + LEAST_PRIOR
            network.logits.data.copy_(refit(network, found.topologies, found.weights, prior=prior).logits.data)
    progress(1.0)


def _round(draws: Draws, network: SubsplitNetwork) -> _Round:
    return _Round(draws, smooth(draws.log_weights) + draws.log_q_topology, network)


def _weigh(rounds: Sequence[_Round]) -> WeighedTopologies:
    draws = join([one.draws for one in rounds])
    log_evidence = np.concatenate([one.log_evidence for one in rounds])
    count = np.bincount(draws.group)
    largest = np.full(len(count), -np.inf)
    np.maximum.at(largest, draws.group, log_evidence)
    with np.errstate(divide="ignore", invalid="ignore"):  # topologies of which all draws are impossible
        relative = np.nan_to_num(np.exp(log_evidence - largest[draws.group]))
        log_mean = largest + np.log(np.bincount(draws.group, relative) / count)
    log_missed = np.zeros(len(count))
    for one in rounds:
        with np.errstate(divide="ignore"):  # a topology that is certain
            log_missed += len(one.draws) * np.log1p(-np.minimum(np.exp(_log_probs(one.network, draws.topologies)), 1))
    drawn = -np.expm1(log_missed)
    weights = shares(log_mean - np.log(drawn))
    return WeighedTopologies(draws.topologies, weights, 1 / max(float(weights**2 @ (1 - drawn)), 1e-300))


def _log_probs(network: SubsplitNetwork, topologies: TopologyBatch) -> FloatArray:
    chunk = max(1, CHUNK_NODES // topologies.node_count)
    with torch.no_grad():
        parts = [network.log_prob(topologies[first : first + chunk]) for first in range(0, len(topologies), chunk)]
    return np.asarray(torch.cat(parts).numpy())


def _bound_and_error(log_weights: FloatArray, particles: int) -> tuple[float, float]:
    """The bound of groups of particles, or of all if there are fewer, and its standard error."""
    particles = min(particles, len(log_weights))
    bounds = lower_bound(log_weights[: len(log_weights) // particles * particles].reshape(-1, particles))
    return float(bounds.mean()), float(bounds.std() / math.sqrt(len(bounds)))
