"""Q(τ, q, θ) = Q(τ) Q(θ) Q(q given τ, θ): models that choose the branch lengths' distribution, and the joint.

A branch model maps a topology to parameters for each of its branches, a family (families.py) turns these into a
distribution of lengths, and `JointModel` draws topologies and lengths together. Where parameters θ of the substitution
model are inferred, they have a distribution of their own (parameters.py), and each branch has a column for every
coordinate of θ: by how much its location moves with the noise that θ is made of.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from phloem.arrays import BoolArray, FloatArray, IntArray
from phloem.autograd import Application, Operation
from phloem.errors import BadArgument, FileProblem
from phloem.features.convolutions import CONVOLUTIONS, BranchReadout, ConvolutionChoice, NodeFeatures
from phloem.features.layers import chain, run
from phloem.kernels.variational.branches import sum_rows, sum_rows_backward
from phloem.random_streams import RandomStream
from phloem.storage.files import atomic_write, read_bytes
from phloem.trees.topology import TopologyBatch
from phloem.variational.families import (
    FIRST_SPREAD,
    BranchDistribution,
    LengthsFromNoise,
    Lognormal,
    standard_normal,
)
from phloem.variational.parameters import ParameterModel, lengths_from_noise, shifted
from phloem.variational.sbn import SubsplitIndices, SubsplitNetwork, SubsplitSupport

MOST_NODES = 50_000  # of trees that go through a branch model at a time when it is trained: 250 trees on 100 taxa


@final
class _SampleNetwork(Operation):
    """Lengths and log-densities from the inputs of an operation that gives a family's parameters.

    sample: from parameters (trees, *shape), where shape is (branches, parameters), to lengths and log-densities. group:
    the number of every tree's parameters, if equal trees share them.
    """

    shares_memory = True

    def __init__(
        self, network: Operation, sample: Operation, shape: tuple[int, int], group: list[int] | None = None
    ) -> None:
        self.network = network
        self.sample = sample
        self.shape = shape
        self.group = group

    def values(self, wanted: tuple[bool, ...], *inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        """The lengths and the log-density of each tree's."""
        outputs = self.network.values(wanted, *inputs)
        assert isinstance(outputs, Tensor)
        parameters = outputs.reshape(-1, *self.shape)
        self.distinct = len(parameters)
        lengths, log_densities = self.sample.values(
            (True,), parameters if self.group is None else parameters[self.group]
        )
        return lengths, log_densities

    def gradients(
        self, wanted: tuple[bool, ...], length_gradient: Tensor, density_gradient: Tensor
    ) -> tuple[Tensor | None, ...]:
        """The gradients of the network's inputs."""
        (gradient,) = self.sample.gradients((True,), length_gradient, density_gradient)
        assert gradient is not None
        if self.group is not None:
            of_trees, sums = gradient.numpy(), np.zeros((self.distinct, *gradient.shape[1:]), gradient.numpy().dtype)
            np.add.at(sums, self.group, of_trees)
            gradient = torch.from_numpy(sums)
        return self.network.gradients(wanted, gradient.reshape(-1, self.shape[1]))


class BranchModel(nn.Module, ABC):
    """Q(q given τ, θ): parameters for every branch of a topology, which a family turns into a distribution of lengths.

    `indices` are the topologies' subsplit indices, if they are known from a draw of the subsplit network. dimension: of
    θ, if the substitution model has parameters to infer; `theta_noise` is what they are made of, (batch, dimension).
    """

    def __init__(self, family: type[BranchDistribution], dimension: int = 0) -> None:
        super().__init__()
        self.family = family
        self.dimension = dimension

    @property
    def columns(self) -> int:
        """Of a branch's parameters: the family's, and a shift for each coordinate of θ."""
        return self.family.parameters_per_branch + self.dimension

    def forward(
        self,
        topologies: TopologyBatch,
        indices: SubsplitIndices | None = None,
        theta_noise: FloatArray | None = None,
    ) -> BranchDistribution:
        """The distribution of the branch lengths of each topology."""
        parameters = self.branch_parameters(topologies, indices)
        if self.dimension:
            if theta_noise is None:
                raise BadArgument("branch lengths: they depend on the model's parameters. Give `theta_noise`.")
            parameters = shifted(parameters, theta_noise)
        return self.family(parameters, topologies)

    @abstractmethod
    def branch_parameters(self, topologies: TopologyBatch, indices: SubsplitIndices | None = None) -> Tensor:
        """Parameters for every branch, (batch, 2n-3, columns)."""

    def sampling(
        self,
        topologies: TopologyBatch,
        indices: SubsplitIndices,
        *,
        stream: RandomStream,
        path_only: bool,
        theta_noise: FloatArray | None = None,
    ) -> Application | None:
        """`forward` and `sample` as one operation on the model's parameters; None if there is no such operation."""
        return None

    def _from_noise(
        self, topologies: TopologyBatch, stream: RandomStream, path_only: bool, theta_noise: FloatArray | None
    ) -> LengthsFromNoise | None:
        """The family's operation from parameters to lengths, if there is one."""
        noise = standard_normal(len(topologies), topologies.branch_count, stream)
        return lengths_from_noise(self.family, topologies, noise, theta_noise, path_only=path_only)

    @abstractmethod
    def knows(self, topologies: TopologyBatch, indices: SubsplitIndices | None = None) -> BoolArray:
        """Whether the model has parameters for all branches of each topology, (batch,)."""


