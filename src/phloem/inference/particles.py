"""Particles: trees drawn from Q and weighed against the target. All log weights are computed here."""

from typing import NamedTuple

from torch import Tensor

from phloem.errors import TaxonMismatch
from phloem.kernels.arrays import FloatArray
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.trees.topology import TopologyBatch
from phloem.variational.joint import JointModel


class Particles(NamedTuple):
    """Trees from Q with all that their weights are made of, each (particles,) but for the lengths."""

    topologies: TopologyBatch
    lengths: Tensor  # (particles, 2n-3)
    log_joint: Tensor  # log p(Y, τ, q), its likelihood tempered
    log_q_topology: Tensor
    log_q_branches: Tensor

    def log_weights(self) -> FloatArray:
        """log p(Y, τ, q) - log Q(τ, q), (particles,), as numbers."""
        log_joint, *log_q = (part.detach().numpy() for part in self[2:])
        weights: FloatArray = log_joint - log_q[0] - log_q[1]
        return weights


def check_same_taxa(model: JointModel, target: TreePosterior) -> None:
    """Raise unless model and target speak of the same taxa in the same order."""
    if model.network.support.taxa != target.likelihood.patterns.taxa:
        raise TaxonMismatch(
            "the support's taxa are not the alignment's, or not in its order. Read the trees with taxa=alignment.taxa."
        )


def draw_particles(
    model: JointModel,
    target: TreePosterior,
    count: int,
    *,
    stream: RandomStream,
    inverse_temperature: float = 1.0,
    path_only: bool = False,
) -> Particles:
    """Draw trees from Q and weigh them; particle i has the random numbers of the stream's i-th particle.

    path_only: the gradient of log_q_branches flows through the lengths alone.
    """
    draw = model.draw(count, stream=stream, path_only=path_only)
    log_joint = target.log_joint(draw.topologies, draw.lengths, inverse_temperature)
    return Particles(draw.topologies, draw.lengths, log_joint, draw.log_q_topology, draw.log_q_branches)
