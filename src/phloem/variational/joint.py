"""Q(τ, q) = Q(τ) Q(q given τ): a subsplit network and a branch-length model, drawn from together."""

from typing import NamedTuple

from torch import Tensor, nn

from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.topology import TopologyBatch
from phloem.variational.branch_models import BranchModel, GraphModel, TableModel
from phloem.variational.sbn import SubsplitNetwork


class TreeDraw(NamedTuple):
    """Topologies with branch lengths, drawn from Q, and the logarithms of their densities."""

    topologies: TopologyBatch
    lengths: Tensor  # (batch, 2n-3), differentiable in the branch model
    log_q_topology: Tensor  # (batch,), differentiable in the network
    log_q_branches: Tensor  # (batch,), differentiable in the branch model


class JointModel(nn.Module):
    """A distribution over trees with branch lengths."""

    def __init__(self, network: SubsplitNetwork, branches: BranchModel) -> None:
        super().__init__()
        taxa = network.support.taxa
        if isinstance(branches, TableModel) and branches.support is not network.support:
            raise BadArgument("joint model: the network and the table of branch lengths have different supports.")
        if isinstance(branches, GraphModel):
            branches.features.check_taxon_count(len(taxa))
        self.network = network
        self.branches = branches

    def draw(self, count: int, *, stream: RandomStream, path_only: bool = False) -> TreeDraw:
        """Independent trees; the i-th has the random numbers of particle i from the stream's own on.

        path_only: the gradient of log_q_branches flows through the lengths alone.
        """
        topologies, log_prob, located = self.network.draw(count, stream=stream.named("topology"))
        lengths, log_density = self.branches(topologies, located).sample(
            stream=stream.named("lengths"), path_only=path_only
        )
        return TreeDraw(topologies, lengths, log_prob, log_density)
