"""Q(τ, q) = Q(τ) Q(q given τ): a subsplit network and a branch-length model, drawn from together."""

from pathlib import Path
from typing import NamedTuple

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from phloem.errors import BadArgument, FileProblem
from phloem.random_streams import RandomStream
from phloem.storage.files import atomic_write, read_bytes
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


def write_parameters(model: JointModel, path: Path) -> None:
    """Write all parameters of a model."""
    content = safetensors.torch.save({name: tensor.contiguous() for name, tensor in model.state_dict().items()})
    with atomic_write(path) as stream:
        stream.write(content)


def read_parameters(model: JointModel, path: Path) -> None:
    """Give a model the parameters of a file that was written for one of the same kind on the same support."""
    try:
        found = safetensors.torch.load(read_bytes(path))
    except SafetensorError as problem:
        raise FileProblem(f"{path}: holds no parameters ({problem}). Name a file that `phloem infer` wrote.") from None
    wanted = model.state_dict()
    if {name: (t.shape, t.dtype) for name, t in found.items()} != {n: (t.shape, t.dtype) for n, t in wanted.items()}:
        raise FileProblem(f"{path}: holds the parameters of another model. Use the run's own support and settings.")
    if not all(tensor.isfinite().all() for tensor in found.values()):
        raise FileProblem(f"{path}: some parameters are no numbers. The file is damaged: use another copy.")
    model.load_state_dict(found)
