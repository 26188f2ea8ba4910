"""Branch-length models: from a topology to the distribution of its branch lengths."""

from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from phloem.arrays import BoolArray, IntArray
from phloem.autograd import refuse_second_derivatives
from phloem.config.infer import BRANCH_MODELS
from phloem.errors import BadArgument
from phloem.features.layers import run
from phloem.features.learnable import BranchReadout, ConvolutionChoice, NodeFeatures
from phloem.kernels.variational.branches import sum_rows, sum_rows_backward
from phloem.trees.topology import TopologyBatch
from phloem.variational.families import BranchDistribution, Lognormal
from phloem.variational.support import Located, SubsplitSupport


class BranchModel(nn.Module, ABC):
    """Q(q given τ): some numbers for every branch of a topology, which a family turns into a distribution of lengths.

    `located` is what the topologies use of the support, where a draw from the subsplit network has it at hand.
    """

    def __init__(self, family: type[BranchDistribution]) -> None:
        super().__init__()
        self.family = family

    def forward(self, topologies: TopologyBatch, located: Located | None = None) -> BranchDistribution:
        """The distribution of the branch lengths of each topology."""
        return self.family(self.numbers(topologies, located))

    @abstractmethod
    def numbers(self, topologies: TopologyBatch, located: Located | None = None) -> Tensor:
        """The family's numbers for every branch, (batch, 2n-3, numbers_per_branch)."""

    @abstractmethod
    def knows(self, topologies: TopologyBatch, located: Located | None = None) -> BoolArray:
        """Whether the model has numbers for all branches of each topology, (batch,)."""


class TableModel(BranchModel, ABC):
    """A model that looks its numbers up: each branch has the sum of some rows of a table, which begins at zero."""

    def __init__(self, support: SubsplitSupport, rows: int, family: type[BranchDistribution]) -> None:
        super().__init__(family)
        self.support = support
        self.table = nn.Parameter(torch.zeros(rows, family.numbers_per_branch, dtype=torch.float64))

    def numbers(self, topologies: TopologyBatch, located: Located | None = None) -> Tensor:
        """The family's numbers for every branch, (batch, 2n-3, numbers_per_branch)."""
        located = located or self.support.locate(topologies)
        if len(located.splits) != len(topologies):
            raise BadArgument(f"branch lengths: {len(located.splits)} located trees for {len(topologies)} topologies.")
        known = self.knows(topologies, located)
        if not known.all():
            raise BadArgument(
                f"branch lengths: tree {int(known.argmin()) + 1} of {len(known)} has a split or subsplit that the "
                "support lacks. Leave out those that the model does not know."
            )
        rows = self._rows(located)
        sums: Tensor = _SumRows.apply(self.table, rows.reshape(-1, rows.shape[2]))
        return sums.reshape(*rows.shape[:2], self.family.numbers_per_branch)

    @abstractmethod
    def _rows(self, located: Located) -> IntArray:
        """Rows of the table for every branch, (batch, 2n-3, terms); -1 for none."""


@final
class SplitModel(TableModel):
    """One row for every split of the support: branches that divide the taxa alike share their distribution."""

    def __init__(self, support: SubsplitSupport, family: type[BranchDistribution] = Lognormal) -> None:
        super().__init__(support, len(support.splits), family)

    def knows(self, topologies: TopologyBatch, located: Located | None = None) -> BoolArray:
        """Whether all splits of each topology are in the support, (batch,)."""
        located = located or self.support.locate(topologies)
        return np.asarray((located.splits >= 0).all(axis=1))

    def _rows(self, located: Located) -> IntArray:
        return located.splits[:, :, None]


@final
class PspModel(TableModel):
    """A row for every split and every primary subsplit pair: how a side of the branch divides, given the other.

    An interior branch has the sum of three rows, a pendant one of two (Zhang & Matsen 2019).
    """

    def __init__(self, support: SubsplitSupport, family: type[BranchDistribution] = Lognormal) -> None:
        super().__init__(support, len(support.splits) + len(support.subsplits), family)

    def knows(self, topologies: TopologyBatch, located: Located | None = None) -> BoolArray:
        """Whether all splits and primary subsplit pairs of each topology are in the support, (batch,)."""
        located = located or self.support.locate(topologies)
        splits = (located.splits >= 0).all(axis=1)
        above = (located.subsplits[:, :, 1] >= 0).all(axis=1)
        below = (located.subsplits[:, topologies.taxon_count :, 0] >= 0).all(axis=1)  # leaves have none
        return np.asarray(splits & above & below)

    def _rows(self, located: Located) -> IntArray:
        rows = np.empty((*located.splits.shape, 3), np.int32)
        rows[:, :, 0] = located.splits
        rows[:, :, 1:] = np.where(located.subsplits < 0, -1, located.subsplits + len(self.support.splits))
        return rows


@final
class GraphModel(BranchModel):
    """Numbers from learnable features of the tree itself: no table, so that every topology on the taxa has them.

    Equal topologies of a batch are evaluated once.
    """

    def __init__(
        self,
        taxon_count: int,
        convolution: ConvolutionChoice = "edge",
        *,
        depth: int = 2,
        width: int = 100,
        family: type[BranchDistribution] = Lognormal,
    ) -> None:
        super().__init__(family)
        self.features = NodeFeatures(taxon_count, convolution, depth=depth, width=width)
        self.readout = BranchReadout(width, family.numbers_per_branch)

    def numbers(self, topologies: TopologyBatch, _located: Located | None = None) -> Tensor:
        """The family's numbers for every branch, (batch, 2n-3, numbers_per_branch)."""
        distinct, group = topologies.distinct()
        states, graph = self.features.raw_states(distinct)
        steps, states = self.features.pending(states, graph)
        numbers = run([*steps, *self.readout.steps()], states, graph)
        numbers = numbers.reshape(len(distinct), topologies.branch_count, self.family.numbers_per_branch)
        return numbers if len(distinct) == len(topologies) else numbers[group]

    def knows(self, topologies: TopologyBatch, _located: Located | None = None) -> BoolArray:
        """All of them, (batch,)."""
        self.features.check_taxon_count(topologies.taxon_count)
        return np.ones(len(topologies), np.bool_)


class _SumRows(torch.autograd.Function):
    """Σ_k table[rows[i, k]], without the rows of -1."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: IntArray) -> Tensor:
        ctx.arguments = rows, table.shape
        sums = table.new_empty((len(rows), table.shape[1]))
        sum_rows(table.detach().numpy(), rows, sums.numpy())
        return sums

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        refuse_second_derivatives()
        rows, shape = ctx.arguments
        table_gradient = gradient.new_zeros(shape)
        sum_rows_backward(gradient.contiguous().numpy(), rows, table_gradient.numpy())
        return table_gradient, None


def build_branch_model(name: str, support: SubsplitSupport, *, depth: int = 2, width: int = 100) -> BranchModel:
    """The model of that name for the taxa of a support; depth and width are those of graph models."""
    if name == "split":
        return SplitModel(support)
    if name == "psp":
        return PspModel(support)
    if name not in BRANCH_MODELS:
        raise BadArgument(f"branch-length model {name}: choose one of {', '.join(BRANCH_MODELS)}.")
    return GraphModel(len(support.taxa), name, depth=depth, width=width)
