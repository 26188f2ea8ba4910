"""The search: starting trees by parsimony and neighbour joining, climbs from them, then from perturbed good trees."""

import math
from collections.abc import Sequence
from queue import SimpleQueue
from threading import Event
from typing import NamedTuple

import numpy as np

from phloem.arrays import BoolArray, FloatArray
from phloem.data.alignment import ANY, STATES
from phloem.data.patterns import SitePatterns
from phloem.errors import BadArgument
from phloem.kernels.search.distances import join_neighbors, pair_distances
from phloem.kernels.search.parsimony import regraft_subtrees, stepwise_addition
from phloem.kernels.trees.canonical import canonical_trees
from phloem.random_streams import RandomStream
from phloem.search.climbing import ROUGH, Climb, Peak, VisitedTrees
from phloem.search.jobs import Stopped
from phloem.search.resampling import Visits
from phloem.search.surface import SearchTree, Surface
from phloem.threads import share_tasks
from phloem.trees.topology import TopologyBatch

LEAST_TAXA = 3
# Neighbour joining can give negative lengths; optimised lengths are not shorter than this either.
LEAST_LENGTH = 1e-8
MOST_ROUNDS = 20  # over all subtrees; four or five are usual
LARGEST_ROUNDS = 2_000_000  # nodes² · rounds: few or none for 500 taxa and more
SYMMETRY = 1e-9  # how much d(i, j) and d(j, i) may differ, as a share of the largest distance
PARSIMONY_TREES = 99  # one more comes from neighbour joining
FIRST_CLIMBS = 20  # from the best of them
CLIMBS_AT_A_TIME = 10  # fixed, so that the number of threads changes nothing
POOL = 5  # peaks that are perturbed
STRENGTH = 1.0  # random interchanges of a perturbation, for each inner branch
REACH = 50.0  # log-likelihood units below the best tree, beyond which a tree is of no use to any replicate
SAME = 0.02  # peaks that differ by less are resolutions of one tree with branches of no length
PROMISING = 10.0  # how far below the best tree a regraft may score before the other branches are fitted
SATURATED = 3.0  # distances beyond this say nothing
START_LENGTH = 0.05


