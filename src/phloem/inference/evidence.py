"""The evidence of single topologies: log p(Y, τ), all branch lengths integrated out, with standard errors.

For every topology a member of the warped family is fitted to the posterior of its lengths, from which draws are
annealed to that posterior. Nothing is trained, and no topology depends on any other.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import FloatArray, LongArray
from phloem.errors import BadArgument, counted
from phloem.inference.annealing import PILOT, Progress, explore, move_along
from phloem.inference.diagnostics import effective_sample_size, log_mean_error
from phloem.inference.evaluation import CHUNK_NODES
from phloem.inference.gap import best_members
from phloem.inference.moves import MovingTrees, NoiseSpace
from phloem.inference.particles import lower_bound
from phloem.random_streams import RandomStream
from phloem.target.estimation import optimize_branch_lengths
from phloem.target.posterior import TreePosterior
from phloem.trees.topology import TopologyBatch, TopologyIndex
from phloem.variational.families import LOCATION_OFFSET, Warped, standard_normal

AT_ONCE = 100  # topologies
FIRST_DRAWS = 200  # of a topology; then as many again as it has, until its error is small
TOLERANCE = 0.05  # nats that a fit may lose: annealing makes up for it
FITTING = 0.6  # of the time, roughly
FEWEST_CHANGES = 0.5  # on a branch, for a first guess of its length: none that the data show may still be some


class TopologyEvidence(NamedTuple):
    """Estimates for each topology, all (topologies,)."""

    log_evidence: FloatArray  # log p(Y, τ)
    error: FloatArray  # its standard error
    draws: LongArray
    effective_draws: FloatArray


def topology_evidence(
    target: TreePosterior,
    topologies: TopologyBatch,
    *,
    stream: RandomStream,
    error: float = 0.02,
    most_draws: int = 10_000,
    progress: Progress | None = None,
) -> TopologyEvidence:
    """log p(Y, τ) of distinct topologies, each from as many draws as its error asks for, within limits."""
    if not len(topologies) or len(topologies.distinct()[0]) < len(topologies):
        raise BadArgument("evidence: give one or more topologies, each once.")
    if not error > 0:
        raise BadArgument(f"evidence: a standard error of {error:g} cannot be reached. Give one above 0.")
    if most_draws < FIRST_DRAWS:
        drawn = counted(most_draws, "draw")
        raise BadArgument(f"evidence: with at most {drawn} no error is known. Allow at least {FIRST_DRAWS}.")
    tell = progress or (lambda _share: None)
    parts = []
    for first in range(0, len(topologies), AT_ONCE):
        block = topologies[first : first + AT_ONCE]

        def tell_block(share: float, first: int = first, size: int = len(block)) -> None:
            tell((first + size * share) / len(topologies))

        fitted = fit_lengths(
            target, block, stream=stream.named("fit").at(first), progress=lambda share: tell_block(FITTING * share)
        )
        annealed = _anneal(target, block, fitted, error, most_draws, stream.named(f"draws {first}"), tell_block)
        parts.append(
            (
                [float(lower_bound(each)) for each in annealed],
                [log_mean_error(each) for each in annealed],
                [len(each) for each in annealed],
                [effective_sample_size(each) for each in annealed],
            )
        )
    return TopologyEvidence(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _anneal(
    target: TreePosterior,
    topologies: TopologyBatch,
    fitted: Tensor,
    error: float,
    most_draws: int,
    stream: RandomStream,
    progress: Progress,
) -> list[FloatArray]:
    """Log weights of each topology, from fitted lengths to the posterior, with twice as many draws in every round."""
    index = TopologyIndex(topologies)
    space = NoiseSpace(target, Warped, lambda some: fitted[index.find(some)], lambda some: np.zeros(len(some)))

    def start(which: LongArray, own_stream: RandomStream) -> MovingTrees:
        noise = standard_normal(len(which), topologies.branch_count, own_stream.named("noise"))
        return MovingTrees(space, topologies.take(which), noise)

    pilots = np.resize(np.arange(len(topologies)), max(PILOT, len(topologies)))
    path = explore(start(pilots, stream.named("pilot")), 0, stream=stream.named("pilot"))
    found = [np.empty(0) for _ in range(len(topologies))]
    going, step = np.arange(len(topologies)), 0
    chunk = max(1, CHUNK_NODES // topologies.node_count)
    while len(going):
        fresh = [min(max(FIRST_DRAWS, len(found[tree])), most_draws - len(found[tree])) for tree in going]
        which = np.repeat(going, fresh)
        parts = []
        for first in range(0, len(which), chunk):
            own_stream = stream.named(str(step)).at(0, first)
            parts.append(move_along(start(which[first : first + chunk], own_stream), path, stream=own_stream))
        log_weights = np.concatenate(parts)
        for tree in going.tolist():
            found[tree] = np.concatenate([found[tree], log_weights[which == tree]])
        going = np.array(
            [tree for tree in going if log_mean_error(found[tree]) > error and len(found[tree]) < most_draws], np.int64
        )
        step += 1
        progress(FITTING + (1 - FITTING) * (1 - len(going) / len(topologies) / 2**step))
    return found


def fit_lengths(
    target: TreePosterior, topologies: TopologyBatch, *, stream: RandomStream, progress: Progress | None = None
) -> Tensor:
    """The warped family's parameters that come near to the posterior of each topology's lengths."""
    sites = float(target.likelihood.patterns.counts.sum())
    changes = sites * optimize_branch_lengths(target.likelihood, topologies, tolerance=0.01).branch_lengths
    start = torch.zeros((len(topologies), topologies.branch_count, Warped.parameters_per_branch), dtype=torch.float64)
    # As many changes as the data show, with the relative deviation of a Poisson number.
    start[:, :, 0] = torch.from_numpy(np.log(np.maximum(changes, FEWEST_CHANGES) / sites)) - LOCATION_OFFSET
    start[:, :, 1] = torch.from_numpy(-0.5 * np.log1p(changes))
    return best_members(
        Warped, topologies, target, start, stream=stream, tolerance=TOLERANCE, progress=progress
    ).parameters
