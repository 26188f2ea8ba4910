"""The likelihood surface that a search climbs: one alignment, one model, and trees on it that change in place."""

from typing import NamedTuple

import numpy as np

from phloem.data.patterns import SitePatterns
from phloem.kernels.arrays import FloatArray, IntArray, RealArray, WordArray
from phloem.kernels.interchange_scores import score_interchanges
from phloem.kernels.jukes_cantor import BLOCK
from phloem.kernels.partials import TreeTables
from phloem.kernels.regraft_scores import cut, graft, score_regrafts
from phloem.kernels.smoothing import smooth
from phloem.kernels.topology_keys import topology_keys
from phloem.target.rate_tables import pattern_tables, rate_tables, search_patterns, tip_rows
from phloem.target.substitution import SubstitutionModel
from phloem.trees.topology import TopologyBatch
from phloem.trees.zobrist import taxon_keys

NO_MOVES: IntArray = np.empty(0, np.int32)


class Surface:
    """What all trees of a search have in common."""

    def __init__(self, patterns: SitePatterns, model: SubstitutionModel) -> None:
        self.patterns = search_patterns(patterns, model)
        self.model = model
        self.rates = rate_tables(model)
        self.tables = pattern_tables(self.patterns, model)
        self.tips = tip_rows(self.patterns, len(self.rates.exponents))
        self.taxon_keys = np.ascontiguousarray(taxon_keys(len(patterns.taxa))[:, 0])

    @property
    def taxon_count(self) -> int:
        return len(self.tips)

    @property
    def width(self) -> int:
        """Patterns with those that fill up the last block."""
        return int(self.tables.weights.size)


class ScoredMoves(NamedTuple):
    """Interchanges of one tree: 2 · branch + which child, and what each of them leads to."""

    moves: IntArray  # (moves,)
    log_likelihoods: FloatArray  # (moves,)
    lengths: FloatArray  # (moves, 5)  branch, sibling, kept and moved child, parent
    sites: RealArray  # (moves, width)  in single precision


class SearchTree:
    """A tree hung on taxon 0. The room for it is used again for the next one."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        taxa, blocks, categories = surface.tips.shape[:3]
        nodes = 2 * taxa - 2
        self._tables = TreeTables(
            parent=np.empty(nodes, np.int32),
            children=np.empty((nodes, 2), np.int32),
            lengths=np.zeros(nodes),
            matrices=np.zeros((nodes, categories, 16)),
            below=np.empty((nodes, blocks, categories, 4, BLOCK)),
            above=np.empty((nodes, blocks, categories, 4, BLOCK)),
            below_steps=np.zeros((nodes, blocks, BLOCK), np.int32),
            above_steps=np.zeros((nodes, blocks, BLOCK), np.int32),
            order=np.empty(nodes, np.int32),
            places=np.empty(nodes, np.int32),
        )
        self._tables.below[:taxa] = surface.tips
        self._terms = np.empty((blocks, len(surface.rates.terms), BLOCK))
        self.sites = np.empty(surface.width)  # log-likelihoods of the patterns after the last smoothing

    def place(self, topology: TopologyBatch, lengths: FloatArray) -> None:
        """Become another tree."""
        tables, top = self._tables, topology.root
        tables.parent[:] = topology.parent[0]
        tables.children[:] = topology.neighbors[0, :, 1:]
        tables.lengths[:-1] = lengths
        tables.parent[0], tables.parent[top] = -1, 0
        tables.children[0] = top, -1
        tables.lengths[top] = lengths[0]

    @property
    def inner_branches(self) -> IntArray:
        """Those across which there are interchanges: neither a leaf's nor taxon 0's."""
        top = self._tables.children[0, 0]
        nodes: IntArray = np.arange(self._surface.taxon_count, len(self._tables.parent), dtype=np.int32)
        inner: IntArray = nodes[nodes != top]
        return inner

    def smooth(self, passes: int, tolerance: float) -> float:
        """Fit all branch lengths, and make the partials ready for `score`; the log-likelihood."""
        surface = self._surface
        return smooth(self._tables, surface.rates, surface.tables, self._terms, self.sites, passes, tolerance)

    def score(self, branches: IntArray, *, least: float, tolerance: float) -> ScoredMoves:
        """Both interchanges across each branch."""
        surface = self._surface
        moves = np.repeat(2 * branches, 2)
        moves[1::2] += 1
        scored = ScoredMoves(
            moves, np.empty(len(moves)), np.empty((len(moves), 5)), np.empty((len(moves), surface.width), np.float32)
        )
        score_interchanges(self._tables, surface.rates, surface.tables, self._terms, least, tolerance, *scored)
        return scored

    @property
    def key(self) -> int:
        """The topology's key."""
        return int(self.keys(NO_MOVES)[0])

    def keys(self, moves: IntArray) -> WordArray:
        """The topology's key, and those of the topologies that the moves lead to."""
        return topology_keys(self._tables, self._surface.taxon_keys, moves)

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
        """Where the subtree below a node could hang instead, and the log-likelihoods, with only its branch fitted."""
        surface = self._surface
        return score_regrafts(
            self._tables, surface.rates, surface.tables, self._terms, node, tolerance, np.empty(surface.width)
        )

    @property
    def movable(self) -> IntArray:
        """The nodes whose subtrees could hang elsewhere: all but taxon 0 and its neighbour."""
        nodes: IntArray = np.flatnonzero(self._tables.parent > 0).astype(np.int32)
        return nodes

    def regraft(self, node: int, place: int) -> None:
        """Hang the subtree below a node on the branch above another one."""
        cut(self._tables, node)
        graft(self._tables, node, place)

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
