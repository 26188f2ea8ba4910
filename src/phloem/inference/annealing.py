"""Annealed importance sampling (Neal 2001): trees from Q, moved to the posterior along a path of densities.

At every inverse temperature a tree's weight takes up what the next density has more than the last, and the tree moves.
The weight is an unbiased estimate of p(Y) however badly or briefly trees move, and nearly the same for all of them if
they move well. The path is chosen by a pilot with random numbers of its own, and is fixed afterwards.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from phloem.arrays import FloatArray
from phloem.inference.draws import DrawCollector
from phloem.inference.evaluation import CHUNK_NODES
from phloem.inference.moves import MovingTrees, NoiseSpace
from phloem.inference.particles import Particles, check_same_taxa
from phloem.inference.sharing import particle_arrays, particles_from, stream_from, stream_values
from phloem.random_streams import RandomStream
from phloem.runs.ranks import ALONE, Parcel, Ranks, Task
from phloem.target.posterior import TreePosterior
from phloem.variational.families import standard_normal
from phloem.variational.joint import JointModel

Progress = Callable[[float], None]
PILOT = 200  # trees
VARIANCE = 0.005  # of the weights that one step of the path adds, relative to their mean
LONGEST_STEP = 0.1  # of the path, however even weights are
SHORTEST_STEP = 0.02  # so that a poor Q takes no more than five times as long as a good one
BISECTIONS = 30
STEPS = 2  # of a Hamiltonian path
FIRST_ANGLE, LARGEST_ANGLE = 0.6, 0.8  # of a step
ACCEPTANCE = 0.8  # of Hamiltonian paths
GAIN = 0.5  # by which the angle follows it
NEIGHBORS_A_MOVE = 12  # so that in usual paths there are one to two interchanges for every neighbour of a topology


class AnnealingPath(NamedTuple):
    """How trees are moved from Q to the posterior."""

    inverse_temperatures: tuple[float, ...]  # ascending, the last is 1; trees move at all but that
    angles: tuple[float, ...]  # of Hamiltonian steps, at each of them but the last
    steps: int  # of a Hamiltonian path
    interchanges: int  # of each tree at every temperature

    @classmethod
    def even(cls, temperatures: int, *, angle: float, steps: int = STEPS, interchanges: int = 0) -> "AnnealingPath":
        """Equal steps in β."""
        inverse = tuple((number + 1) / temperatures for number in range(temperatures))
        return cls(inverse, (angle,) * (temperatures - 1), steps, interchanges)

    @property
    def weighings(self) -> int:
        """How often a tree is weighed on the way, but for the few interchanges that pass a first test."""
        return 1 + len(self.angles) * (self.steps + self.interchanges)


def plan_path(
    model: JointModel, target: TreePosterior, *, stream: RandomStream, progress: Progress | None = None
) -> AnnealingPath:
    """A path from a model to the posterior, found with a few trees.

    At every temperature there is an interchange for every `NEIGHBORS_A_MOVE` neighbours of a topology.
    """
    check_same_taxa(model, target)
    pilot = _draw(model, NoiseSpace.of(model, target), PILOT, stream)
    interchanges = math.ceil(2 * (pilot.topologies.taxon_count - 3) / NEIGHBORS_A_MOVE)
    return explore(pilot, interchanges, stream=stream, progress=progress)


def explore(
    pilot: MovingTrees, interchanges: int, *, stream: RandomStream, progress: Progress | None = None
) -> AnnealingPath:
    """A path on which every step's weights vary alike; the trees go all the way.

    The step size of lengths follows the share of accepted paths.
    """
    inverse, angle = 0.0, FIRST_ANGLE
    inverse_temperatures: list[float] = []
    angles: list[float] = []
    while inverse < 1:
        inverse = min(1.0, inverse + _next_step(pilot.log_weights, min(LONGEST_STEP, 1 - inverse)))
        inverse_temperatures.append(inverse)
        if inverse < 1:
            own_stream = stream.at(len(inverse_temperatures))
            angles.append(angle)
            accepted = pilot.move_lengths(inverse, angle, STEPS, stream=own_stream)
            angle = min(LARGEST_ANGLE, angle * math.exp(GAIN * (accepted - ACCEPTANCE)))
            _interchange(pilot, inverse, interchanges, own_stream)
        if progress:
            progress(inverse)
    return AnnealingPath(tuple(inverse_temperatures), tuple(angles), STEPS, interchanges)


def _next_step(log_weights: FloatArray, longest: float) -> float:
    """The longest step after which the weights w^step vary no more than they should."""

    def varies_little(step: float) -> bool:
        weights = np.exp(step * (log_weights - log_weights.max()))
        return float(weights.var()) <= VARIANCE * float(weights.mean()) ** 2

    if varies_little(longest):
        return longest
    low, high = 0.0, longest
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if varies_little(middle) else (low, middle)
    return max(low, min(SHORTEST_STEP, longest))


def anneal(
    model: JointModel,
    target: TreePosterior,
    path: AnnealingPath,
    count: int,
    *,
    stream: RandomStream,
    keep: DrawCollector | None = None,
    progress: Progress | None = None,
    ranks: Ranks = ALONE,
) -> FloatArray:
    """Log weights, (count,), of trees that were moved along a path; equal seeds give equal trees.

    keep: collects the trees where they ended. ranks: share them out, with the same model.
    """
    check_same_taxa(model, target)
    space = NoiseSpace.of(model, target)
    chunk = max(1, CHUNK_NODES // (2 * len(model.network.support.taxa) - 2))
    parts = [
        AnnealPart(path, stream.at(stream.step, first), min(chunk, count - first)) for first in range(0, count, chunk)
    ]

    def work(part: AnnealPart) -> AnnealedPart:
        def tell(share: float) -> None:
            if progress:
                progress((part.stream.particle + part.trees * share) / count)

        return anneal_part(model, space, part, progress=tell)

    log_weights = np.zeros(count)
    for part, found in zip(parts, ranks.each(ANNEALING, parts, work), strict=True):
        first = part.stream.particle
        log_weights[first : first + part.trees] = found.log_weights
        if keep is not None:
            keep.add(found.particles, found.log_weights)
    return log_weights


class AnnealPart(NamedTuple):
    """Some of the trees to anneal."""

    path: AnnealingPath
    stream: RandomStream  # at the first of them
    trees: int


class AnnealedPart(NamedTuple):
    """Trees where they ended."""

    particles: Particles
    log_weights: FloatArray


ANNEALING: Task[AnnealPart, AnnealedPart] = Task(
    "anneal",
    pack_request=lambda part: Parcel({"path": part.path, "trees": part.trees, **stream_values(part.stream)}),
    unpack_request=lambda parcel: AnnealPart(
        _path_from(*parcel.values["path"]), stream_from(parcel.values), parcel.values["trees"]
    ),
    pack_result=lambda found: Parcel(arrays={**particle_arrays(found.particles), "weights": found.log_weights}),
    unpack_result=lambda parcel: AnnealedPart(particles_from(parcel.arrays), parcel.arrays["weights"]),
)


def _path_from(inverse: list[float], angles: list[float], steps: int, interchanges: int) -> AnnealingPath:
    return AnnealingPath(tuple(inverse), tuple(angles), steps, interchanges)


def anneal_part(
    model: JointModel, space: NoiseSpace, part: AnnealPart, *, progress: Progress | None = None
) -> AnnealedPart:
    """Draw some trees and move them along their path."""
    stream = part.stream
    moving = _draw(model, space, part.trees, stream)
    own_stream = stream.named(str(stream.step)).at(0, stream.particle)
    log_weights = move_along(moving, part.path, stream=own_stream, progress=progress)
    return AnnealedPart(moving.as_particles(), log_weights)


def move_along(
    moving: MovingTrees, path: AnnealingPath, *, stream: RandomStream, progress: Progress | None = None
) -> FloatArray:
    """Move trees of Q along a path; returns the logarithms of the weights that they take up, (trees,)."""
    log_weights = np.zeros(len(moving))
    before = 0.0
    for number, inverse in enumerate(path.inverse_temperatures):
        log_weights += (inverse - before) * moving.log_weights
        before = inverse
        if number < len(path.angles):
            own_stream = stream.at(number + 1, stream.particle)
            moving.move_lengths(inverse, path.angles[number], path.steps, stream=own_stream)
            _interchange(moving, inverse, path.interchanges, own_stream)
        if progress:
            progress((number + 1) / len(path.inverse_temperatures))
    return log_weights


def _draw(model: JointModel, space: NoiseSpace, count: int, stream: RandomStream) -> MovingTrees:
    with torch.no_grad():
        topologies = model.network.sample(count, stream=stream.named("topology"))
    noise = standard_normal(count, topologies.branch_count, stream.named("noise"))
    return MovingTrees(space, topologies, np.concatenate([noise, model.theta_noise(count, stream)], axis=1))


def _interchange(moving: MovingTrees, inverse_temperature: float, times: int, stream: RandomStream) -> None:
    for time in range(times):
        moving.interchange(inverse_temperature, stream=stream.named(str(time)))
