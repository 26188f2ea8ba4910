"""Log-likelihoods of trees with branch lengths, differentiable in the lengths and in the model's parameters."""

from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import FloatArray, RealArray
from phloem.autograd import Operation, check_tensors, plain_values
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
        values: Tensor = self._operation(topologies)(*self._inputs(branch_lengths))
        return values

    def of_sites(self, topologies: TopologyBatch, branch_lengths: Tensor) -> FloatArray:
        """Log-likelihood of every site of the alignment, in its order, (batch, sites)."""
        check_branch_lengths(topologies, branch_lengths, len(self.patterns.taxa))
        with torch.no_grad():
            of_patterns = self._operation(topologies).of_patterns(*map(plain_values, self._inputs(branch_lengths)))
        return of_patterns[:, self._merged.pattern_of_site]

    def _operation(self, topologies: TopologyBatch) -> "_JukesCantor | _Pruning":
        if self._constant is None:
            return _JukesCantor(topologies, self._table, self.threads)
        return _Pruning(topologies, self._table, self._constant, self.threads)

    def _inputs(self, branch_lengths: Tensor) -> tuple[Tensor, ...]:
        """What the operation takes: the lengths, or all that the model makes of them."""
        if self._constant is None:
            return (branch_lengths,)
        rates, frequencies = self.model.site_rates, self.model.frequencies
        invariant = torch.zeros(4, dtype=torch.float64)
        if rates.invariant is not None:
            invariant = rates.invariant * frequencies
        return self.model.transition_matrices(branch_lengths), frequencies, rates.weights(), invariant


@final
class _JukesCantor(Operation):
    """Log-likelihoods from lengths: the gradient comes from the same kernel call as the values."""

    def __init__(self, topologies: TopologyBatch, table: TipTable, threads: int) -> None:
        self.topologies = topologies
        self.table = table
        self.threads = threads

    def values(self, wanted: tuple[bool, ...], lengths: Tensor) -> Tensor:
        """The log-likelihoods, (batch,)."""
        return _weighted_sums(self.of_patterns(lengths.detach().numpy(), wanted=wanted[0]), self.table)

    def of_patterns(self, lengths: RealArray, *, wanted: bool = False) -> FloatArray:
        """The log-likelihood of every pattern, (batch, patterns). wanted: also the branches' derivatives."""
        table, trees = self.table, len(self.topologies)
        chunks = -(-len(table.tips) // BLOCKS_PER_CHUNK)
        values = np.empty((trees, *table.weights.shape))
        gradients = np.empty((trees, chunks, self.topologies.branch_count if wanted else 0))
        arguments = (
            self.topologies.neighbors,
            np.ascontiguousarray(lengths, np.float64),
            table.tips,
            table.weights,
            table.rescaling,
            BLOCKS_PER_CHUNK,
            values,
            gradients,
        )
        share_tasks(
            trees * chunks, self.threads, lambda first, last: jukes_cantor.evaluate_chunks(first, last, *arguments)
        )
        self.derivatives = torch.from_numpy(gradients.sum(axis=1))
        return _flatten(values, table)

    def gradients(self, _wanted: tuple[bool, ...], gradient: Tensor) -> tuple[Tensor, ...]:
        """The lengths' gradient."""
        return (gradient[:, None] * self.derivatives,)


@final
class _Pruning(Operation):
    """Log-likelihoods from transition matrices, with derivatives for all that goes in."""

    def __init__(self, topologies: TopologyBatch, table: TipTable, constant: FloatArray, threads: int) -> None:
        self.topologies = topologies
        self.table = table
        self.constant = constant
        self.threads = threads

    def values(self, wanted: tuple[bool, ...], *inputs: Tensor) -> Tensor:
        """The log-likelihoods, (batch,)."""
        arrays = [tensor.detach().numpy() for tensor in inputs]
        return _weighted_sums(self.of_patterns(*arrays, wanted=any(wanted)), self.table)

    def of_patterns(
        self,
        matrices: RealArray,
        frequencies: RealArray,
        category_weights: RealArray,
        invariant: RealArray,
        *,
        wanted: bool = False,
    ) -> FloatArray:
        """The log-likelihood of every pattern, (batch, patterns). wanted: also all derivatives."""
        trees, branches, categories = matrices.shape[:3]
        table, chunks = self.table, -(-len(self.table.tips) // BLOCKS_PER_CHUNK)
        values = np.empty((trees, *table.weights.shape))
        shapes = ((branches, categories, 4, 4), (4,), (categories,), (4,))
        derivatives = [np.zeros((trees, chunks if wanted else 0, *shape)) for shape in shapes]
        arguments: tuple[Any, ...] = (
            self.topologies.neighbors,
            np.ascontiguousarray(matrices, table.tips.dtype),
            np.ascontiguousarray(frequencies),
            np.ascontiguousarray(category_weights),
            np.ascontiguousarray(invariant),
            table.tips,
            self.constant,
            table.weights,
            table.rescaling,
            BLOCKS_PER_CHUNK,
            values,
            *derivatives,
        )
        share_tasks(trees * chunks, self.threads, lambda first, last: pruning.evaluate_chunks(first, last, *arguments))
        self.derivatives = [torch.from_numpy(derivative.sum(axis=1)) for derivative in derivatives]
        return _flatten(values, table)

    def gradients(self, _wanted: tuple[bool, ...], gradient: Tensor) -> tuple[Tensor, ...]:
        """The gradients of the matrices, the frequencies, the categories' weights and the invariant sites."""
        matrices, *others = self.derivatives
        return gradient[:, None, None, None, None] * matrices, *(gradient @ derivative for derivative in others)


def _weighted_sums(of_patterns: FloatArray, table: TipTable) -> Tensor:
    return torch.from_numpy(of_patterns @ table.weights.ravel()[: table.pattern_count])


def _flatten(values: FloatArray, table: TipTable) -> FloatArray:
    """Blocks to patterns, without those that fill up the last block."""
    return values.reshape(len(values), -1)[:, : table.pattern_count]


def check_branch_lengths(topologies: TopologyBatch, branch_lengths: Tensor, taxon_count: int) -> None:
    """Raise unless there is one finite length >= 0 for every branch of trees on that many taxa."""
    if topologies.taxon_count != taxon_count:
        raise BadArgument(f"trees on {topologies.taxon_count} taxa for an alignment of {taxon_count}.")
    check_shape(topologies, branch_lengths)
    lengths = plain_values(branch_lengths)
    good = (lengths >= 0) & (lengths < np.inf)
    if not good.all():
        tree, branch = np.argwhere(~good)[0]
        raise BadArgument(
            f"tree {tree + 1}, branch {branch}: length {lengths[tree, branch]:g}. "
            "Lengths must be finite and not negative."
        )


def check_shape(topologies: TopologyBatch, branch_lengths: Tensor) -> None:
    """Raise unless there is one length for every branch, in single or double precision."""
    check_tensors(branch_lengths)
    expected = (len(topologies), topologies.branch_count)
    if tuple(branch_lengths.shape) != expected:
        raise BadArgument(f"branch lengths of shape {tuple(branch_lengths.shape)}: {expected} is needed.")