class TableModel(BranchModel, ABC):
    """A lookup table: a branch's parameters are the sum of some rows of it, all zero initially."""

    def __init__(self, support: SubsplitSupport, rows: int, family: type[BranchDistribution], dimension: int) -> None:
        super().__init__(family, dimension)
        self.support = support
        self.table = nn.Parameter(torch.zeros(rows, self.columns, dtype=torch.float64))

    def branch_parameters(self, topologies: TopologyBatch, indices: SubsplitIndices | None = None) -> Tensor:
        """Parameters for every branch, (batch, 2n-3, columns)."""
        sums: Tensor = self._sums(topologies, indices or self.support.indices(topologies))(self.table)
        return sums.reshape(*topologies.parent[:, 1:].shape, self.columns)

    def sampling(
        self,
        topologies: TopologyBatch,
        indices: SubsplitIndices,
        *,
        stream: RandomStream,
        path_only: bool,
        theta_noise: FloatArray | None = None,
    ) -> Application | None:
        """Sums of rows and lengths as one operation; None if the family has none."""
        shape = (topologies.branch_count, self.columns)
        sample = self._from_noise(topologies, stream, path_only, theta_noise)
        if sample is None:
            return None
        return Application(_SampleNetwork(self._sums(topologies, indices), sample, shape), self.table)

    def begin_at(self, log_length: float) -> None:
        """Let all branches begin with lengths of about this logarithm. The rows of splits are the first."""
        with torch.no_grad():
            for row in self.table[: len(self.support.splits)]:
                self.family.begin_at(row, log_length)

    def _sums(self, topologies: TopologyBatch, indices: SubsplitIndices) -> "_SumRows":
        """The sums of rows for all branches of all topologies."""
        if len(indices.splits) != len(topologies):
            raise BadArgument(
                f"branch lengths: subsplit indices of {len(indices.splits)} trees for {len(topologies)} topologies."
            )
        known = self.knows(topologies, indices)
        if not known.all():
            raise BadArgument(
                f"branch lengths: tree {int(known.argmin()) + 1} of {len(known)} has a split or subsplit that is not "
                "in the support. Leave out trees for which `knows` is false."
            )
        rows = self._rows(indices)
        return _SumRows(rows.reshape(-1, rows.shape[2]))

    @abstractmethod
    def _rows(self, indices: SubsplitIndices) -> IntArray:
        """Rows of the table to be added for every branch, (batch, 2n-3, terms); -1 for none."""


@final
class _SumRows(Operation):
    """Σ_k table[rows[i, k]], skipping rows of -1."""

    def __init__(self, rows: IntArray) -> None:
        self.rows = rows

    def values(self, _wanted: tuple[bool, ...], table: Tensor) -> Tensor:
        """The sums, (len(rows), columns)."""
        self.shape = table.shape
        sums = table.new_empty((len(self.rows), table.shape[1]))
        sum_rows(table.detach().contiguous().numpy(), self.rows, sums.numpy())
        return sums

    def gradients(self, _wanted: tuple[bool, ...], gradient: Tensor) -> tuple[Tensor, ...]:
        """The table's gradient."""
        table_gradient = gradient.new_zeros(self.shape)
        sum_rows_backward(gradient.contiguous().numpy(), self.rows, table_gradient.numpy())
        return (table_gradient,)


@final
class SplitModel(TableModel):
    """A row for every split of the support: branches with the same split share their distribution."""

    def __init__(
        self, support: SubsplitSupport, family: type[BranchDistribution] = Lognormal, dimension: int = 0
    ) -> None:
        super().__init__(support, len(support.splits), family, dimension)

    def knows(self, topologies: TopologyBatch, indices: SubsplitIndices | None = None) -> BoolArray:
        """Whether all splits of each topology are in the support, (batch,)."""
        indices = indices or self.support.indices(topologies)
        return np.asarray((indices.splits >= 0).all(axis=1))

    def _rows(self, indices: SubsplitIndices) -> IntArray:
        return indices.splits[:, :, None]


