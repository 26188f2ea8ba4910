"""How good is Q? Bounds and the marginal likelihood, from importance samples without gradients."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from phloem.config import EvaluationConfig
from phloem.inference.estimators import lower_bound
from phloem.inference.particles import check_same_taxa, draw_particles
from phloem.inference.tally import TopologyTally
from phloem.kernels.arrays import FloatArray
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.variational.joint import JointModel

CHUNK_NODES = 50_000  # of trees drawn at a time: 1,000 trees of 26 taxa, and never much memory


class Estimated(NamedTuple):
    """Mean and standard deviation over repeats; one repeat has no deviation."""

    mean: float
    std: float | None


class Evaluation(NamedTuple):
    """The bounds and the marginal likelihood of a trained model."""

    elbo: Estimated  # of one tree at a time
    lower_bound: Estimated  # of as many as training had
    log_marginal_likelihood: Estimated  # by importance sampling


def draw_log_weights(
    model: JointModel, target: TreePosterior, count: int, *, stream: RandomStream, tally: TopologyTally | None = None
) -> FloatArray:
    """Log weights of independent draws, (count,), each with the random numbers of its own particle.

    A `tally` is told which topologies they have.
    """
    chunk = max(1, CHUNK_NODES // (2 * len(model.network.support.taxa) - 2))
    log_weights = np.empty(count)
    with torch.no_grad():
        for first in range(0, count, chunk):
            drawn = min(chunk, count - first)
            particles = draw_particles(model, target, drawn, stream=stream.at(stream.step, stream.particle + first))
            log_weights[first : first + drawn] = particles.log_weights()
            if tally is not None:
                tally.add(particles.topologies, log_weights[first : first + drawn])
    return log_weights


def evaluate(
    model: JointModel,
    target: TreePosterior,
    config: EvaluationConfig,
    *,
    particles: int,
    stream: RandomStream,
    tally: TopologyTally | None = None,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Each repeat draws `samples` trees and makes all three estimates of them: of each, of `particles`, of all.

    A `tally` is told which topologies they have.
    """
    check_same_taxa(model, target)
    rows = np.empty((config.repeats, config.samples))
    for repeat in range(config.repeats):
        rows[repeat] = draw_log_weights(model, target, config.samples, stream=stream.at(repeat), tally=tally)
        if progress:
            progress(repeat + 1)
    particles = min(particles, config.samples)
    groups = rows[:, : config.samples // particles * particles].reshape(config.repeats, -1, particles)
    return Evaluation(
        elbo=_over_repeats(rows.mean(axis=1)),
        lower_bound=_over_repeats(lower_bound(groups).mean(axis=1)),
        log_marginal_likelihood=_over_repeats(lower_bound(rows)),
    )


def _over_repeats(values: FloatArray) -> Estimated:
    return Estimated(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None)
