"""Markov chains of trees from the draws of a run: a sample of the posterior that owes nothing to Q but its starts.

Draws are resampled by their weights, and each of them is the start of a chain on its own, which goes wherever the
posterior is, within the support of Q or not. Where Q is good they need no time to get to the posterior, and it does not
matter that chains go from one mode to another only rarely: each mode has its share of starts. Where Q is poor the first
part of every chain, which is left out, is the way there.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from phloem.arrays import BoolArray, FloatArray, IntArray, LongArray
from phloem.errors import BadArgument
from phloem.inference.draws import Draws, resample
from phloem.inference.evaluation import CHUNK_NODES
from phloem.inference.sharing import stream_from, stream_values
from phloem.kernels.likelihood.pruning import Rates
from phloem.kernels.philox import fill_normal_rows, fill_uniform
from phloem.kernels.search.chain import ChainTables
from phloem.random_streams import RandomStream
from phloem.runs.ranks import ALONE, Parcel, Ranks, Task
from phloem.search.surface import SearchTree, Surface
from phloem.target.posterior import TreePosterior
from phloem.target.priors import LengthPrior, is_usual
from phloem.threads import share_tasks
from phloem.trees.sample import TreeSample
from phloem.trees.splits import distinct_splits
from phloem.trees.topology import TopologyBatch

MOST_CLADES = 60  # that starts are ordered by
REGRAFTS = 2  # a round: they take half as long as going around the tree
LEFT_OUT = 0.25  # of every chain, its beginning
MOST_NODES = 20_000_000  # of the trees that are kept
# What is proposed for a model's parameters after every round, as shares of their deviations: with the lengths held
# they can move less far than these.
THETA_STEPS = (0.2, 0.6, 1.8)
SMALL_SHARE, SMALL_VARIANCE = 0.01, 1e-8
REPORTS, FEWEST_ROUNDS = 50, 10  # of progress, and between two of them


class ChainStarts(NamedTuple):
    """A tree for each chain."""

    topologies: TopologyBatch
    branch_lengths: FloatArray  # (chains, 2n-3)
    distinct: int  # different ones among them
    theta: FloatArray  # (chains, dimension)  of the model's parameters
    factor: FloatArray  # (dimension, dimension)  whose square is about the covariance of θ


def starts_from(draws: Draws, chains: int, *, stream: RandomStream) -> ChainStarts:
    """Draws resampled by their weights.

    Those with the same clades are side by side, the clades in doubt first, so that modes, topologies and clades have as
    few or as many starts as their probabilities say, up to rounding.
    """
    if chains < 2:
        raise BadArgument(f"--chains {chains}: ask for two or more, as they are judged by how far they agree.")
    trees = draws.weighted()
    rank = np.empty(len(draws.topologies), np.int64)
    rank[_by_clades(draws.topologies, trees.topology_weights())] = np.arange(len(rank))
    order = np.argsort(rank[draws.group], kind="stable")
    chosen = order[resample(trees.weights[order], chains, float(stream.named("starts").generator().random()))]
    topologies, lengths = draws.topologies[draws.group[chosen]], draws.branch_lengths[chosen].astype(np.float64)
    theta, distinct = draws.theta[chosen], len(np.unique(chosen))
    return ChainStarts(topologies, lengths, distinct, theta, covariance_factor(draws.theta, trees.weights))


def covariance_factor(theta: FloatArray, weights: FloatArray) -> FloatArray:
    """A triangular matrix whose square is about the covariance of weighted rows, however few of them count."""
    centered = theta - weights @ theta
    covariance = (weights[:, None] * centered).T @ centered
    return np.linalg.cholesky(covariance + np.diag(np.maximum(SMALL_SHARE * covariance.diagonal(), SMALL_VARIANCE)))


def _by_clades(topologies: TopologyBatch, weights: FloatArray) -> LongArray:
    """An order of topologies: by whether they have the split that is most in doubt, then the next, and so on."""
    sets, number = distinct_splits(topologies)
    share = np.bincount(number.ravel(), np.repeat(weights, number.shape[1]), minlength=len(sets))
    doubtful = np.argsort(-share * (1 - share), kind="stable")[:MOST_CLADES]
    column = np.full(len(sets), -1)
    column[doubtful] = np.arange(len(doubtful))
    has = np.zeros((len(topologies), len(doubtful) + 1), np.bool_)
    np.put_along_axis(has, column[number], True, axis=1)  # those that are in no doubt are in the last column
    return np.lexsort(has[:, -2::-1].T) if len(doubtful) else np.arange(len(topologies))


@dataclass(frozen=True, slots=True, eq=False)
class ChainTrees:
    """The trees of several chains, as many of each, one chain after the other, in the order of time."""

    taxa: tuple[str, ...]
    topologies: TopologyBatch
    branch_lengths: FloatArray  # (trees, 2n-3)
    log_joint: FloatArray  # (trees,)  log p(Y, τ, q)
    chains: int
    rounds: int  # of each chain, those that are left out included
    every: int  # rounds from one tree to the next
    starts: int  # distinct ones
    interchanges: float  # of a round, on average
    regrafts: float  # accepted share
    theta: FloatArray  # (trees, dimension)  of the model's parameters

    def __len__(self) -> int:
        return len(self.log_joint)

    @property
    def by_chain(self) -> LongArray:
        """Which trees each chain has, (chains, trees of one)."""
        return np.arange(len(self)).reshape(self.chains, -1)

    def sample(self) -> TreeSample:
        """All of them, with equal weights."""
        return self.select(np.arange(len(self)))

    def select(self, trees: LongArray) -> TreeSample:
        """Some of them, with equal weights."""
        weights = np.full(len(trees), 1 / len(trees))
        return TreeSample(self.taxa, self.topologies[trees], weights, self.branch_lengths[trees])


class _States(NamedTuple):
    """All chains between two reports."""

    parents: IntArray  # (chains, nodes)  rooted on taxon 0
    children: IntArray  # (chains, nodes, 2)
    lengths: FloatArray  # (chains, nodes)
    places: LongArray  # (chains, 2)
    counters: LongArray  # (chains, 2)
    changes: LongArray  # (chains, 2)
    constrained: BoolArray  # (chains, nodes)

    @classmethod
    def at(cls, starts: ChainStarts, tree: SearchTree, stream: RandomStream) -> "_States":
        """All chains at their starts. Which child is the first, and where the walk begins, is random."""
        count, nodes = len(starts.topologies), starts.topologies.node_count
        states = cls(
            np.empty((count, nodes), np.int32),
            np.empty((count, nodes, 2), np.int32),
            np.empty((count, nodes)),
            np.empty((count, 2), np.int64),
            np.stack([np.zeros(count, np.int64), np.arange(count)], axis=1),
            np.zeros((count, 2), np.int64),
            np.zeros((count, nodes), np.bool_),
        )
        for chain in range(count):
            tree.place(starts.topologies[chain], starts.branch_lengths[chain])
            states.parents[chain], states.children[chain], states.lengths[chain] = tree.copy_state()
            states.constrained[chain] = tree.constrained
        taxa = starts.topologies.taxon_count
        random = stream.named("places").generator().random((count, nodes + 1))
        is_turned = random[:, :nodes] < 0.5
        is_turned[:, :taxa] = False
        states.children[is_turned] = states.children[is_turned][:, ::-1]
        # From above to any node but taxon 0, from either child to an interior node, and from below to taxon 0.
        places = [(node, side) for node in range(1, nodes) for side in range(3 if node >= taxa else 1)] + [(0, 1)]
        states.places[:] = np.array(places)[(random[:, nodes] * len(places)).astype(np.int64)]
        return states


def can_run_chains(target: TreePosterior) -> bool:
    """Whether chains know the prior, of which a subclass is another one, and the model needs no gradients."""
    return is_usual(target.prior) and target.likelihood.model.is_fixed


def run_chains(
    target: TreePosterior,
    taxa: tuple[str, ...],
    starts: ChainStarts,
    rounds: int,
    *,
    stream: RandomStream,
    threads: int = 1,
    progress: Callable[[float], None] | None = None,
    ranks: Ranks = ALONE,
) -> ChainTrees:
    """Run a chain from every start. The same stream gives the same trees, on any number of threads.

    rounds: of each chain, the first quarter of which is left out. ranks: share the chains out.
    """
    if not can_run_chains(target):
        raise BadArgument("chains: they know phloem's own priors on lengths, and models that need no gradients.")
    if rounds < 1:
        raise BadArgument(f"{rounds} rounds: ask for at least one.")
    chains, size = len(starts.topologies), ranks.size
    parts = [
        ChainPart(starts, rounds, stream, rank * chains // size, (rank + 1) * chains // size)
        for rank in range(min(size, chains))
    ]
    found = [*ranks.each(CHAINS, parts, lambda part: run_part(target, part, threads=threads, progress=progress))]
    left_out, every, rows = kept_rounds(chains, rounds, starts.topologies.node_count)
    interchanges, regrafts = np.sum([part.changes for part in found], axis=0) / (chains * (left_out + rows * every))
    return ChainTrees(
        taxa,
        TopologyBatch.concatenate([part.topologies for part in found]),
        np.concatenate([part.branch_lengths for part in found]),
        np.concatenate([part.log_joint for part in found]),
        chains,
        left_out + rows * every,
        every,
        starts.distinct,
        float(interchanges),
        float(regrafts) / REGRAFTS,
        np.concatenate([part.theta for part in found]),
    )


class ChainPart(NamedTuple):
    """Some of the chains to run."""

    starts: ChainStarts  # of all of them
    rounds: int
    stream: RandomStream
    first: int
    end: int  # after the last


class ChainPaths(NamedTuple):
    """The kept trees of some chains, one chain after the other."""

    topologies: TopologyBatch
    branch_lengths: FloatArray  # (trees, 2n-3)
    log_joint: FloatArray  # (trees,)
    theta: FloatArray  # (trees, dimension)
    changes: LongArray  # (2,)  interchanges and regrafts


def run_part(
    target: TreePosterior, part: ChainPart, *, threads: int, progress: Callable[[float], None] | None = None
) -> ChainPaths:
    """Run some of the chains, as they would run beside the others."""
    starts, rounds, stream, chosen = part.starts, part.rounds, part.stream, slice(part.first, part.end)
    prior, model = target.prior, target.likelihood.model
    assert isinstance(prior, LengthPrior)
    nodes = starts.topologies.node_count
    terms = prior.terms(starts.topologies.branch_count)
    constraints = target.constraints
    if constraints is not None and not constraints.hold(starts.topologies).all():
        raise BadArgument("chains: some starts do not satisfy the constraints.")
    surface = Surface(
        target.likelihood.patterns, model, states_differ=target.parameters is not None, constraints=constraints
    )
    left_out, every, rows = kept_rounds(len(starts.topologies), rounds, nodes)
    states = _States._make(array[chosen] for array in _States.at(starts, SearchTree(surface), stream))
    chains, key = len(states.parents), stream.named("moves").key()
    parents, lengths = np.empty((chains, rows, nodes), np.int32), np.empty((chains, rows, nodes))
    models = _ChainModels(target, starts, chosen, stream.named("theta"))
    theta = np.empty((chains, rows, target.dimension))

    def advance(first_row: int, last_row: int, rounds_a_row: int) -> None:
        if target.parameters is None:
            advance_trees(first_row, last_row, rounds_a_row)
            return
        for row in range(first_row, last_row):
            for _ in range(rounds_a_row):
                advance_trees(row, row + 1, 1)
                models.move(*_canonical(parents[:, row].copy(), lengths[:, row].copy()))
            theta[:, row] = models.theta

    def advance_trees(first_row: int, last_row: int, rounds_a_row: int) -> None:
        rates = None if target.parameters is None else models.rates()

        def work(first: int, last: int) -> None:
            tree, sites, total = SearchTree(surface), np.empty(surface.width), np.empty(1)
            for chain in range(first, last):
                if rates is not None:
                    tree.take_rates(rates, chain)
                own = _States(*(array[chain] for array in states))
                tree.restore((own.parents, own.children, own.lengths))
                tables = ChainTables(
                    *terms[1:], total, key, own.counters, own.places, own.changes, own.constrained, sites
                )
                place = chain, slice(first_row, last_row)
                tree.run_chain(tables, rounds_a_row, REGRAFTS, parents[place], lengths[place])
                own.parents[:], own.children[:], own.lengths[:] = tree.copy_state()

        share_tasks(chains, threads, work)

    done = 0
    for first_row, last_row, rounds_a_row in _blocks(rows, every, left_out):
        advance(first_row, last_row, rounds_a_row)
        done += (last_row - first_row) * rounds_a_row
        if progress:
            progress(done / (left_out + rows * every))
    topologies, branch_lengths = _canonical(parents.reshape(-1, nodes), lengths.reshape(-1, nodes))
    all_theta = theta.reshape(len(topologies), target.dimension)
    log_joint = _log_joint(target, topologies, branch_lengths, all_theta)
    return ChainPaths(topologies, branch_lengths, log_joint, all_theta, states.changes.sum(axis=0))


def _pack_part(part: ChainPart) -> Parcel:
    starts = part.starts
    values = {"rounds": part.rounds, "first": part.first, "end": part.end, "distinct": starts.distinct}
    arrays = {name: getattr(starts, name) for name in ("branch_lengths", "theta", "factor")}
    return Parcel({**values, **stream_values(part.stream)}, {**arrays, "parent": starts.topologies.parent})


def _unpack_part(parcel: Parcel) -> ChainPart:
    values, arrays = parcel
    topologies = TopologyBatch.from_canonical(arrays["parent"])
    starts = ChainStarts(topologies, arrays["branch_lengths"], values["distinct"], arrays["theta"], arrays["factor"])
    return ChainPart(starts, values["rounds"], stream_from(values), values["first"], values["end"])


def _pack_paths(found: ChainPaths) -> Parcel:
    columns = {name: getattr(found, name) for name in ("branch_lengths", "log_joint", "theta", "changes")}
    return Parcel(arrays={"parent": found.topologies.parent, **columns})


def _unpack_paths(parcel: Parcel) -> ChainPaths:
    arrays = dict(parcel.arrays)
    return ChainPaths(TopologyBatch.from_canonical(arrays.pop("parent")), **arrays)


CHAINS: Task[ChainPart, ChainPaths] = Task("chains", _pack_part, _unpack_part, _pack_paths, _unpack_paths)


class _ChainModels:
    """The models of every chain, where parameters are inferred: they move by Metropolis' rule while trees are held.

    Every chain has random numbers of its own.
    """

    def __init__(self, target: TreePosterior, starts: ChainStarts, chosen: slice, stream: RandomStream) -> None:
        """chosen: which of the chains."""
        self._target = target
        self._factor = starts.factor
        self._steps, self._chances = stream.named("steps").key(), stream.named("chances").key()
        self._first, self._moves = chosen.start, 0
        self.theta = starts.theta[chosen].copy()  # (chains, dimension)

    def rates(self) -> Rates:
        """The models of every chain as tables."""
        assert self._target.parameters is not None
        return self._target.parameters.at(self.theta).rates.tables

    def move(self, topologies: TopologyBatch, branch_lengths: FloatArray) -> None:
        """Move the parameters of every chain, whose trees are these."""
        here = _log_joint(self._target, topologies, branch_lengths, self.theta)
        (chains, dimension), sizes = self.theta.shape, len(THETA_STEPS)
        steps, chances = np.empty((chains, sizes * dimension)), np.empty((chains, sizes))
        fill_normal_rows(self._steps, self._first, self._moves, steps)
        for chain in range(chains):
            fill_uniform(self._chances, self._first + chain, self._moves, chances[chain])
        self._moves += 1
        # A product for each chain: in one of all, digits would depend on how many there are.
        steps = steps.reshape(chains, sizes, dimension) @ self._factor.T
        for number, size in enumerate(THETA_STEPS):
            proposed = self.theta + size / math.sqrt(dimension) * steps[:, number]
            there = _log_joint(self._target, topologies, branch_lengths, proposed)
            with np.errstate(invalid="ignore"):
                accepted = np.log1p(-chances[:, number]) < there - here
            self.theta[accepted], here[accepted] = proposed[accepted], there[accepted]


def kept_rounds(chains: int, rounds: int, nodes: int) -> tuple[int, int, int]:
    """How many rounds of a chain are left out, how many there are from one kept tree to the next, and kept trees."""
    left_out = int(LEFT_OUT * rounds)
    every = max(1, -(-(rounds - left_out) * chains * nodes // MOST_NODES))
    return left_out, every, max(1, (rounds - left_out) // every)


def _blocks(rows: int, every: int, left_out: int) -> list[tuple[int, int, int]]:
    """First row, last row and rounds a row of the parts between which there are reports.

    What is left out comes first, one round a row, in rows that are written again later.
    """
    size = -(-max(FEWEST_ROUNDS, (rows * every + left_out) // REPORTS) // every)
    first = [min(rows, size * every, left_out - done) for done in range(0, left_out, min(rows, size * every))]
    kept = range(0, rows, size)
    return [(0, count, 1) for count in first] + [(row, min(rows, row + size), every) for row in kept]


def _canonical(parents: IntArray, lengths: FloatArray) -> tuple[TopologyBatch, FloatArray]:
    """Trees that are rooted on taxon 0 as topologies, and their lengths, (trees, 2n-3)."""
    trees = np.arange(len(parents))
    top = (parents == 0).argmax(axis=1)
    parents[trees, top], parents[:, 0] = -1, top
    lengths[:, 0] = lengths[trees, top]
    return TopologyBatch.with_lengths(parents, lengths)


def _log_joint(
    target: TreePosterior, topologies: TopologyBatch, branch_lengths: FloatArray, theta: FloatArray
) -> FloatArray:
    chunk = max(1, CHUNK_NODES // topologies.node_count)
    found = []
    with torch.no_grad():
        for first in range(0, len(topologies), chunk):
            part = slice(first, first + chunk)
            coordinates = torch.from_numpy(theta[part]) if target.dimension else None
            found.append(
                target.log_joint(topologies[part], torch.from_numpy(branch_lengths[part]), theta=coordinates).numpy()
            )
    return np.concatenate(found)
