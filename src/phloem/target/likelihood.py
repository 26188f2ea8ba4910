"""Log-likelihoods of trees with branch lengths, differentiable in the lengths and in the model's parameters."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import FloatArray
from phloem.autograd import refuse_second_derivatives
from phloem.data.patterns import SitePatterns, merge_relabelled
from phloem.errors import BadArgument
from phloem.kernels.likelihood import jukes_cantor, pruning
from phloem.kernels.likelihood.blocks import BLOCK, RESCALING
from phloem.target.substitution import SubstitutionModel, jc69
from phloem.threads import available_threads, share_tasks
from phloem.trees.topology import TopologyBatch

CACHE_LINE = 64  # bytes
Precision = type[np.float64] | type[np.float32]
# Blocks of patterns that share one sum of derivatives: fixed, so that results do not depend on the threads.
BLOCKS_PER_CHUNK = 8


@dataclass(frozen=True, slots=True, eq=False)
class TipTable:
    """Tip partials and weights in blocks; the last block is filled up with patterns of weight 0."""

    tips: FloatArray  # (blocks, taxa, 4, BLOCK), or 5 with the partials' sums
    weights: FloatArray  # (blocks, BLOCK)
    pattern_count: int
    rescaling: FloatArray  # (2,)

    def constant(self) -> FloatArray:
        """1 where all tips may have the state, (blocks, 4, BLOCK)."""
        return np.ascontiguousarray((self.tips[:, :, :4] > 0).all(axis=1).astype(np.float64))


def build_table(patterns: SitePatterns, precision: Precision, *, with_sums: bool) -> TipTable:
    """The table of all patterns: 1 for each state that a tip may have and, `with_sums`, how many these are."""
    tips = tips_in_blocks(patterns)
    if with_sums:
        tips = np.concatenate([tips, tips.sum(axis=3, keepdims=True)], axis=3)
    return TipTable(
        _aligned(tips.transpose(1, 0, 3, 2), precision),
        in_blocks(patterns.counts),
        len(patterns),
        np.array(RESCALING[precision], precision),
    )


def in_blocks(values: FloatArray) -> FloatArray:
    """One value a pattern, (blocks, BLOCK), the last block padded with zeros."""
    padded = np.zeros(-(-len(values) // BLOCK) * BLOCK)
    padded[: len(values)] = values
    return padded.reshape(-1, BLOCK)


def tips_in_blocks(patterns: SitePatterns) -> FloatArray:
    """Tip partials, (taxa, blocks, BLOCK, 4), the last block padded with patterns of which nothing is known."""
    taxa, count = patterns.states.shape
    padded = np.ones((taxa, -(-count // BLOCK) * BLOCK, 4))
    padded[:, :count] = patterns.tip_partials
    return padded.reshape(taxa, -1, BLOCK, 4)


def _aligned(values: FloatArray, precision: Precision) -> FloatArray:
    """A contiguous copy that begins on a cache line: vector loads that straddle two lines take twice as long."""
    size = values.size * np.dtype(precision).itemsize
    room = np.empty(size + CACHE_LINE, np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    copy = cast(FloatArray, room[start : start + size].view(precision).reshape(values.shape))
    copy[...] = values
    return copy


class TreeLikelihood:
    """p(Y given τ, q) for one alignment and one model.

    Under Jukes–Cantor with one rate, one kernel call gives log-likelihoods and all branch gradients, over patterns
    that are merged up to the names of the states. Every other model goes through its transition matrices. The
    result does not depend on the number of threads.
    """

    def __init__(
        self,
        patterns: SitePatterns,
        model: SubstitutionModel | None = None,
        *,
        precision: Precision = np.float64,
        threads: int | None = None,
    ) -> None:
        self.patterns = patterns
        self.model = model or jc69()
        self.threads = available_threads() if threads is None else threads
        if self.threads < 1:
            raise BadArgument(f"{self.threads} threads: give at least 1.")
        self._merged = merge_relabelled(patterns) if self.model.is_jukes_cantor else patterns
        self._table = build_table(self._merged, precision, with_sums=self.model.is_jukes_cantor)
        self._constant = None if self.model.is_jukes_cantor else self._table.constant()

    def __call__(self, topologies: TopologyBatch, branch_lengths: Tensor) -> Tensor:
        """Log-likelihood of each tree, (batch,), from lengths (batch, 2n-3); -inf where it is impossible.

        Where a site is impossible it has no gradient, and the gradient is that of the other sites.
        """
        check_branch_lengths(topologies, branch_lengths, len(self.patterns.taxa))
        if self._constant is None:
            return _JukesCantor.apply(branch_lengths, topologies, self._table, self.threads)[0]
        return self._general(topologies, branch_lengths)[0]

    def of_sites(self, topologies: TopologyBatch, branch_lengths: Tensor) -> FloatArray:
        """Log-likelihood of every site of the alignment, in its order, (batch, sites)."""
        check_branch_lengths(topologies, branch_lengths, len(self.patterns.taxa))
        with torch.no_grad():
            if self._constant is None:
                values = _JukesCantor.apply(branch_lengths, topologies, self._table, self.threads)[1]
            else:
                values = self._general(topologies, branch_lengths)[1]
        of_patterns: FloatArray = values.numpy()
        return of_patterns[:, self._merged.pattern_of_site]

    def _general(self, topologies: TopologyBatch, branch_lengths: Tensor) -> tuple[Tensor, Tensor]:
        model = self.model
        rates = model.site_rates
        invariant = torch.zeros(4, dtype=torch.float64)
        if rates.invariant is not None:
            invariant = rates.invariant * model.frequencies
        return _Pruning.apply(
            model.transition_matrices(branch_lengths),
            model.frequencies,
            rates.weights(),
            invariant,
            topologies,
            self._table,
            self._constant,
            self.threads,
        )


class _JukesCantor(torch.autograd.Function):
    """(log-likelihoods, pattern values): the gradient comes from the same kernel call as the values."""

    @staticmethod
    def forward(
        ctx: Any, lengths: Tensor, topologies: TopologyBatch, table: TipTable, threads: int
    ) -> tuple[Tensor, Tensor]:
        trees, chunks = len(topologies), -(-len(table.tips) // BLOCKS_PER_CHUNK)
        values = np.empty((trees, *table.weights.shape))
        gradients = np.empty((trees, chunks, topologies.branch_count if ctx.needs_input_grad[0] else 0))
        arguments = (
            topologies.neighbors,
            np.ascontiguousarray(lengths.detach().numpy(), np.float64),
            table.tips,
            table.weights,
            table.rescaling,
            BLOCKS_PER_CHUNK,
            values,
            gradients,
        )
        share_tasks(trees * chunks, threads, lambda first, last: jukes_cantor.evaluate_chunks(first, last, *arguments))
        of_patterns = _flatten(values, table)
        ctx.gradients = torch.from_numpy(gradients.sum(axis=1))
        return _outputs(ctx, of_patterns, table)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        refuse_second_derivatives()
        return gradient[:, None] * ctx.gradients, None, None, None


class _Pruning(torch.autograd.Function):
    """(log-likelihoods, pattern values) from transition matrices, with derivatives for all that goes in."""

    @staticmethod
    def forward(
        ctx: Any,
        matrices: Tensor,
        frequencies: Tensor,
        category_weights: Tensor,
        invariant: Tensor,
        topologies: TopologyBatch,
        table: TipTable,
        constant: FloatArray,
        threads: int,
    ) -> tuple[Tensor, Tensor]:
        trees, branches, categories = matrices.shape[:3]
        chunks = -(-len(table.tips) // BLOCKS_PER_CHUNK)
        values = np.empty((trees, *table.weights.shape))
        kept = chunks if any(ctx.needs_input_grad) else 0
        shapes = ((branches, categories, 4, 4), (4,), (categories,), (4,))
        derivatives = [np.zeros((trees, kept, *shape)) for shape in shapes]
        arguments: tuple[Any, ...] = (
            topologies.neighbors,
            np.ascontiguousarray(matrices.detach().numpy(), table.tips.dtype),
            frequencies.detach().numpy(),
            category_weights.detach().numpy(),
            invariant.detach().numpy(),
            table.tips,
            constant,
            table.weights,
            table.rescaling,
            BLOCKS_PER_CHUNK,
            values,
            *derivatives,
        )
        share_tasks(trees * chunks, threads, lambda first, last: pruning.evaluate_chunks(first, last, *arguments))
        of_patterns = _flatten(values, table)
        ctx.derivatives = [torch.from_numpy(derivative.sum(axis=1)) for derivative in derivatives]
        return _outputs(ctx, of_patterns, table)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        matrices, frequencies, weights, invariant = ctx.derivatives
        summed = [gradient @ derivative for derivative in (frequencies, weights, invariant)]
        return gradient[:, None, None, None, None] * matrices, *summed, None, None, None, None


def _outputs(ctx: Any, of_patterns: FloatArray, table: TipTable) -> tuple[Tensor, Tensor]:
    """Sums over the patterns, which have gradients, and the patterns' values, which have none."""
    values = torch.from_numpy(of_patterns)
    ctx.mark_non_differentiable(values)
    return torch.from_numpy(of_patterns @ table.weights.ravel()[: table.pattern_count]), values


def _flatten(values: FloatArray, table: TipTable) -> FloatArray:
    """Blocks to patterns, without those that fill up the last block."""
    return values.reshape(len(values), -1)[:, : table.pattern_count]


def check_branch_lengths(topologies: TopologyBatch, branch_lengths: Tensor, taxon_count: int) -> None:
    """Raise unless there is one finite length >= 0 for every branch of trees on that many taxa."""
    if topologies.taxon_count != taxon_count:
        raise BadArgument(f"trees on {topologies.taxon_count} taxa for an alignment of {taxon_count}.")
    expected = (len(topologies), topologies.branch_count)
    if tuple(branch_lengths.shape) != expected:
        raise BadArgument(f"branch lengths of shape {tuple(branch_lengths.shape)}: {expected} is needed.")
    lengths = branch_lengths.detach().numpy()
    good = (lengths >= 0) & (lengths < np.inf)
    if not good.all():
        tree, branch = np.argwhere(~good)[0]
        raise BadArgument(
            f"tree {tree + 1}, branch {branch}: length {lengths[tree, branch]:g}. "
            "Lengths must be finite and not negative."
        )