@final
class PspModel(TableModel):
    """A row for every split and every primary subsplit pair, which is how one side of a branch divides given the other.

    An interior branch adds three rows, a pendant branch two (Zhang & Matsen 2019).
    """

    def __init__(
        self, support: SubsplitSupport, family: type[BranchDistribution] = Lognormal, dimension: int = 0
    ) -> None:
        super().__init__(support, len(support.splits) + len(support.subsplits), family, dimension)

    def knows(self, topologies: TopologyBatch, indices: SubsplitIndices | None = None) -> BoolArray:
        """Whether all splits and primary subsplit pairs of each topology are in the support, (batch,)."""
        indices = indices or self.support.indices(topologies)
        splits = (indices.splits >= 0).all(axis=1)
        above = (indices.subsplits[:, :, 1] >= 0).all(axis=1)
        below = (indices.subsplits[:, topologies.taxon_count :, 0] >= 0).all(axis=1)  # leaves have none
        return np.asarray(splits & above & below)

    def _rows(self, indices: SubsplitIndices) -> IntArray:
        rows = np.empty((*indices.splits.shape, 3), np.int32)
        rows[:, :, 0] = indices.splits
        rows[:, :, 1:] = np.where(indices.subsplits < 0, -1, indices.subsplits + len(self.support.splits))
        return rows


@final
class GraphModel(BranchModel):
    """Parameters from learnable features of the tree itself, so every topology on the taxa has them.

    Equal topologies in a batch are evaluated once.
    """

    def __init__(
        self,
        taxon_count: int,
        convolution: ConvolutionChoice = "edge",
        *,
        depth: int = 2,
        width: int = 100,
        family: type[BranchDistribution] = Lognormal,
        dimension: int = 0,
    ) -> None:
        super().__init__(family, dimension)
        self.features = NodeFeatures(taxon_count, convolution, depth=depth, width=width)
        self.readout = BranchReadout(width, self.columns)
        own = slice(family.parameters_per_branch)
        with torch.no_grad():
            family.start(self.readout.second.weight[own], self.readout.second.bias[own])
            self.readout.second.weight[own.stop :] *= FIRST_SPREAD
            self.readout.second.bias[own.stop :] = 0.0

    def branch_parameters(self, topologies: TopologyBatch, _indices: SubsplitIndices | None = None) -> Tensor:
        """Parameters for every branch, (batch, 2n-3, columns)."""
        distinct, group = topologies.distinct()
        states, graph = self.features.raw_states(distinct)
        layers, states = self.features.pending_layers(states, graph)
        outputs = run([*layers, *self.readout.layers()], states, graph)
        parameters = outputs.reshape(len(distinct), topologies.branch_count, self.columns)
        return parameters if len(distinct) == len(topologies) else parameters[group]

    def sampling(
        self,
        topologies: TopologyBatch,
        _indices: SubsplitIndices,
        *,
        stream: RandomStream,
        path_only: bool,
        theta_noise: FloatArray | None = None,
    ) -> Application | None:
        """All layers and lengths as one operation; None if the family has none, or layers are not fused."""
        shape = (topologies.branch_count, self.columns)
        sample = self._from_noise(topologies, stream, path_only, theta_noise)
        layers = self.features.layers()
        if layers is None or sample is None:
            return None
        distinct, group = topologies.distinct()
        network, inputs = chain([*layers, *self.readout.layers()], *self.features.raw_states(distinct))
        shared = None if len(distinct) == len(topologies) else group
        return Application(_SampleNetwork(network, sample, shape, shared), *inputs)

    def knows(self, topologies: TopologyBatch, _indices: SubsplitIndices | None = None) -> BoolArray:
        """True for every topology on the taxa, (batch,)."""
        self.features.check_taxon_count(topologies.taxon_count)
        return np.ones(len(topologies), np.bool_)


def build_branch_model(
    name: str,
    support: SubsplitSupport,
    *,
    depth: int = 2,
    width: int = 100,
    convolution: ConvolutionChoice | None = None,
    family: type[BranchDistribution] = Lognormal,
    dimension: int = 0,
) -> BranchModel:
    """The branch model with this name for the taxa of a support; depth and width are for graph models.

    convolution: in place of the one that a graph model is named after. dimension: of the model's parameters θ.
    """
    if name == "split":
        return SplitModel(support, family, dimension)
    if name == "psp":
        return PspModel(support, family, dimension)
    if name not in (*CONVOLUTIONS, "mlp"):
        known = ("split", "psp", "mlp", *CONVOLUTIONS)
        raise BadArgument(f"unknown branch-length model {name}: choose one of {', '.join(known)}.")
    return GraphModel(
        len(support.taxa), convolution or name, depth=depth, width=width, family=family, dimension=dimension
    )


