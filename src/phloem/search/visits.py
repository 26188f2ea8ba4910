"""All trees that a search has seen: how well each fits, and the topologies of those that are worth keeping."""

import heapq
from collections.abc import Iterable

import numpy as np

from phloem.kernels.arrays import FloatArray, IntArray, LongArray
from phloem.search.climbing import VisitedTrees
from phloem.search.resampling import Resampling
from phloem.trees.topology import TopologyBatch
from phloem.trees.zobrist import clade_hashes


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
