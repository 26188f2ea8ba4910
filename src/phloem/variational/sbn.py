"""Subsplit Bayesian networks: distributions over topologies that sum to one (Zhang & Matsen 2018)."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from phloem.errors import BadArgument
from phloem.features.derivatives import refuse_second_derivatives
from phloem.kernels import sbn
from phloem.kernels.arrays import FloatArray, LongArray
from phloem.random_streams import RandomStream
from phloem.trees.topology import TopologyBatch
from phloem.variational.support import Located, SubsplitSupport


class Tables(NamedTuple):
    """The conditional probabilities of all entries; each table sums to one."""

    probabilities: FloatArray  # (entries,)
    log_probabilities: FloatArray  # (entries,)


class TopologyDraw(NamedTuple):
    """Sampled topologies, their log-probabilities and what they use of the support."""

    topologies: TopologyBatch
    log_prob: Tensor  # (batch,)
    located: Located


class SubsplitNetwork(nn.Module):
    """Q(τ): an unrooted topology's probability is the sum over its 2n-3 rootings.

    A rooted tree is drawn from the root split down, each clade dividing as its table says given its sister.
    Tables are softmaxes of `logits`; those without parameters are uniform. Topologies outside the support have
    probability zero.
    """

    logits: Tensor  # (parameters,)

    def __init__(self, support: SubsplitSupport, logits: Tensor | None = None) -> None:
        super().__init__()
        self.support = support
        if logits is None:
            logits = torch.zeros(support.parameter_count, dtype=torch.float64)
        if logits.shape != (support.parameter_count,) or logits.dtype != torch.float64:
            raise BadArgument(
                f"subsplit network: {logits.dtype} logits of shape {tuple(logits.shape)}, "
                f"where the support has {support.parameter_count} parameters in double precision."
            )
        self.logits = nn.Parameter(logits)

    def tables(self) -> Tables:
        """Softmax of every table."""
        return normalize_tables(self.support, self.logits.detach())

    def sample(self, count: int, *, stream: RandomStream) -> TopologyBatch:
        """Independent topologies; the i-th has the random numbers of particle i from the stream's own on."""
        return self._sample(count, stream, self.tables())

    def draw(self, count: int, *, stream: RandomStream) -> TopologyDraw:
        """Sample topologies and take their log-probabilities, with one softmax for both."""
        tables = self.tables()
        topologies = self._sample(count, stream, tables)
        located = self.support.locate(topologies)
        return TopologyDraw(topologies, self._log_prob(located, tables, None), located)

    def log_prob(self, topologies: TopologyBatch) -> Tensor:
        """log Q(τ), (batch,), differentiable in the logits; -inf outside the support."""
        return self._log_prob(self.support.locate(topologies), self.tables(), None)

    def log_prob_rooted(self, topologies: TopologyBatch, root_branches: LongArray) -> Tensor:
        """Log-probability, (batch,), of each topology with its root on the branch root_branches[i], (batch,)."""
        roots = np.asarray(root_branches)
        if roots.shape != (len(topologies),) or roots.dtype.kind not in "iu":
            raise BadArgument(f"root branches of shape {roots.shape}: one branch number for each topology is needed.")
        if roots.size and not 0 <= roots.min() <= roots.max() < topologies.branch_count:
            raise BadArgument(f"root branches: give numbers from 0 to {topologies.branch_count - 1}.")
        return self._log_prob(self.support.locate(topologies), self.tables(), roots)

    def _sample(self, count: int, stream: RandomStream, tables: Tables) -> TopologyBatch:
        if count < 0:
            raise BadArgument(f"subsplit network: {count} topologies asked for. Ask for 0 or more.")
        support = self.support
        parents = np.empty((count, 2 * len(support.taxa) - 2), np.int32)
        sbn.sample_trees(
            tables.probabilities,
            support.starts,
            support.children,
            len(support.taxa),
            stream.key(),
            stream.step,
            stream.particle,
            parents,
        )
        return TopologyBatch.from_canonical(parents)

    def _log_prob(self, located: Located, tables: Tables, roots: LongArray | None) -> Tensor:
        result: Tensor = _LogProbability.apply(self.logits, self.support, located, tables, roots)
        return result


def normalize_tables(support: SubsplitSupport, logits: Tensor) -> Tables:
    """Softmax of each table with parameters; the others are uniform. Exponentials and logarithms run as vector code."""
    starts = support.free_starts
    parameters = support.parameter_count
    log_probabilities, probabilities = np.empty(support.entry_count), np.empty(support.entry_count)
    log_probabilities[parameters:] = 0
    probabilities[parameters:] = 1
    if parameters == 0:
        root_splits = len(support.splits)
        probabilities[:root_splits] = 1 / root_splits
        log_probabilities[:root_splits] = -np.log(root_splits)
    sbn.shift_tables(np.ascontiguousarray(logits.numpy()), starts, log_probabilities, probabilities)
    torch.from_numpy(probabilities[:parameters]).exp_()
    sums = sbn.sum_tables(probabilities, starts)
    log_sums = torch.from_numpy(sums).log().numpy()
    sbn.scale_tables(sums, log_sums, starts, probabilities, log_probabilities)
    return Tables(probabilities, log_probabilities)


def log_rootings(located: Located, tables: Tables) -> FloatArray:
    """Log-probability of every rooting of located topologies, (batch, 2n-3)."""
    return sbn.log_rootings(located.neighbors, located.splits, located.entries, tables.log_probabilities)


def count_entries(support: SubsplitSupport, located: Located, shares: FloatArray, weights: FloatArray) -> FloatArray:
    """How often each entry is used by trees with weights (batch,), whose rootings have shares (batch, 2n-3)."""
    counts = np.zeros(support.entry_count)
    sbn.count_entries(located.neighbors, located.splits, located.entries, shares, weights, counts)
    return counts


class _LogProbability(torch.autograd.Function):
    """log Q(τ) as a function of the logits: the gradient counts how often each entry is used, by root posterior."""

    @staticmethod
    def forward(
        ctx: Any, _logits: Tensor, support: SubsplitSupport, located: Located, tables: Tables, roots: LongArray | None
    ) -> Tensor:
        rootings = log_rootings(located, tables)
        if roots is None:
            values, shares = sbn.sum_rootings(rootings)
        else:
            values = np.take_along_axis(rootings, roots[:, None], axis=1)[:, 0]
            shares = np.zeros_like(rootings)
            shares[np.arange(len(roots)), roots] = np.isfinite(values)
        ctx.support, ctx.located, ctx.probabilities, ctx.shares = support, located, tables.probabilities, shares
        return torch.from_numpy(values)

    @staticmethod
    def backward(ctx: Any, output_gradient: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        counts = count_entries(ctx.support, ctx.located, ctx.shares, output_gradient.contiguous().numpy())
        gradient = sbn.logit_gradient(counts, ctx.probabilities, ctx.support.free_starts)
        return torch.from_numpy(gradient), None, None, None, None
