"""After training: probabilities of topologies fitted to what draws say of their evidence.

Gradients of the bound of a few particles hardly feel a topology that is far too unlikely, as another particle makes up
for it, and a network that was held was never trained. So Q(τ) is fitted to weighted topologies that it drew, which
approaches the posterior's own projection on the network, min KL(p ‖ Q).

A topology's weight is its evidence, which one draw of lengths tells nearly as well as a hundred, over the probability
that it was drawn at all (Horvitz & Thompson 1952). How often it was drawn does not matter then: topologies that surely
are among the draws count by their evidence alone, those that hardly ever are by importance weights. So more topologies
than trees are drawn: those that have not been seen get lengths once.

Half of the draws choose how much a fit to the other half changes, if it is to change anything.
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
from phloem.inference.particles import Particles
from phloem.inference.sharing import share_parameters
from phloem.random_streams import RandomStream
from phloem.runs.ranks import ALONE, Ranks
from phloem.target.posterior import TreePosterior
from phloem.trees.topology import TopologyBatch
from phloem.variational.fitting import refit
from phloem.variational.joint import JointModel
from phloem.variational.sbn import SubsplitNetwork

SHARES = (0.4, 1.0)  # of the draws: for a first fit, which ends the worst, and for a second, to these too
MOST_MORE = 20  # topologies that are drawn for one tree, where few of them are new
MORE_TREES = 0.5  # of the trees: about as many new topologies get lengths
# What the network says of a table before the fit, as a share of all trees: from the timid to the bold.
PRIORS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)


RARE = -20.0  # logarithm of how often a topology is expected; if less, that is the probability that it is drawn


class _Trees(NamedTuple):
    """Trees, with each topology that was drawn among them, and what they were drawn from."""

    draws: Draws
    log_evidence: FloatArray  # (draws,)  log p(Y, τ, q) / Q(q given τ), the largest weights smoothed
    network: SubsplitNetwork
    drawn: int  # topologies, each as often as it was


class _Weighed(NamedTuple):
    """Distinct topologies and their weights, (topologies,), which sum to one."""

    topologies: TopologyBatch
    weights: FloatArray


def refit_topologies(
    model: JointModel,
    target: TreePosterior,
    draws: int,
    *,
    stream: RandomStream,
    progress: Callable[[float], None] = lambda _share: None,
    ranks: Ranks = ALONE,
) -> None:
    """Fit the model's network to weighted draws, twice, or until a fit to half of them does not describe the others.

    draws: for the second fit. Where few draws are effective, the network changes little. ranks: share the trees out.
    """
    network, before = model.network, model.network.logits.detach().clone()
    try:
        _refit(model, target, draws, stream, progress, ranks)
    except BaseException:  # a request to stop: what resumes begins with the first fit again
        network.logits.data.copy_(before)
        raise


def _refit(
    model: JointModel,
    target: TreePosterior,
    draws: int,
    stream: RandomStream,
    progress: Callable[[float], None],
    ranks: Ranks,
) -> None:
    network = model.network
    known: list[_Trees] = []
    for number, share in enumerate(SHARES):
        halves = []
        share_parameters(model, ranks)
        for half in (0, 1):
            progress((sum(SHARES[:number]) + 0.4 * half * share) / sum(SHARES))
            own_stream = stream.at(number).named(f"half {half}")
            halves.append(_draw(model, target, math.ceil(share * draws / 2), own_stream, ranks))
        progress((sum(SHARES[:number]) + 0.8 * share) / sum(SHARES))
        prior = _best_prior(network, _weigh([*known, halves[0]]), _weigh(halves[1:]))
        if prior is None:
            break
        known += halves
        network.logits.data.copy_(refit(network, *_weigh(known), prior=prior).logits.data)
    progress(1.0)


def _best_prior(network: SubsplitNetwork, one: _Weighed, other: _Weighed) -> float | None:
    """The prior by which a fit to some topologies is best for others; None if that is to leave the network alone."""
    best, highest = None, float(other.weights @ _log_probs(network, other.topologies))
    for prior in PRIORS:
        score = float(other.weights @ _log_probs(refit(network, *one, prior=prior), other.topologies))
        if not score > highest:
            break
        best, highest = prior, score
    return best


def _draw(model: JointModel, target: TreePosterior, count: int, stream: RandomStream, ranks: Ranks) -> _Trees:
    """Draw so many trees, then more topologies, of which those get lengths that none of the trees has."""
    network = SubsplitNetwork(model.network.support, model.network.logits.detach().clone())
    drawn = DrawCollector(most_nodes=np.iinfo(np.int64).max)
    draw_log_weights(model, target, count, stream=stream.named("trees"), keep=drawn, ranks=ranks)
    seen = {row.tobytes() for row in drawn.draws(network.support.taxa).topologies.parent}
    # How many to draw must not depend on what was drawn, or inclusion probabilities would be wrong.
    pilot = network.sample(count, stream=stream.named("pilot"))
    drawn_once = int((np.bincount(pilot.distinct()[1]) == 1).sum())  # about as many of the next `count` are new
    more = int(min(MOST_MORE * count, MORE_TREES * count**2 / max(drawn_once, 1)))
    chunk = max(1, CHUNK_NODES // pilot.node_count)
    with torch.no_grad():
        for first in range(0, more, chunk):
            own_stream = stream.named("more").at(stream.step, stream.particle + first)
            topologies = network.sample(min(chunk, more - first), stream=own_stream)
            rows = {row.tobytes(): place for place, row in enumerate(topologies.parent)}
            new = np.array([place for row, place in rows.items() if row not in seen], np.int64)
            seen.update(rows)
            if len(new):
                drawn.add(_with_lengths(model, target, topologies[new], own_stream.named("lengths")))
    trees = drawn.draws(network.support.taxa)
    return _Trees(trees, smooth(trees.log_weights) + trees.log_q_topology, network, count + more)


def _with_lengths(
    model: JointModel, target: TreePosterior, topologies: TopologyBatch, stream: RandomStream
) -> Particles:
    draw = model.draw_lengths(topologies, stream=stream)
    log_joint = target.log_joint(topologies, draw.lengths, theta=draw.theta if target.dimension else None)
    return Particles.of(draw, log_joint)


def _weigh(parts: Sequence[_Trees]) -> _Weighed:
    draws = join([part.draws for part in parts])
    log_evidence = np.concatenate([part.log_evidence for part in parts])
    count = np.bincount(draws.group)
    largest = np.full(len(count), -np.inf)
    np.maximum.at(largest, draws.group, log_evidence)
    with np.errstate(divide="ignore", invalid="ignore"):  # topologies of which all draws are impossible
        relative = np.nan_to_num(np.exp(log_evidence - largest[draws.group]))
        log_mean = largest + np.log(np.bincount(draws.group, relative) / count)
        log_missed, log_expected = np.zeros(len(count)), np.full(len(count), -np.inf)
        for part in parts:
            log_q = _log_probs(part.network, draws.topologies)
            log_missed += part.drawn * np.log1p(-np.minimum(np.exp(log_q), 1))
            log_expected = np.logaddexp(log_expected, math.log(part.drawn) + log_q)
        log_drawn = np.where(log_expected < RARE, log_expected, np.log(-np.expm1(log_missed)))
    return _Weighed(draws.topologies, shares(log_mean - log_drawn))


def _log_probs(network: SubsplitNetwork, topologies: TopologyBatch) -> FloatArray:
    chunk = max(1, CHUNK_NODES // topologies.node_count)
    with torch.no_grad():
        parts = [network.log_prob(topologies[first : first + chunk]) for first in range(0, len(topologies), chunk)]
    return np.asarray(torch.cat(parts).numpy())
