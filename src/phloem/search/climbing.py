"""Climbing: nearest-neighbour interchanges that raise the likelihood, until none does."""

import math
from collections.abc import Mapping
from threading import Event
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, IntArray, RealArray, WordArray
from phloem.search.jobs import Stopped
from phloem.search.surface import NO_MOVES, ScoredMoves, SearchTree
from phloem.trees.topology import TopologyBatch

# Log-likelihood units: what a move must gain, when a fit of branch lengths is good enough on the way and at the top,
# and by how much less than in the end a move may score before the branches around it are fitted.
LEAST_GAIN = 0.01
ROUGH, FINE = 0.05, 0.005
HOPE = 5.0
WORTH_REPLACING = 0.1  # a tree that was seen before counts again with lengths that are so much better
LARGEST_VISITED = 2**26  # bytes of patterns' log-likelihoods that one climb may bring


class Peak(NamedTuple):
    """A tree that no interchange improves."""

    topology: TopologyBatch  # one
    lengths: FloatArray  # (2n-3,)
    log_likelihood: float
    key: int


class VisitedTrees(NamedTuple):
    """Trees that a climb has seen and that were new, with the log-likelihoods of their patterns."""

    keys: WordArray  # (trees,)
    parents: IntArray  # (trees, nodes)  not canonical
    log_likelihoods: FloatArray  # (trees,)
    sites: RealArray  # (trees, width)  in single precision


class Climb:
    """One climb from the tree as it stands to a peak, and what it saw on its way above `floor`.

    Trees that are `known` count again only where their lengths fit better. Once `stop` is set it ends with `Stopped`.
    """

    def __init__(self, tree: SearchTree, floor: float, known: Mapping[int, float], stop: Event) -> None:
        self._tree = tree
        self._floor = floor
        self._known = known
        self._stop = stop
        self._seen: dict[int, float] = {}
        self.visited: list[VisitedTrees] = []  # in order

    def peak(self) -> Peak:
        """Go up. All branches are tried at the start, then those near the last moves, and all again at the top."""
        tree = self._tree
        value = tree.smooth(2, ROUGH)
        branches = every = tree.inner_branches
        at_top = False
        while True:
            scored = self._score(branches, value)
            improved = self._move(scored, value)
            if improved is not None:
                value, branches = improved
                at_top = False
            elif at_top:
                break
            else:
                value = tree.smooth(5, FINE)
                branches, at_top = every, True
        value = tree.smooth(1, FINE)  # moves that did not hold left partials of other trees behind
        self._keep_peak(value)
        return Peak(*tree.current(), value, tree.key)

    def _score(self, branches: IntArray, value: float) -> ScoredMoves:
        if self._stop.is_set():
            raise Stopped
        scored = self._tree.score(branches, least=min(value, self._floor) - HOPE, tolerance=ROUGH)
        keys = self._tree.keys(scored.moves)[1:].tolist()
        good = np.flatnonzero(scored.log_likelihoods > self._floor)
        values = scored.log_likelihoods.tolist()
        new = [place for place in good.tolist() if self._is_new(keys[place], values[place])]
        if new:
            self.visited.append(
                VisitedTrees(
                    self._tree.keys(scored.moves[new])[1:],
                    self._tree.parents(scored.moves[new])[1:],
                    scored.log_likelihoods[new],
                    scored.sites[new],
                )
            )
            self._forget_worst()
        return scored

    def _forget_worst(self) -> None:
        """If what was seen takes too much memory, the better half stays."""
        if sum(part.sites.nbytes for part in self.visited) <= LARGEST_VISITED:
            return
        keys, parents, values, sites = map(np.concatenate, zip(*self.visited, strict=True))
        better = np.sort(np.argsort(-values, kind="stable")[: max(1, len(values) // 2)])
        self.visited = [VisitedTrees(keys[better], parents[better], values[better], sites[better])]

    def _keep_peak(self, value: float) -> None:
        """The tree as it stands: it has better lengths than when it was a neighbour, so it counts again."""
        tree = self._tree
        if value > self._floor:
            sites = tree.sites[None].astype(np.float32)
            self.visited.append(VisitedTrees(tree.keys(NO_MOVES), tree.parents(NO_MOVES), np.array([value]), sites))

    def _is_new(self, key: int, value: float) -> bool:
        """Whether the tree was never seen, or only with lengths that fitted it worse."""
        if value < max(self._seen.get(key, -math.inf), self._known.get(key, -math.inf)) + WORTH_REPLACING:
            return False
        self._seen[key] = value
        return True

    def _move(self, scored: ScoredMoves, value: float) -> tuple[float, IntArray] | None:
        """Make all moves that gain if together they are as good as the best one alone, and that one otherwise.

        The log-likelihood, and the branches near what has changed; None if nothing gains.
        """
        tree = self._tree
        chosen = _compatible(tree, scored, value)
        before = tree.copy_state()
        for count in sorted({len(chosen), 1} if chosen else (), reverse=True):
            for place in chosen[:count]:
                tree.interchange(int(scored.moves[place]), scored.lengths[place])
            reached = tree.smooth(1, ROUGH)
            if reached > max(value, scored.log_likelihoods[chosen[0]] - ROUGH):
                return reached, _near(tree, [int(scored.moves[place]) // 2 for place in chosen[:count]])
            tree.restore(before)
        return None


def _compatible(tree: SearchTree, scored: ScoredMoves, value: float) -> list[int]:
    """Moves that gain, best first, no two of them at one node."""
    order = np.argsort(-scored.log_likelihoods, kind="stable")
    taken: set[int] = set()
    chosen = []
    for place in order[scored.log_likelihoods[order] > value + LEAST_GAIN].tolist():
        node, *_, above = tree.around(int(scored.moves[place]))
        if node not in taken and above not in taken:
            taken |= {node, above}
            chosen.append(place)
    return chosen


def _near(tree: SearchTree, nodes: list[int]) -> IntArray:
    """The inner branches with an end within two branches of a changed one."""
    reached = set(nodes)
    for _ in range(2):
        reached |= {other for node in reached for other in tree.neighbors(node)}
    return np.array([branch for branch in tree.inner_branches.tolist() if branch in reached], np.int32)
