"""The bootstrap by resampling of estimated log-likelihoods (RELL; Kishino, Miyata & Hasegawa 1990).

A replicate draws as many sites as the alignment has, with replacement. The log-likelihood of a tree on them is the
product of its patterns' log-likelihoods and the replicate's counts, summed over patterns, without fitting the tree
again; the replicate's tree is the visited tree with the largest one.
"""

import heapq
from collections.abc import Iterable, Iterator
from threading import Event

import numpy as np

from phloem.arrays import BoolArray, FloatArray, IntArray, LongArray, RealArray
from phloem.random_streams import RandomStream
from phloem.search.climbing import VisitedTrees
from phloem.search.jobs import Stopped
from phloem.threads import matrix_product
from phloem.trees.topology import TopologyBatch, clade_hashes

# Trees that differ by less than this are as good, as in the ultrafast bootstrap (Hoang et al. 2018).
TIE = 0.5
REPLICATES_AT_A_TIME, TREES_AT_A_TIME = 1000, 1000
# Bytes: of counts that are kept (beyond that they are drawn anew whenever they are needed), and of kept trees.
LARGEST_COUNTS = 2**28
LARGEST_KEPT = 2**28


class Resampling:
    """Replicates of one alignment, and for each the best of the trees that it has been shown.

    Only trees that are or might be as good as the best of some replicate are kept. Memory is bounded: products are
    made in parts, and if too many trees are kept those that are farthest behind go. Once `stop` is set it ends with
    `Stopped`.
    """

    def __init__(
        self,
        counts: FloatArray,
        replicates: int,
        *,
        stream: RandomStream,
        stop: Event | None = None,
        largest_kept: int = LARGEST_KEPT,
    ) -> None:
        self._counts = counts
        self._replicates = replicates
        self._stream = stream
        self._stop = stop or Event()
        self._largest_kept = largest_kept
        self._best = np.full(replicates, -np.inf, np.float32)
        self._reference: RealArray | None = None
        self._kept: RealArray = np.empty((0, len(counts)), np.float32)
        self._drawn: dict[int, RealArray] = {}
        self.choices: LongArray = np.full(replicates, -1, np.int64)  # the best tree of each replicate
        self.numbers: LongArray = np.empty(0, np.int64)  # of the trees that are kept

    def add(self, numbers: LongArray, sites: RealArray) -> None:
        """Show trees, by number, with the log-likelihoods of their patterns (trees, patterns or more).

        A number that was shown before stands for the same topology with other branch lengths, which compete.
        """
        if self._reference is None:
            self._reference = sites[0, : len(self._counts)].copy()
        # Differences from one tree are small numbers, whose sums are exact enough in single precision.
        differences = sites[:, : len(self._counts)] - self._reference
        for start in range(0, len(numbers), TREES_AT_A_TIME):
            part = slice(start, start + TREES_AT_A_TIME)
            self._show(numbers[part], differences[part])

    def choose(self) -> LongArray:
        """The tree of every replicate: one of those that are as good as its best, at random, (replicates,).

        A tree that is kept with several branch lengths takes part once, with those that fit the replicate best. Where
        all that are as good have been forgotten it is the best tree itself.
        """
        chosen = self.choices.copy()
        order = np.argsort(self.numbers, kind="stable")
        distinct, first = np.unique(self.numbers[order], return_index=True)
        bounds = np.append(first, len(order))
        for part, (replicates, counts) in enumerate(self._parts()):
            highest = np.full(counts.shape[1], -1.0, np.float32)
            for block, start in enumerate(range(0, len(distinct), TREES_AT_A_TIME)):
                rows = bounds[start : start + TREES_AT_A_TIME + 1]
                fits = matrix_product(self._kept[order[rows[0] : rows[-1]]], counts)
                values = np.maximum.reduceat(fits, rows[:-1] - rows[0], axis=0)  # (trees, replicates)
                lots = self._stream.named("ties").at(part, block).generator().random(values.shape, np.float32)
                lots[values < self._best[replicates] - TIE] = -1.0
                winners = lots.argmax(axis=0)
                drawn = lots[winners, np.arange(lots.shape[1])]
                better = drawn > highest
                highest[better] = drawn[better]
                chosen[replicates][better] = distinct[start + winners[better]]
        return chosen

    def _show(self, numbers: LongArray, differences: RealArray) -> None:
        behind = np.full(len(numbers), np.inf, np.float32)
        for replicates, counts in self._parts():
            values = matrix_product(differences, counts)
            winners = values.argmax(axis=0)
            highest = values[winners, np.arange(values.shape[1])]
            better = highest > self._best[replicates]
            self._best[replicates][better] = highest[better]
            self.choices[replicates][better] = numbers[winners[better]]
            behind = np.minimum(behind, (self._best[replicates] - values).min(axis=1))
        near = behind <= TIE
        self._keep(np.concatenate([self.numbers, numbers[near]]), np.concatenate([self._kept, differences[near]]))

    def _keep(self, numbers: LongArray, kept: RealArray) -> None:
        """Keep these trees, or if they are too many the better half of what there is room for."""
        self.numbers, self._kept = numbers, kept
        if kept.nbytes <= self._largest_kept:
            return
        behind = np.full(len(numbers), np.inf, np.float32)
        for replicates, counts in self._parts():
            for start in range(0, len(kept), TREES_AT_A_TIME):
                part = slice(start, start + TREES_AT_A_TIME)
                gaps = (self._best[replicates] - matrix_product(kept[part], counts)).min(axis=1)
                behind[part] = np.minimum(behind[part], gaps)
        room = max(1, self._largest_kept // (2 * kept[0].nbytes))
        staying: BoolArray = np.isin(numbers, self.choices) & (behind <= TIE)
        order = np.lexsort((behind, ~staying))[:room]
        self.numbers, self._kept = numbers[np.sort(order)], kept[np.sort(order)]

    def _parts(self) -> Iterator[tuple[slice, RealArray]]:
        """Replicates, some at a time, with the counts of their patterns (patterns, replicates)."""
        for part, start in enumerate(range(0, self._replicates, REPLICATES_AT_A_TIME)):
            if self._stop.is_set():
                raise Stopped
            count = min(REPLICATES_AT_A_TIME, self._replicates - start)
            counts = self._drawn.get(part)
            if counts is None:
                counts = self._draw(part, count)
                if (part + 1) * counts.nbytes <= LARGEST_COUNTS:
                    self._drawn[part] = counts
            yield slice(start, start + count), counts

    def _draw(self, part: int, count: int) -> RealArray:
        """How often each pattern is drawn in each of some replicates, (patterns, count)."""
        patterns = len(self._counts)
        sites = np.repeat(np.arange(patterns), self._counts.astype(np.int64))
        drawn = self._stream.named("sites").at(part).generator().integers(len(sites), size=(count, len(sites)))
        flat = sites[drawn] + patterns * np.arange(count)[:, None]
        table = np.bincount(flat.ravel(), minlength=count * patterns).reshape(count, patterns)
        return np.ascontiguousarray(table.T, np.float32)


class Visits:
    """Trees by key, with the log-likelihood of each; topologies of replicates' trees and of the best ones only."""

    def __init__(self, resampling: Resampling, taxon_count: int, keep: int) -> None:
        self._resampling = resampling
        self._node_count = 2 * taxon_count - 2
        self._keep = keep
        self.known: dict[int, float] = {}  # by key
        self._number_of: dict[int, int] = {}  # by key
        self._parents: dict[int, IntArray] = {}  # by number
        self._best: list[tuple[float, int]] = []  # a heap of log-likelihoods with numbers

    def add(self, parts: Iterable[VisitedTrees]) -> None:
        """Take in what climbs have seen; the better fit counts where they saw the same tree."""
        best: dict[int, tuple[VisitedTrees, int, float]] = {}
        for part in parts:
            for row, (key, value) in enumerate(zip(part.keys.tolist(), part.log_likelihoods.tolist(), strict=True)):
                if value > max(self.known.get(key, -np.inf), best[key][2] if key in best else -np.inf):
                    best[key] = part, row, value
        if not best:
            return
        for key, (part, row, value) in best.items():
            self.known[key] = value
            number = self._number_of.setdefault(key, len(self._number_of))
            self._parents[number] = part.parents[row]
        numbers = np.array([self._number_of[key] for key in best])
        self._note_best(numbers.tolist(), [value for _, _, value in best.values()])
        self._resampling.add(numbers, np.stack([part.sites[row] for part, row, _ in best.values()]))
        needed = set(self._resampling.numbers.tolist()) | set(self._resampling.choices.tolist())
        needed.update(number for _, number in self._best)
        self._parents = {number: row for number, row in self._parents.items() if number in needed}

    def topologies(self, numbers: LongArray) -> TopologyBatch:
        """The trees with these numbers, in canonical form."""
        distinct, place = np.unique(numbers, return_inverse=True)
        parents = np.empty((len(distinct), self._node_count), np.int32)
        for row, number in enumerate(distinct.tolist()):
            parents[row] = self._parents[number]
        return TopologyBatch.from_trusted(parents).take(place)

    def best(self, within: float) -> LongArray:
        """Numbers of the best trees, best first, none of them more than `within` below the very best."""
        ordered = sorted(self._best, key=lambda entry: (-entry[0], entry[1]))
        return np.array([number for value, number in ordered if value >= ordered[0][0] - within], np.int64)

    def supports(self) -> dict[int, float]:
        """How many of the replicates' best trees have each split, as a share, by the split's hash."""
        numbers, counts = np.unique(self._resampling.choices, return_counts=True)
        topologies = self.topologies(numbers)
        hashes = clade_hashes(topologies)[:, topologies.taxon_count : -1, 0]
        splits, place = np.unique(hashes, return_inverse=True)
        weights = np.repeat(counts / counts.sum(), hashes.shape[1])
        return dict(zip(splits.tolist(), np.bincount(place.ravel(), weights).tolist(), strict=True))

    def _note_best(self, numbers: list[int], values: list[float]) -> None:
        if not self._keep:
            return
        fresh = set(numbers)
        entries = [entry for entry in self._best if entry[1] not in fresh]
        self._best = heapq.nlargest(self._keep, [*entries, *zip(values, numbers, strict=True)])


def correlation(first: dict[int, float], second: dict[int, float]) -> float:
    """Pearson's, over the splits that either has; 1 where all supports are alike in both."""
    splits = sorted(first.keys() | second.keys())
    values: FloatArray = np.array([[table.get(split, 0.0) for split in splits] for table in (first, second)])
    spread = values.std(axis=1) if splits else np.zeros(2)
    if (spread < 1e-12).any():
        return float(np.allclose(*values)) if splits else 1.0
    products = (values[0] - values[0].mean()) @ (values[1] - values[1].mean())
    return float(products / (len(splits) * spread.prod()))
