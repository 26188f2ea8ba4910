"""The bootstrap by resampling of estimated log-likelihoods (RELL; Kishino, Miyata & Hasegawa 1990).

A replicate draws as many sites as there are, with replacement. The log-likelihood of a tree on them is the product of
its patterns' log-likelihoods and the replicate's counts, without fitting the tree again, and the replicate's tree is
the visited tree with the largest one.
"""

import numpy as np

from phloem.kernels.arrays import FloatArray, LongArray
from phloem.random_streams import RandomStream

# Trees that differ by less than this are as good, as in the ultrafast bootstrap (Hoang et al. 2018).
TIE = 0.5
REPLICATES_AT_A_TIME = 1000
LARGEST_COUNTS = 2**28  # bytes of counts that are kept; beyond that they are drawn anew when they are needed


class Resampling:
    """Replicates of one alignment, and for each the best of the trees that it has been shown.

    Only trees that are, or might be among the best of some replicate, are kept. Memory: replicates × patterns in parts
    of bounded size, and kept trees × patterns.
    """

    def __init__(self, counts: FloatArray, replicates: int, *, stream: RandomStream) -> None:
        self._counts = counts
        self._replicates = replicates
        self._stream = stream
        self._best = np.full(replicates, -np.inf)
        self.choices = np.full(replicates, -1)  # which tree is the best one
        self._reference: FloatArray | None = None
        self._numbers: LongArray = np.empty(0, np.int64)
        self._kept = np.empty((0, len(counts)), np.float32)
        self._blocks: dict[int, FloatArray] = {}

    def add(self, numbers: LongArray, sites: FloatArray) -> None:
        """Show trees, by number, with the log-likelihoods of their patterns (trees, patterns)."""
        if self._reference is None:
            self._reference = sites[0].copy()
        # Differences from one tree are small numbers, whose sums are exact enough in single precision.
        differences = sites - self._reference
        behind = np.full(len(numbers), np.inf)
        for replicates, counts in self._parts():
            values = differences @ counts
            winners = values.argmax(axis=0)
            highest = values[winners, np.arange(values.shape[1])]
            better = highest > self._best[replicates]
            self._best[replicates] = np.where(better, highest, self._best[replicates])
            self.choices[replicates] = np.where(better, numbers[winners], self.choices[replicates])
            behind = np.minimum(behind, (self._best[replicates] - values).min(axis=1))
        near = behind <= TIE
        self._numbers = np.concatenate([self._numbers, numbers[near]])
        self._kept = np.concatenate([self._kept, differences[near]])

    def choose(self) -> LongArray:
        """The tree of every replicate: one of those that are as good as its best, at random, (replicates,)."""
        chosen = np.empty(self._replicates, np.int64)
        for part, (replicates, counts) in enumerate(self._parts()):
            values = self._kept @ counts
            lots = self._stream.named("ties").at(part).generator().random(values.shape, np.float32)
            lots[values < self._best[replicates] - TIE] = -1.0
            chosen[replicates] = self._numbers[lots.argmax(axis=0)]
        return chosen

    def _parts(self):
        for part, start in enumerate(range(0, self._replicates, REPLICATES_AT_A_TIME)):
            count = min(REPLICATES_AT_A_TIME, self._replicates - start)
            counts = self._blocks.get(part)
            if counts is None:
                counts = self._draw(part, count)
                if (part + 1) * counts.nbytes <= LARGEST_COUNTS:
                    self._blocks[part] = counts
            yield slice(start, start + count), counts

    def _draw(self, part: int, count: int) -> FloatArray:
        """Counts of the patterns in each replicate, (patterns, count)."""
        sites = np.repeat(np.arange(len(self._counts)), self._counts.astype(np.int64))
        drawn = self._stream.named("sites").at(part).generator().integers(len(sites), size=(count, len(sites)))
        flat = sites[drawn] + len(self._counts) * np.arange(count)[:, None]
        table = np.bincount(flat.ravel(), minlength=count * len(self._counts)).reshape(count, -1)
        return np.ascontiguousarray(table.T, np.float32)
