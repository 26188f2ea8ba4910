"""The evidence of single topologies: log p(Y, τ), all branch lengths integrated out, with standard errors.

For every topology draws are annealed to the posterior of its lengths: from what a trained model says of them or,
without one, from a member of the warped family that is fitted to it. No topology depends on any other.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import BoolArray, FloatArray, LongArray
from phloem.errors import BadArgument, counted
from phloem.inference.annealing import PILOT, Progress, explore, move_along
from phloem.inference.diagnostics import effective_sample_size, log_mean_error
from phloem.inference.evaluation import CHUNK_NODES
from phloem.inference.gap import best_members
from phloem.inference.moves import MovingTrees, NoiseSpace, ParameterMemory
from phloem.inference.particles import lower_bound
from phloem.random_streams import RandomStream
from phloem.target.estimation import optimize_branch_lengths
from phloem.target.posterior import TreePosterior
from phloem.trees.sample import share_errors
from phloem.trees.topology import TopologyBatch, TopologyIndex
from phloem.variational.families import LOCATION_OFFSET, Warped, is_made_of_noise, standard_normal
from phloem.variational.joint import BranchModel
from phloem.variational.parameters import ParameterModel

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


class EvidenceShares(NamedTuple):
    """Posterior probabilities of topologies with their standard errors, (topologies,), and of all others together."""

    probability: FloatArray
    error: FloatArray
    others: float
    others_error: float


def topology_evidence(
    target: TreePosterior,
    topologies: TopologyBatch,
    *,
    branches: BranchModel | None = None,
    theta: ParameterModel | None = None,
    stream: RandomStream,
    error: float = 0.02,
    most_draws: int = 10_000,
    progress: Progress | None = None,
) -> TopologyEvidence:
    """log p(Y, τ) of distinct topologies, each from as many draws as its error asks for, within limits.

    branches: a trained model, from whose lengths to anneal the topologies that it knows if its family is made of noise.
    theta: Q(θ) of the same training, if parameters of the model are inferred; others than these are not known then.
    """
    if not len(topologies) or len(topologies.distinct()[0]) < len(topologies):
        raise BadArgument("evidence: give one or more topologies, each once.")
    if not error > 0:
        raise BadArgument(f"evidence: a standard error of {error:g} cannot be reached. Give one above 0.")
    if most_draws < FIRST_DRAWS:
        drawn = counted(most_draws, "draw")
        raise BadArgument(f"evidence: with at most {drawn} no error is known. Allow at least {FIRST_DRAWS}.")
    is_known = known_by(branches, topologies)
    if target.dimension and (theta is None or not is_known.all()):
        raise BadArgument(
            f"evidence: tree {int(is_known.argmin()) + 1} of {len(is_known)} is not one that the run has lengths for, "
            "which it needs where parameters of the model are inferred. Leave it out, or fix all parameters."
        )
    columns = np.empty((4, len(topologies)))
    done = 0
    for which, trained in ((np.flatnonzero(is_known), branches), (np.flatnonzero(~is_known), None)):
        for first in range(0, len(which), AT_ONCE):
            places = which[first : first + AT_ONCE]
            block, share = topologies.take(places), len(places) / len(topologies)
            tell = _part(progress, done / len(topologies), share)
            if trained is None:
                fit, annealing = stream.named("fit").at(first), stream.named(f"draws {first}")
                space = _fitted(target, block, fit, _part(tell, 0.0, FITTING))
                tell = _part(tell, FITTING, 1 - FITTING)
            else:
                annealing = stream.named(f"trained {first}")
                space = NoiseSpace(target, trained.family, ParameterMemory(trained), _no_score, theta)
            annealed = _anneal(space, block, error, most_draws, annealing, tell)
            columns[:, places] = np.transpose([_described(log_weights) for log_weights in annealed])
            done += len(block)
    log_evidence, errors, draws, effective = columns
    return TopologyEvidence(log_evidence, errors, draws.astype(np.int64), effective)


def _described(log_weights: FloatArray) -> tuple[float, float, int, float]:
    effective = effective_sample_size(log_weights)
    return float(lower_bound(log_weights)), log_mean_error(log_weights), len(log_weights), effective


def _part(progress: Progress | None, start: float, length: float) -> Progress:
    """Progress of a part, as progress of the whole."""
    return lambda share: progress(start + length * share) if progress else None


def known_by(branches: BranchModel | None, topologies: TopologyBatch) -> BoolArray:
    """Which topologies can be annealed from what a model says of their lengths, (topologies,)."""
    if branches is None or not is_made_of_noise(branches.family):
        return np.zeros(len(topologies), np.bool_)
    return branches.knows(topologies)


def evidence_shares(found: TopologyEvidence, log_others: float, others_error: float) -> EvidenceShares:
    """Posterior probabilities from evidence. log_others: log p(Y, τ), summed over all other topologies, and its error.

    Parts p of a sum, each with the relative error e, have the variances (p e)².
    """
    logarithms = np.append(found.log_evidence, log_others)
    errors = np.append(found.error, others_error)
    probability = np.exp(logarithms - np.logaddexp.reduce(logarithms))
    variances = (probability * errors) ** 2
    error = share_errors(probability, variances, float(variances.sum()))
    return EvidenceShares(probability[:-1], error[:-1], float(probability[-1]), float(error[-1]))


def _no_score(topologies: TopologyBatch) -> FloatArray:
    return np.zeros(len(topologies))


def _fitted(target: TreePosterior, topologies: TopologyBatch, stream: RandomStream, progress: Progress) -> NoiseSpace:
    index = TopologyIndex(topologies)
    fitted = fit_lengths(target, topologies, stream=stream, progress=progress)
    return NoiseSpace(target, Warped, lambda some: fitted[index.find(some)], _no_score)


def _anneal(
    space: NoiseSpace,
    topologies: TopologyBatch,
    error: float,
    most_draws: int,
    stream: RandomStream,
    progress: Progress,
) -> list[FloatArray]:
    """Log weights of each topology's lengths, moved to their posterior, with twice as many draws in every round."""

    def start(which: LongArray, own_stream: RandomStream) -> MovingTrees:
        noise = [standard_normal(len(which), topologies.branch_count, own_stream.named("noise"))]
        if space.dimension:
            noise.append(standard_normal(len(which), space.dimension, own_stream.named("theta")))
        return MovingTrees(space, topologies.take(which), np.concatenate(noise, axis=1))

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
        progress(1 - len(going) / len(topologies) / 2**step)
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