def parsimony_topologies(patterns: SitePatterns, count: int, *, stream: RandomStream) -> TopologyBatch:
    """Trees grown in random order of the taxa, each added where the parsimony score grows least, ties at random.

    Then subtrees are moved as long as that lowers the score. If the patterns say nothing the trees are uniform draws.
    The first trees do not depend on `count`.
    """
    taxa = len(patterns.taxa)
    if taxa < LEAST_TAXA:
        raise BadArgument(f"parsimony trees: {taxa} taxa. An unrooted tree needs at least {LEAST_TAXA}.")
    if count < 0:
        raise BadArgument(f"parsimony trees: a count of {count}. Give 0 or more.")
    kept = can_tell_trees_apart(patterns)
    states = np.ascontiguousarray(patterns.states[:, kept])
    weights = patterns.counts[kept].astype(np.int64)
    ranks = stream.named("order").generator().random((count, taxa))
    orders = np.argsort(ranks, axis=1, kind="stable").astype(np.int32)
    picks = stream.named("ties").generator().random((count, taxa - 3))
    nodes = 2 * taxa - 2
    rounds = min(MOST_ROUNDS, LARGEST_ROUNDS // nodes**2)
    parents = np.empty((count, nodes), np.int32)
    for tree in range(count):  # one tree a call, as nothing can interrupt a kernel
        own = slice(tree, tree + 1)
        added = TopologyBatch.from_trusted(stepwise_addition(states, weights, orders[own], picks[own]))
        parents[tree] = regraft_subtrees(states, weights, added.parent[0], rounds)
    return TopologyBatch.from_trusted(parents)


def can_tell_trees_apart(patterns: SitePatterns) -> BoolArray:
    """The patterns whose parsimony score may differ between trees, (patterns,).

    It is the same on all trees if one state fits every taxon, or if all known states are unambiguous and at most one
    occurs more than once. Then it is the same on all trees of a subset of the taxa, too.
    """
    common = np.bitwise_and.reduce(patterns.states, axis=0) != 0
    single = 1 << np.arange(len(STATES), dtype=np.uint8)
    occurrences = np.stack([(patterns.states == state).sum(axis=0) for state in single])  # (states, patterns)
    clear = occurrences.sum(axis=0) + (patterns.states == ANY).sum(axis=0) == len(patterns.taxa)
    informative: BoolArray = ~(common | (clear & ((occurrences >= 2).sum(axis=0) <= 1)))
    return informative


def neighbor_joining(distances: FloatArray) -> tuple[TopologyBatch, FloatArray]:
    """The tree of neighbour joining as a batch of one, and its lengths (1, 2n-3), none below `LEAST_LENGTH`.

    Distances along a tree give that tree. Of equally good pairs the first is joined.
    """
    _check_distances(distances)
    symmetric = 0.5 * (distances + distances.T)
    raw, raw_lengths = join_neighbors(symmetric)
    parent, lengths, _ = canonical_trees(raw[None], raw_lengths[None], len(distances), False)
    return TopologyBatch.from_canonical(parent), np.maximum(lengths[:, :-1], LEAST_LENGTH)


def _check_distances(distances: FloatArray) -> None:
    if distances.ndim != 2 or len(distances) != distances.shape[1] or len(distances) < LEAST_TAXA:
        raise BadArgument(f"distances of shape {distances.shape}: give a square matrix of at least {LEAST_TAXA} taxa.")
    if not np.isfinite(distances).all() or (distances < 0).any():
        raise BadArgument("distances: some are negative or not finite. Clip them first.")
    if np.abs(distances - distances.T).max() > SYMMETRY * distances.max():
        raise BadArgument("distances: the matrix is not symmetric. Give each pair one distance.")


class Start(NamedTuple):
    """A tree to climb from, and its log-likelihood where that is known."""

    topology: TopologyBatch  # one
    lengths: FloatArray  # (2n-3,)
    log_likelihood: float = -math.inf


class TreeSearch:
    """Climbs on one surface, several at a time; the trees they see are added to the visits."""

    def __init__(self, surface: Surface, visits: Visits, *, stream: RandomStream, threads: int, stop: Event) -> None:
        self._visits = visits
        self._stream = stream
        self._threads = threads
        self._stop = stop
        self._rooms: SimpleQueue[SearchTree] = SimpleQueue()
        for _ in range(threads):
            self._rooms.put(SearchTree(surface))
        self.pool: list[Peak] = []
        self.climbs = 0
        self.unsuccessful = 0  # climbs since the last that found a better tree

    @property
    def best(self) -> Peak:
        return self.pool[0]

    def climb_from(self, starts: Sequence[Start]) -> None:
        """Climb from each start and put the peaks into the pool."""
        values = [peak.log_likelihood for peak in self.pool] + [start.log_likelihood for start in starts]
        floor = max(values) - REACH
        ended: list[tuple[Peak, list[VisitedTrees]] | None] = [None] * len(starts)

        def climb(first: int, last: int) -> None:
            room = self._rooms.get()
            try:
                for place in range(first, last):
                    room.place(starts[place].topology, starts[place].lengths)
                    run = Climb(room, floor, self._visits.known, self._stop)
                    ended[place] = run.peak(), run.visited
            finally:
                self._rooms.put(room)

        share_tasks(len(starts), self._threads, climb)
        for peak, _ in filter(None, ended):
            self._take(peak)
        self._visits.add([part for _, parts in filter(None, ended) for part in parts])

    def regrafted(self) -> list[Start]:
        """The best tree with one subtree regrafted: the most promising of those trees that were never visited.

        Interchanges cannot move a subtree far if every place on the way is worse.
        """
        room = self._rooms.get()
        room.place(self.best.topology, self.best.lengths)
        moves: list[tuple[float, int, int]] = []
        for node in room.movable.tolist():
            if self._stop.is_set():
                raise Stopped
            places, values = room.score_regrafts(node, tolerance=ROUGH)
            moves += [(value, node, place) for value, place in zip(values.tolist(), places.tolist(), strict=True)]
        least = self.best.log_likelihood - PROMISING
        starts: list[Start] = []
        for _, node, place in sorted((move for move in moves if move[0] > least), reverse=True):
            room.place(self.best.topology, self.best.lengths)
            room.regraft(node, place)
            if room.key not in self._visits.known:
                start = Start(*room.current())
                if room.constraints is None or room.constraints.hold(start.topology).all():
                    starts.append(start)
            if len(starts) == CLIMBS_AT_A_TIME:
                break
        self._rooms.put(room)
        return starts

    def perturbed(self) -> list[Start]:
        """Trees of the pool, each after random interchanges."""
        room = self._rooms.get()
        starts = []
        for offset in range(CLIMBS_AT_A_TIME):
            random = self._stream.named("perturbation").at(self.climbs + offset).generator()
            peak = self.pool[random.integers(len(self.pool))]
            room.place(peak.topology, peak.lengths)
            branches = room.inner_branches
            count = max(1, round(STRENGTH * len(branches))) if len(branches) else 0  # where all are constraints
            for branch, child in zip(random.choice(branches, count), random.integers(2, size=count), strict=True):
                room.interchange(2 * int(branch) + int(child))
            starts.append(Start(*room.current()))
        self._rooms.put(room)
        return starts

    def _take(self, peak: Peak) -> None:
        self.climbs += 1
        better = not self.pool or peak.log_likelihood > self.best.log_likelihood + SAME
        self.unsuccessful = 0 if better else self.unsuccessful + 1
        same = [other for other in self.pool if abs(other.log_likelihood - peak.log_likelihood) < SAME]
        if not same:
            self.pool = sorted([*self.pool, peak], key=lambda other: -other.log_likelihood)[:POOL]


def first_starts(surface: Surface, patterns: SitePatterns, *, stream: RandomStream, stop: Event) -> list[Start]:
    """The best of many parsimony trees and one of neighbour joining, best first, all made to satisfy constraints."""
    room = SearchTree(surface)
    distances = pair_distances(surface.rates, surface.tables, surface.branch_tables(), surface.tips, ROUGH)
    joined, lengths = neighbor_joining(np.minimum(distances, SATURATED))
    scored: dict[int, Start] = {}
    for number in range(1 + PARSIMONY_TREES):
        if stop.is_set():
            raise Stopped
        topology, start_lengths = joined, lengths[0]
        if number:
            topology = parsimony_topologies(patterns, 1, stream=stream.named("parsimony").at(number))
            start_lengths = np.full(joined.branch_count, START_LENGTH)
        if surface.constraints is not None and not surface.constraints.hold(topology).all():
            topology = surface.constraints.imposed_on(topology, stream=stream.named("constraints").at(number))
            start_lengths = np.full(joined.branch_count, START_LENGTH)
        room.place(topology, start_lengths)
        value = room.smooth(2, ROUGH)
        scored.setdefault(room.key, Start(*room.current(), value))
    return sorted(scored.values(), key=lambda start: -start.log_likelihood)[:FIRST_CLIMBS]