class TreeDraw(NamedTuple):
    """Topologies with branch lengths and model parameters drawn from Q, and their log-densities."""

    topologies: TopologyBatch
    lengths: Tensor  # (batch, 2n-3), differentiable in the branch model
    theta: Tensor  # (batch, dimension), differentiable in the parameter model
    log_q_topology: Tensor  # (batch,), differentiable in the network
    log_q_branches: Tensor  # (batch,)  log Q(q given τ, θ), differentiable in the branch model
    log_q_theta: Tensor  # (batch,), differentiable in the parameter model


class DrawGradients(NamedTuple):
    """Gradients of what was drawn, each in place of that of `TreeDraw` with the same name."""

    lengths: Tensor
    theta: Tensor
    log_q_topology: Tensor
    log_q_branches: Tensor
    log_q_theta: Tensor


PullBack = Callable[[DrawGradients], None]  # adds what follows from them to the parameters' gradients


class JointModel(nn.Module):
    """Q(τ, q, θ): a distribution over trees with branch lengths and, if any are inferred, model parameters."""

    def __init__(self, network: SubsplitNetwork, branches: BranchModel, theta: ParameterModel | None = None) -> None:
        super().__init__()
        taxa = network.support.taxa
        if isinstance(branches, TableModel) and branches.support is not network.support:
            raise BadArgument("joint model: the subsplit network and the branch model must share one support.")
        if isinstance(branches, GraphModel):
            branches.features.check_taxon_count(len(taxa))
        if branches.dimension != (0 if theta is None else theta.dimension):
            raise BadArgument("joint model: the branch model was made for another number of model parameters.")
        self.network = network
        self.branches = branches
        self.theta = theta

    @property
    def dimension(self) -> int:
        """Of the model's parameters θ; 0 if none are inferred."""
        return self.branches.dimension

    def draw(self, count: int, *, stream: RandomStream, path_only: bool = False) -> TreeDraw:
        """Independent trees; tree i uses the random numbers of the stream's i-th particle.

        path_only: the gradient of log_q_branches flows through the lengths alone.
        """
        topologies, log_prob, indices = self.network.draw(count, stream=stream.named("topology"))
        noise = self.theta_noise(count, stream)
        lengths, log_density = self.branches(topologies, indices, noise).sample(
            stream=stream.named("lengths"), path_only=path_only
        )
        return TreeDraw(topologies, lengths, *self._draw_theta(noise, (log_prob, log_density)))

    def draw_lengths(self, topologies: TopologyBatch, *, stream: RandomStream) -> TreeDraw:
        """Branch lengths and model parameters for given topologies."""
        noise = self.theta_noise(len(topologies), stream)
        lengths, log_density = self.branches(topologies, None, noise).sample(stream=stream)
        return TreeDraw(topologies, lengths, *self._draw_theta(noise, (self.network.log_prob(topologies), log_density)))

    def _draw_theta(self, noise: FloatArray, log_q: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Coordinates and, after the log-densities of topologies and lengths, theirs."""
        theta, log_q_theta = _no_parameters(len(noise)) if self.theta is None else self.theta.sample(noise)
        return theta, *log_q, log_q_theta

    def theta_noise(self, count: int, stream: RandomStream) -> FloatArray:
        """The noise that model parameters are made of, (count, dimension)."""
        if not self.dimension:
            return np.empty((count, 0))
        return standard_normal(count, self.dimension, stream.named("theta"))

    def draw_by_hand(self, count: int, *, stream: RandomStream, path_only: bool = False) -> tuple[TreeDraw, PullBack]:
        """The same trees, not recorded by torch's autograd, and how gradients get from them to the parameters.

        This is for training, where autograd's bookkeeping would take longer than most kernels.
        """
        topologies, scoring, indices = self.network.sample_scored(count, stream=stream.named("topology"))
        noise = self.theta_noise(count, stream)
        way = _LengthDraw(self.branches, topologies, indices, noise, stream.named("lengths"), path_only=path_only)
        lengths, log_density = way.values()
        theta_sampling = None
        theta, log_q_theta = _no_parameters(count)
        if self.theta is not None:
            theta_sampling = Application(self.theta.sampling(noise), *self.theta.learned)
            theta, log_q_theta = theta_sampling.values()

        def pull_back(by: DrawGradients) -> None:
            scoring.backward(by.log_q_topology)
            way.backward(by.lengths, by.log_q_branches)
            if theta_sampling is not None:
                theta_sampling.backward(by.theta, by.log_q_theta)

        draw = TreeDraw(topologies, lengths, theta, scoring.values(), log_density, log_q_theta)
        return draw, pull_back


@final
class _LengthDraw:
    """Lengths for topologies from a branch model, and back, by hand.

    Many trees go part by part, so that the layers of a graph network take no more memory than those of `MOST_NODES`.
    What the way back needs is kept for a single part, and of several made again.
    """

    def __init__(
        self,
        branches: BranchModel,
        topologies: TopologyBatch,
        indices: SubsplitIndices,
        theta_noise: FloatArray,
        stream: RandomStream,
        *,
        path_only: bool,
    ) -> None:
        self._branches = branches
        self._topologies = topologies
        self._indices = indices
        self._theta_noise = theta_noise
        self._stream = stream
        self._path_only = path_only
        size = max(1, MOST_NODES // topologies.node_count)
        self._parts = [slice(first, first + size) for first in range(0, max(1, len(topologies)), size)]
        self._kept = self._sampling(self._parts[0]) if len(self._parts) == 1 else None

    def values(self) -> tuple[Tensor, Tensor]:
        """Lengths, (trees, branches), and their log-densities, (trees,)."""
        if self._kept is not None:
            lengths, log_density = self._kept.values()
            return lengths, log_density
        drawn = [self._sampling(part).values() for part in self._parts]
        return torch.cat([lengths for lengths, _ in drawn]), torch.cat([density for _, density in drawn])

    def backward(self, by_lengths: Tensor, by_log_density: Tensor) -> None:
        """From the gradients of both to those of the branch model's parameters, after `values`."""
        if self._kept is not None:
            self._kept.backward(by_lengths, by_log_density)
            return
        for part in self._parts:
            sampling = self._sampling(part)
            sampling.values()
            sampling.backward(by_lengths[part], by_log_density[part])

    def _sampling(self, part: slice) -> "Application | _RecordedLengths":
        if len(self._parts) == 1:
            topologies, indices = self._topologies, self._indices
        else:
            topologies = self._topologies[part]
            indices = SubsplitIndices(*(array[part] for array in self._indices))
        stream = self._stream.at(self._stream.step, self._stream.particle + part.start)
        noise = self._theta_noise[part]
        by_hand = self._branches.sampling(
            topologies, indices, stream=stream, path_only=self._path_only, theta_noise=noise
        )
        if by_hand is not None:
            return by_hand
        distribution = self._branches(topologies, indices, noise)
        return _RecordedLengths(*distribution.sample(stream=stream, path_only=self._path_only))


@final
class _RecordedLengths:
    """Lengths and log-densities that torch's autograd has recorded, in the form of an `Application`."""

    def __init__(self, *outputs: Tensor) -> None:
        self._outputs = outputs

    def values(self) -> tuple[Tensor, ...]:
        """Both, without gradients."""
        return tuple(tensor.detach() for tensor in self._outputs)

    def backward(self, *gradients: Tensor) -> None:
        """From their gradients to those of what they come from."""
        torch.autograd.backward(self._outputs, gradients)


def _no_parameters(count: int) -> tuple[Tensor, Tensor]:
    return torch.zeros(count, 0, dtype=torch.float64), torch.zeros(count, dtype=torch.float64)


def write_parameters(model: JointModel, path: Path) -> None:
    """Write a model's parameters."""
    content = safetensors.torch.save({name: tensor.contiguous() for name, tensor in model.state_dict().items()})
    with atomic_write(path) as stream:
        stream.write(content)


def read_parameters(model: JointModel, path: Path) -> None:
    """Load a model's parameters from a file written for the same kind of model on the same support."""
    try:
        found = safetensors.torch.load(read_bytes(path))
    except SafetensorError as problem:
        raise FileProblem(f"{path}: not a parameter file ({problem}). Name one written by `phloem infer`.") from None
    wanted = model.state_dict()
    if {name: (t.shape, t.dtype) for name, t in found.items()} != {n: (t.shape, t.dtype) for n, t in wanted.items()}:
        raise FileProblem(f"{path}: the parameters belong to another model. Use the run's own support and settings.")
    if not all(tensor.isfinite().all() for tensor in found.values()):
        raise FileProblem(f"{path}: some parameters are not finite. The file is damaged; use another copy.")
    model.load_state_dict(found)
