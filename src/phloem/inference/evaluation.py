"""How good is Q? Lower bounds and the marginal likelihood, by importance sampling without gradients."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from phloem.arrays import FloatArray
from phloem.config import EvaluationConfig
from phloem.errors import NotFinite, counted
from phloem.inference.draws import DrawCollector
from phloem.inference.particles import Particles, check_same_taxa, draw_particles, lower_bound
from phloem.inference.sharing import DRAWING, DrawPart
from phloem.random_streams import RandomStream
from phloem.runs.ranks import ALONE, Ranks
from phloem.target.posterior import TreePosterior
from phloem.variational.joint import JointModel

CHUNK_NODES = 50_000  # of the trees drawn at a time: 1,000 trees on 26 taxa


class Estimated(NamedTuple):
    """Mean and standard deviation over repeats; None for a single repeat, and for a mean of minus infinity."""

    mean: float
    std: float | None


class Evaluation(NamedTuple):
    """The bounds and the marginal likelihood of a trained model."""

    elbo: Estimated  # with one particle
    lower_bound: Estimated  # with as many particles as in training
    log_marginal_likelihood: Estimated  # by importance sampling


def draw_log_weights(
    model: JointModel,
    target: TreePosterior,
    count: int,
    *,
    stream: RandomStream,
    keep: DrawCollector | None = None,
    ranks: Ranks = ALONE,
) -> FloatArray:
    """Log weights of independent draws, (count,); draw i uses the random numbers of the stream's i-th particle.

    keep: collects the draws themselves. ranks: share them out, with the same model.
    """
    chunk = max(1, min(CHUNK_NODES // (2 * len(model.network.support.taxa) - 2), -(-count // ranks.size)))
    parts = [
        DrawPart(stream.at(stream.step, stream.particle + first), min(chunk, count - first))
        for first in range(0, count, chunk)
    ]
    log_weights = np.empty(count)
    first = 0
    for part, particles in zip(
        parts, ranks.each(DRAWING, parts, lambda part: draw_part(model, target, part)), strict=True
    ):
        log_weights[first : first + part.trees] = particles.log_weights()
        first += part.trees
        if keep is not None:
            keep.add(particles)
    return log_weights


def draw_part(model: JointModel, target: TreePosterior, part: DrawPart) -> Particles:
    """Some of the draws, without gradients."""
    with torch.no_grad():
        return draw_particles(model, target, part.trees, stream=part.stream)


def evaluate(
    model: JointModel,
    target: TreePosterior,
    config: EvaluationConfig,
    *,
    particles: int,
    stream: RandomStream,
    keep: DrawCollector | None = None,
    progress: Callable[[int], None] | None = None,
    ranks: Ranks = ALONE,
) -> Evaluation:
    """Estimates over repeats of `samples` draws each: with one particle, with `particles`, and with all draws.

    keep: collects the draws themselves. ranks: share them out.
    """
    rows = draw_repeats(model, target, config, stream=stream, keep=keep, progress=progress, ranks=ranks)
    return estimate(rows, particles)


def draw_repeats(
    model: JointModel,
    target: TreePosterior,
    config: EvaluationConfig,
    *,
    stream: RandomStream,
    keep: DrawCollector | None = None,
    progress: Callable[[int], None] | None = None,
    ranks: Ranks = ALONE,
) -> FloatArray:
    """Log weights, (repeats, samples); `progress` gets the number of finished repeats."""
    check_same_taxa(model, target)
    rows = np.empty((config.repeats, config.samples))
    for repeat in range(config.repeats):
        rows[repeat] = draw_log_weights(model, target, config.samples, stream=stream.at(repeat), keep=keep, ranks=ranks)
        if progress:
            progress(repeat + 1)
    return rows


def estimate(rows: FloatArray, particles: int) -> Evaluation:
    """Bounds and the marginal likelihood from the log weights of some repeats, (repeats, samples).

    A tree may weigh nothing. A weight that is not a number is a fault, and must not be left out in silence.
    """
    bad = np.count_nonzero(np.isnan(rows) | (rows == np.inf))
    if bad:
        raise NotFinite(
            f"evaluation: the weights of {bad:,} of {counted(rows.size, 'draw')} are not finite numbers. The trained "
            "model is kept, and --resume evaluates it again; if they stay so, the fault is phloem's: please report it."
        )
    return Evaluation(
        multi_sample_bound(rows, 1), multi_sample_bound(rows, particles), _over_repeats(lower_bound(rows))
    )


def multi_sample_bound(rows: FloatArray, particles: int) -> Estimated:
    """The bound of groups of `particles` draws, or of all if there are fewer; an incomplete group is left out."""
    repeats, samples = rows.shape
    particles = min(particles, samples)
    groups = rows[:, : samples // particles * particles].reshape(repeats, -1, particles)
    return _over_repeats(lower_bound(groups).mean(axis=1))


def _over_repeats(values: FloatArray) -> Estimated:
    mean = float(values.mean())
    if len(values) == 1 or mean == -np.inf:  # where trees weigh nothing, there is no spread
        return Estimated(mean, None)
    return Estimated(mean, float(values.std(ddof=1)))
