"""Subsplit Bayesian networks: distributions over topologies that sum to one (Zhang & Matsen 2018)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from phloem.arrays import FloatArray, LongArray
from phloem.autograd import refuse_second_derivatives
from phloem.errors import BadArgument
from phloem.kernels.variational import sbn
from phloem.random_streams import RandomStream
from phloem.storage.arrays import read_arrays, write_arrays
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.variational.support import (
    PARTS,
    Located,
    SubsplitSupport,
    collect_support,
    damaged,
    support_arrays,
    support_from,
)

Method = Literal["em", "average"]
METHODS: tuple[Method, ...] = ("em", "average")


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


def write_network(network: SubsplitNetwork, path: str | Path) -> None:
    """Write a network; the same network gives the same bytes. `read_support` reads the file too."""
    arrays = {**support_arrays(network.support), "logits": network.logits.detach().numpy()}
    write_arrays(Path(path), arrays)


def read_network(path: str | Path) -> SubsplitNetwork:
    """A network from its file."""
    path = Path(path)
    arrays = read_arrays(path, (*PARTS, "logits"), "phloem sbn fit")
    support = support_from(path, arrays)
    logits = arrays["logits"]
    if logits.shape != (support.parameter_count,) or logits.dtype != np.float64:
        raise damaged(path, "the logits do not fit the support")
    if np.isnan(logits).any() or np.isposinf(logits).any():
        raise damaged(path, "the logits are no numbers")
    if support.parameter_count and np.isneginf(np.maximum.reduceat(logits, support.free_starts[:-1])).any():
        raise damaged(path, "a table has no possible entry")
    return SubsplitNetwork(support, torch.from_numpy(logits))


class FitStep(NamedTuple):
    """Where a fit stands after some iterations of EM; iteration 0 is simple averaging."""

    iteration: int
    log_likelihood: float  # mean over the sample, by weight
    objective: float  # with the logarithm of the Dirichlet prior; never falls


@dataclass(frozen=True, slots=True)
class SubsplitFit:
    """A network fitted to a sample, and how it got there."""

    network: SubsplitNetwork
    steps: tuple[FitStep, ...]
    converged: bool


def fit_network(
    sample: TreeSample,
    *,
    method: Method = "em",
    smoothing: float = 0.0,
    tolerance: float = 1e-6,
    most_iterations: int = 10_000,
    progress: Callable[[FitStep], None] | None = None,
) -> SubsplitFit:
    """Fit a network on the support of a sample's trees, those of weight zero left out (Zhang & Matsen 2018).

    The data are unrooted and the network's trees rooted. "average" counts every rooting of a tree the same; "em"
    starts there and then weighs rootings by their probability, again and again, until the objective rises by less
    than `tolerance`. `smoothing` is a pseudo-count for every table entry, as a share of the sample: it gives the mode
    under a Dirichlet prior, which keeps rare subsplits from probability zero.
    """
    if method not in METHODS:
        raise BadArgument(f"method {method}: choose one of {', '.join(METHODS)}.")
    if not 0 <= smoothing <= 1:
        raise BadArgument(f"smoothing {smoothing:g}: it is a share of the sample. Give a number from 0 to 1.")
    if not (tolerance > 0 and most_iterations >= 1):
        raise BadArgument(f"tolerance {tolerance:g}, {most_iterations} iterations: both must be positive.")
    observed = sample.normalized().distinct()
    observed = observed[observed.weights > 0]
    support = collect_support([observed])
    located = support.locate(observed.topologies)

    rootings = observed.topologies.branch_count
    shares = np.full((len(observed), rootings), 1 / rootings)
    steps: list[FitStep] = []
    while True:
        counts = count_entries(support, located, shares, observed.weights)
        network = SubsplitNetwork(support, _most_likely_logits(support, counts[: support.parameter_count] + smoothing))
        tables = network.tables()
        log_probs, shares = sbn.sum_rootings(log_rootings(located, tables))
        log_likelihood = float(observed.weights @ log_probs)
        parameters = tables.log_probabilities[: support.parameter_count]
        log_prior = float(smoothing * parameters.sum()) if smoothing else 0.0
        steps.append(FitStep(len(steps), log_likelihood, log_likelihood + log_prior))
        if progress:
            progress(steps[-1])
        converged = len(steps) > 1 and steps[-1].objective - steps[-2].objective < tolerance
        if method == "average" or converged or len(steps) > most_iterations:
            return SubsplitFit(network, tuple(steps), converged or method == "average")


def _most_likely_logits(support: SubsplitSupport, counts: FloatArray) -> torch.Tensor:
    """Logarithms of how often each entry is used; a table that has become too rare for any count is uniform."""
    starts = support.free_starts
    unused = sbn.sum_tables(counts, starts) == 0
    with np.errstate(divide="ignore"):
        logits = np.log(counts)
    logits[np.repeat(unused, np.diff(starts))] = 0
    return torch.from_numpy(logits)
