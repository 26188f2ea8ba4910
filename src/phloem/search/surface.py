"""The likelihood surface that a search climbs and chains walk on.

It is that of one alignment with a model for all of it or for each of its parts; on it there are trees that change in
place.
"""

import math
from copy import copy
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, IntArray, LongArray, RealArray, WordArray
from phloem.data.patterns import SitePatterns, merge_relabelled
from phloem.kernels.likelihood.pruning import Rates
from phloem.kernels.search.branch import LANES, MATRIX, BranchTables, PatternTables, RateTables
from phloem.kernels.search.chain import ChainTables, run_chain
from phloem.kernels.search.moves import cut_off, graft_into, score_interchanges, score_regrafts
from phloem.kernels.search.partials import TreeTables, smooth
from phloem.kernels.trees.clades import topology_keys
from phloem.target.partitioned import PartitionedModel
from phloem.target.rates import fixed_rates, gamma_of
from phloem.target.substitution import SubstitutionModel, symmetrize
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.topology import TopologyBatch, taxon_keys

NO_MOVES: IntArray = np.empty(0, np.int32)
CACHE_LINE = 64  # bytes


class Blocks(NamedTuple):
    """Which patterns fill which blocks: those of every part whole ones, the last of them with nothing."""

    firsts: LongArray  # (parts + 1,)  patterns firsts[p]:firsts[p+1] are those of part p
    bounds: IntArray  # (parts + 1,)  and so are blocks bounds[p]:bounds[p+1]
    places: LongArray  # (patterns,)  of each in the blocks

    @classmethod
    def of(cls, firsts: LongArray) -> "Blocks":
        """The blocks of parts that begin with these patterns; the last number is that of all patterns."""
        sizes = np.diff(firsts)
        bounds = np.append(0, np.cumsum(-(-sizes // LANES))).astype(np.int32)
        places = np.arange(firsts[-1]) + np.repeat(LANES * bounds[:-1] - firsts[:-1], sizes)
        return cls(firsts, bounds, places)

    def fill(self, values: FloatArray, padding: float) -> RealArray:
        """The last axis, patterns, as (blocks, LANES) in single precision, with the last of each part filled up."""
        *others, _ = values.shape
        padded = np.full((*others, self.bounds[-1] * LANES), padding, np.float32)
        padded[..., self.places] = values
        return padded.reshape(*others, -1, LANES)


def blocks_of(patterns: SitePatterns, model: SubstitutionModel | PartitionedModel) -> Blocks:
    """The blocks of the parts that have a model each."""
    return Blocks.of(patterns.part_bounds if isinstance(model, PartitionedModel) else np.array([0, len(patterns)]))


def search_patterns(patterns: SitePatterns, model: SubstitutionModel) -> SitePatterns:
    """The patterns that the model can tell apart."""
    return merge_relabelled(patterns) if model.is_jukes_cantor else patterns


def rate_tables(model: SubstitutionModel, *, equal: bool) -> RateTables:
    """Eigenvalues and vectors of the symmetrised rate matrix, for every rate category.

    equal: whether the model treats all states alike and this is used.
    """
    symmetric, root = (part.detach().numpy() for part in symmetrize(model.rate_matrix(), model.frequencies))
    # Not torch's solver: its last digits differ, and what a seeded search finds depends on them.
    values, vectors = np.linalg.eigh(symmetric)
    values, vectors = values[::-1].copy(), vectors[:, ::-1]  # that of zero is the largest
    values[0] = 0.0
    exponents = model.site_rates.rates().detach().numpy()[:, None] * values
    frequencies = np.ascontiguousarray(model.frequencies.detach().numpy())
    spectral = np.ascontiguousarray((vectors * root[:, None]).T)
    shares = model.site_rates.weights().detach().numpy()[:, None, None]
    return RateTables(
        equal=int(equal),
        frequencies=frequencies[None],
        spectral=spectral[None],
        exponents=exponents[None],
        terms=(np.array([0.0, values[1]]) if equal else np.append(0.0, exponents[:, 1:]))[None],
        one_end=(shares * np.concatenate([frequencies[None], spectral[1:]])).astype(np.float32)[None],
        other_end=spectral.astype(np.float32)[None],
    )


def pattern_tables(patterns: SitePatterns, model: SubstitutionModel) -> PatternTables:
    """Weights of the patterns, and the likelihoods of those that may be constant at invariant sites."""
    constant, blocks = np.zeros(len(patterns)), blocks_of(patterns, model)
    if model.site_rates.invariant is not None:
        constant = model.site_rates.invariant.item() * (common_states(patterns) @ model.frequencies.detach().numpy())
    return PatternTables(blocks.fill(patterns.counts, 0.0), blocks.fill(constant, 0.0), int(constant.any()))


def common_states(patterns: SitePatterns) -> FloatArray:
    """1 for each state that all tips may have, (patterns, 4)."""
    common = np.bitwise_and.reduce(patterns.states, axis=0)[:, None] >> np.arange(4) & 1
    return np.asarray(common, np.float64)


def rate_tables_of(rates: Rates, number: int, categories: int) -> RateTables:
    """The same of the parts in one of several sets of models of the likelihood's, in which states differ.

    categories: as many as there are, without those that fill up the likelihood's tables.
    """
    frequencies, left = rates.frequencies[number], rates.left[number]
    values, spectral = rates.values[number, :, ::-1], left[:, ::-1]  # that of zero comes first
    exponents = rates.rates[number, :, :categories, None] * values[:, None]
    shares = rates.weights[number, :, :categories, None, None]
    parts = len(frequencies)
    return RateTables(
        equal=0,
        frequencies=frequencies,
        spectral=np.ascontiguousarray(spectral),
        exponents=exponents,
        terms=np.concatenate([np.zeros((parts, 1)), exponents[:, :, 1:].reshape(parts, -1)], axis=1),
        one_end=(shares * np.concatenate([frequencies[:, None], spectral[:, 1:]], axis=1)[:, None]).astype(np.float32),
        other_end=np.ascontiguousarray(spectral, np.float32),
    )


def tip_rows(patterns: SitePatterns, blocks: Blocks) -> RealArray:
    """Partials of the tips, (taxa, blocks, 4, LANES); nothing is known of patterns that fill up a block."""
    return np.ascontiguousarray(blocks.fill(patterns.tip_partials.swapaxes(1, 2), 1.0).swapaxes(1, 2))


def _aligned(shape: tuple[int, ...]) -> RealArray:
    """An array that begins on a cache line: vectors that straddle two lines take twice as long to load."""
    size = 4 * math.prod(shape)
    room = np.empty(size + CACHE_LINE, np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    return room[start : start + size].view(np.float32).reshape(shape)


class Surface:
    """What all trees of a search have in common."""

    def __init__(
        self,
        patterns: SitePatterns,
        model: SubstitutionModel | PartitionedModel,
        *,
        states_differ: bool = False,
        constraints: TopologyConstraints | None = None,
    ) -> None:
        """states_differ: whether models that treat states differently follow, whatever this one does.

        constraints: that all trees satisfy, wherever they are placed.
        """
        self.constraints = constraints
        self.patterns, self.model = patterns, model
        if isinstance(model, SubstitutionModel):
            equal = model.is_jukes_cantor and not states_differ
            if equal:
                self.patterns = search_patterns(patterns, model)
            self.rates, self.tables = rate_tables(model, equal=equal), pattern_tables(self.patterns, model)
        self.blocks = blocks_of(self.patterns, model)
        self._common = common_states(self.patterns)
        self._weights = self.blocks.fill(self.patterns.counts, 0.0)
        if isinstance(model, PartitionedModel):
            self._take(fixed_rates(model.parts).tables, 0, gamma_of(model.parts)[0])
        rows = tip_rows(self.patterns, self.blocks)
        self.tips = _aligned(rows.shape)
        self.tips[...] = rows
        self.taxon_keys = np.ascontiguousarray(taxon_keys(len(patterns.taxa))[:, 0])

    def with_rates(self, rates: Rates, number: int) -> "Surface":
        """The same alignment under other models of as many parts, with as many rate categories."""
        other = copy(self)
        other._take(rates, number, self.rates.exponents.shape[1])
        return other

    def _take(self, rates: Rates, number: int, categories: int) -> None:
        self.rates = rate_tables_of(rates, number, categories)
        of_parts = zip(pairwise(self.blocks.firsts.tolist()), rates.invariant[number], strict=True)
        constant = np.concatenate([self._common[first:last] @ invariant for (first, last), invariant in of_parts])
        self.tables = PatternTables(self._weights, self.blocks.fill(constant, 0.0), int(constant.any()))

    @property
    def taxon_count(self) -> int:
        return len(self.tips)

    @property
    def width(self) -> int:
        """Patterns with those that fill up blocks."""
        return int(self.tables.weights.size)

    def branch_tables(self) -> BranchTables:
        """Room for the likelihood along a branch."""
        blocks, terms = len(self.tables.weights), self.rates.terms.shape[1]
        return BranchTables(
            bounds=self.blocks.bounds.ctypes.data,
            terms=_aligned((blocks, terms, LANES)),
            steps=np.empty((blocks, LANES), np.int32),
            growth=np.empty((3, terms), np.float32),
            logarithms=np.empty((blocks, LANES)),
        )


class ScoredMoves(NamedTuple):
    """Interchanges of one tree: 2 · branch + which child, and what each of them leads to."""

    moves: IntArray  # (moves,)
    log_likelihoods: FloatArray  # (moves,)
    lengths: FloatArray  # (moves, 5)  branch, sibling, kept and moved child, parent
    sites: RealArray  # (moves, width)  in single precision


class SearchTree:
    """A tree rooted on taxon 0, whose arrays are reused for the next one."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        taxa, blocks = surface.tips.shape[:2]
        nodes, (parts, categories) = 2 * taxa - 2, surface.rates.exponents.shape[:2]
        self._tables = TreeTables(
            parts=parts,
            bounds=surface.blocks.bounds.ctypes.data,
            parent=np.empty(nodes, np.int32),
            children=np.empty((nodes, 2), np.int32),
            lengths=np.zeros(nodes),
            matrices=np.zeros((nodes, parts * categories, MATRIX), np.float32),
            tips=surface.tips,
            below=_aligned((nodes - taxa, blocks, categories, 4, LANES)),
            above=_aligned((nodes, blocks, categories, 4, LANES)),
            below_steps=np.zeros((nodes, blocks, LANES), np.int32),
            above_steps=np.zeros((nodes, blocks, LANES), np.int32),
            order=np.empty(nodes, np.int32),
        )
        self._branch = surface.branch_tables()
        self.constrained = np.zeros(nodes, np.bool_)  # whether the branch above each node is a constraint
        self.sites = np.empty(surface.width)  # log-likelihoods of the patterns after the last smoothing

    def take_rates(self, rates: Rates, number: int) -> None:
        """Be under another of several models, or sets of models of the parts."""
        self._surface = self._surface.with_rates(rates, number)

    def place(self, topology: TopologyBatch, lengths: FloatArray) -> None:
        """Become another tree."""
        tables, top = self._tables, topology.root
        tables.parent[:] = topology.parent[0]
        tables.children[:] = topology.neighbors[0, :, 1:]
        tables.lengths[:-1] = lengths
        tables.parent[0], tables.parent[top] = -1, 0
        tables.children[0] = top, -1
        tables.lengths[top] = lengths[0]
        if self._surface.constraints is not None:
            self.constrained[:] = self._surface.constraints.flags(topology)[0]

    @property
    def constraints(self) -> TopologyConstraints | None:
        """Those of the surface."""
        return self._surface.constraints

    @property
    def inner_branches(self) -> IntArray:
        """Those across which there are interchanges: neither a leaf's nor taxon 0's, and no constraints.

        Interchanges elsewhere leave constraints above the same nodes.
        """
        top = self._tables.children[0, 0]
        nodes: IntArray = np.arange(self._surface.taxon_count, len(self._tables.parent), dtype=np.int32)
        inner: IntArray = nodes[(nodes != top) & ~self.constrained[nodes]]
        return inner

    def smooth(self, passes: int, tolerance: float) -> float:
        """Fit all branch lengths, and make the partials ready for `score`; the log-likelihood."""
        surface = self._surface
        return smooth(self._tables, surface.rates, surface.tables, self._branch, self.sites, passes, tolerance)

    def score(self, branches: IntArray, *, least: float, tolerance: float) -> ScoredMoves:
        """Both interchanges across each branch."""
        surface = self._surface
        moves = np.repeat(2 * branches, 2)
        moves[1::2] += 1
        scored = ScoredMoves(
            moves, np.empty(len(moves)), np.empty((len(moves), 5)), np.empty((len(moves), surface.width), np.float32)
        )
        score_interchanges(self._tables, surface.rates, surface.tables, self._branch, least, tolerance, *scored)
        return scored

    @property
    def key(self) -> int:
        """The topology's key."""
        return int(self.keys(NO_MOVES)[0])

    def keys(self, moves: IntArray) -> WordArray:
        """The topology's key, and those of the topologies that the moves lead to."""
        return topology_keys(self._tables.parent, self._tables.children, self._surface.taxon_keys, moves)

    def around(self, move: int) -> tuple[int, int, int, int, int]:
        """Branch, sibling, kept and moved child, parent."""
        node = move // 2
        above = int(self._tables.parent[node])
        first, second = self._tables.children[above].tolist()
        children = self._tables.children[node].tolist()
        return node, first + second - node, children[1 - move % 2], children[move % 2], above

    def interchange(self, move: int, lengths: FloatArray | None = None) -> None:
        """Make a move, with new lengths of the five branches around it; the same move again undoes it."""
        node, sibling, kept, moved, above = self.around(move)
        tables = self._tables
        tables.children[node, move % 2], tables.parent[sibling] = sibling, node
        tables.children[above, int(tables.children[above, 1] == sibling)], tables.parent[moved] = moved, above
        if lengths is not None:
            tables.lengths[[node, sibling, kept, moved, above]] = lengths

    def score_regrafts(self, node: int, *, tolerance: float) -> tuple[IntArray, FloatArray]:
        """The branches that the subtree below a node could move to, and log-likelihoods with only its branch fitted."""
        surface = self._surface
        return score_regrafts(
            self._tables, surface.rates, surface.tables, self._branch, node, tolerance, np.empty(surface.width)
        )

    @property
    def movable(self) -> IntArray:
        """The nodes whose subtrees could be grafted elsewhere: all but taxon 0 and its neighbour."""
        nodes: IntArray = np.flatnonzero(self._tables.parent > 0).astype(np.int32)
        return nodes

    def regraft(self, node: int, place: int) -> None:
        """Graft the subtree below a node into the branch above another one."""
        cut_off(self._tables, node)
        graft_into(self._tables, node, place)

    def run_chain(self, chain: ChainTables, rounds: int, regrafts: int, parents: IntArray, lengths: FloatArray) -> None:
        """Let a Markov chain change the tree; its trees after every so many rounds are the rows of the last two."""
        surface = self._surface
        run_chain(self._tables, surface.rates, surface.tables, self._branch, chain, rounds, regrafts, parents, lengths)

    def neighbors(self, node: int) -> list[int]:
        """The nodes at the other ends of a node's branches."""
        around = (self._tables.parent[node], *self._tables.children[node])
        return [int(other) for other in around if other >= 0]

    def copy_state(self) -> tuple[IntArray, IntArray, FloatArray]:
        """What `restore` needs to come back to this tree."""
        return self._tables.parent.copy(), self._tables.children.copy(), self._tables.lengths.copy()

    def restore(self, state: tuple[IntArray, IntArray, FloatArray]) -> None:
        """Come back to a tree of before."""
        self._tables.parent[:], self._tables.children[:], self._tables.lengths[:] = state

    def parents(self, moves: IntArray) -> IntArray:
        """Parents of the tree and of those that moves lead to, with taxon 0's neighbour as root, (1 + moves, nodes)."""
        parents = np.repeat(self._tables.parent[None], 1 + len(moves), axis=0)
        for row, move in enumerate(moves.tolist(), start=1):
            node, sibling, _, moved, above = self.around(move)
            parents[row, sibling], parents[row, moved] = node, above
        top = self._tables.children[0, 0]
        parents[:, 0], parents[:, top] = top, -1
        return parents

    def current(self) -> tuple[TopologyBatch, FloatArray]:
        """The tree in canonical form, and its branch lengths (2n-3,)."""
        lengths = self._tables.lengths[None].copy()
        lengths[0, 0] = lengths[0, self._tables.children[0, 0]]
        topology, ordered = TopologyBatch.with_lengths(self.parents(NO_MOVES), lengths)
        return topology, ordered[0]
