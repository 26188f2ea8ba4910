"""The search: climbs from many starts, then from perturbed good trees, until nothing better turns up."""

import math
from collections.abc import Sequence
from queue import SimpleQueue
from threading import Event
from typing import NamedTuple

import numpy as np

from phloem.data.patterns import SitePatterns
from phloem.kernels.arrays import FloatArray
from phloem.kernels.pair_distances import pair_distances
from phloem.random_streams import RandomStream
from phloem.search.climbing import ROUGH, Climb, Peak, VisitedTrees
from phloem.search.records import Stopped
from phloem.search.starts import neighbor_joining, parsimony_topologies
from phloem.search.surface import SearchTree, Surface
from phloem.search.visits import Visits
from phloem.target.threads import share_tasks
from phloem.trees.topology import TopologyBatch

PARSIMONY_TREES = 99  # one more comes from neighbour joining
FIRST_CLIMBS = 20  # from the best of them
CLIMBS_AT_A_TIME = 10  # fixed, so that the number of threads changes nothing
POOL = 5  # peaks that are perturbed
STRENGTH = 1.0  # random interchanges of a perturbation, for each inner branch
REACH = 50.0  # log-likelihood units below the best tree from which on a tree is of no use to any replicate
SAME = 0.02  # peaks that differ by less are resolutions of one tree with branches of no length
PROMISING = 10.0  # a subtree moved may score so much less than the best tree before the other branches are fitted
SATURATED = 3.0  # distances beyond this say nothing
START_LENGTH = 0.05


class Start(NamedTuple):
    """A tree to climb from, and its log-likelihood where that is known."""

    topology: TopologyBatch  # one
    lengths: FloatArray  # (2n-3,)
    log_likelihood: float = -math.inf


class TreeSearch:
    """Climbs on one surface, some at a time; what they see goes to the visits."""

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
        """The best tree with one subtree elsewhere: the most promising of such trees that were never visited.

        Interchanges cannot move a subtree far when all places on the way are worse.
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
                starts.append(Start(*room.current()))
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
            count = max(1, round(STRENGTH * len(branches)))
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
    """The best of many parsimony trees and one of neighbour joining, best first."""
    room = SearchTree(surface)
    distances = pair_distances(surface.rates, surface.tables, surface.tips, ROUGH)
    joined, lengths = neighbor_joining(np.minimum(distances, SATURATED))
    scored: dict[int, Start] = {}
    for number in range(1 + PARSIMONY_TREES):
        if stop.is_set():
            raise Stopped
        topology, start_lengths = joined, lengths[0]
        if number:
            topology = parsimony_topologies(patterns, 1, stream=stream.named("parsimony").at(number))
            start_lengths = np.full(joined.branch_count, START_LENGTH)
        room.place(topology, start_lengths)
        value = room.smooth(2, ROUGH)
        scored.setdefault(room.key, Start(*room.current(), value))
    return sorted(scored.values(), key=lambda start: -start.log_likelihood)[:FIRST_CLIMBS]
