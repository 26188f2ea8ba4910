"""After training: probabilities of topologies fitted to weighted draws.

Gradients of the bound of a few particles hardly feel a topology that is far too unlikely, as another particle makes up
for it, so a trained Q(τ) draws some of them, and gives others too little. A fit to draws with their weights, which
approaches the posterior's own projection on the network, min KL(p ‖ Q), mends both in seconds.
"""

import math
from collections.abc import Callable

import numpy as np

from phloem.arrays import FloatArray
from phloem.inference.draws import DrawCollector
from phloem.inference.evaluation import draw_log_weights
from phloem.inference.particles import lower_bound
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.variational.fitting import refit
from phloem.variational.joint import JointModel

# Of the draws: for a first fit, which ends the worst; for a second; and for a last look at the result.
SHARES = (0.4, 1.0, 0.2)
PRIOR_DRAWS = 20  # what the network itself says of a table is worth so many effective draws
CLEARLY = 3.0  # standard errors


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
    for number, share in enumerate(SHARES):
        progress(sum(SHARES[:number]) / sum(SHARES))
        drawn = DrawCollector()
        count = math.ceil(share * draws)
        log_weights = draw_log_weights(model, target, count, stream=stream.at(number), keep=drawn)
        bound = _bound_and_error(log_weights, particles)
        if not bound[0] > last[0] - CLEARLY * math.hypot(bound[1], last[1]):
            network.logits.data.copy_(before)
            break
        if number + 1 < len(SHARES):
            found = drawn.draws(network.support.taxa).weighted()
            weights = np.zeros(len(found.topologies))
            np.add.at(weights, found.group, found.weights)
            prior = PRIOR_DRAWS * float((found.weights**2).sum())  # 1/Σw² draws are effective, smoothed as they are
            before, last = network.logits.detach().clone(), bound
            network.logits.data.copy_(refit(network, found.topologies, weights, prior=prior).logits.data)
    progress(1.0)


def _bound_and_error(log_weights: FloatArray, particles: int) -> tuple[float, float]:
    """The bound of groups of particles, or of all if there are fewer, and its standard error."""
    particles = min(particles, len(log_weights))
    bounds = lower_bound(log_weights[: len(log_weights) // particles * particles].reshape(-1, particles))
    return float(bounds.mean()), float(bounds.std() / math.sqrt(len(bounds)))
