"""Log-likelihoods and derivatives of site patterns, whose classes of equal columns are kept from call to call."""

from collections.abc import Iterator
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from phloem.arrays import Array, FloatArray, IntArray, LongArray, RealArray, ShortArray
from phloem.data.patterns import SitePatterns
from phloem.kernels.likelihood.classes import EMPTY, KnownClades, Plans, classify, hash_known, list_pairs, plan_trees
from phloem.kernels.likelihood.pruning import CODES, ENTRIES, Classes, Columns, Derivatives, Rates, evaluate
from phloem.threads import share_tasks
from phloem.trees.topology import TopologyBatch

MOST_PATTERNS = 2048  # of a block: fewer columns would be equal in smaller ones; below 2^16
LEAST_PATTERNS = 128
MOST_CELLS = 2**18  # taxa times patterns of a block: what is computed for more leaves the processor's cache
MOST_BYTES = 2**28  # of classes; a single tree may need more


class Evaluation(NamedTuple):
    """What is found of a batch of trees. There are no derivatives where none were asked for."""

    sums: FloatArray  # (trees,)
    of_patterns: FloatArray  # (trees, patterns)
    derivatives: Derivatives  # lengths (trees, 2n-3), the others (trees, parts, …)


class Pruning:
    """The likelihood of site patterns, for trees and rates that are given with each call."""

    def __init__(self, patterns: SitePatterns) -> None:
        self.patterns = patterns
        self._classes = ColumnClasses(patterns)
        self._in_use = Lock()  # the classes are one set for all callers

    def evaluate(
        self,
        topologies: TopologyBatch,
        lengths: RealArray,
        rates: Rates,
        *,
        gradient: bool = False,
        full: bool = False,
        threads: int = 1,
    ) -> Evaluation:
        """Log-likelihoods and, where asked for, derivatives for the lengths and, if `full`, for all of the rates."""
        trees, blocks = len(topologies), len(self._classes.columns.bounds) - 1
        of_patterns, sums = np.empty((trees, len(self.patterns))), np.empty((trees, blocks))
        sets, parts, categories = rates.rates.shape
        sizes = (topologies.branch_count, ENTRIES, categories, categories, 4, 4)
        found = Derivatives(*(np.empty((trees if gradient else 0, blocks, size)) for size in sizes))
        lengths = np.ascontiguousarray(lengths, np.float64)
        with self._in_use:
            for some, plans, classes in self._classes.plan(topologies.neighbors, threads):
                own = Derivatives(*(array[some] for array in found))
                their_rates = rates if sets == 1 else Rates(*(array[some] for array in rates))
                given = (plans, classes, self._classes.columns, their_rates, lengths[some])
                _share(
                    len(plans.branches) * blocks, threads, (*given, of_patterns[some], sums[some], own, gradient, full)
                )
        of_parts = found if blocks == parts else Derivatives(*map(self._over_parts, found))
        of_lengths = found.lengths[:, 0] if blocks == 1 else found.lengths.sum(axis=1)
        return Evaluation(sums.sum(axis=1), of_patterns, of_parts._replace(lengths=of_lengths))

    def _over_parts(self, of_blocks: FloatArray) -> FloatArray:
        """Sums over the blocks of each part, (trees, parts, …)."""
        firsts = np.flatnonzero(np.diff(self._classes.columns.parts, prepend=-1))
        return np.asarray(np.add.reduceat(of_blocks, firsts, axis=1))


def _share(tasks: int, threads: int, arguments: tuple[Any, ...]) -> None:
    share_tasks(tasks, threads, lambda first, last: evaluate(first, last, *arguments))


class ColumnClasses:
    """The classes of all clades that have been met, of one alignment.

    When they take more than half of `MOST_BYTES` all are forgotten, and made again as they are met: that takes one to
    four times as long as the likelihood. Nothing that is computed depends on what is known.
    """

    def __init__(self, patterns: SitePatterns) -> None:
        taxa, count = patterns.states.shape
        size = min(MOST_PATTERNS, max(LEAST_PATTERNS, MOST_CELLS // taxa))
        bounds, parts = _blocks(patterns.part_bounds, size)
        self._tips = np.empty((taxa, count), np.uint16)
        self._tip_counts = np.empty((taxa, 1), np.int32)
        codes = np.zeros((taxa, CODES), np.uint8)
        for taxon, row in enumerate(patterns.states):
            own, self._tips[taxon] = np.unique(row, return_inverse=True)
            codes[taxon, : len(own)], self._tip_counts[taxon] = own, len(own)
        self.columns = Columns(
            bounds=bounds,
            parts=parts,
            weights=np.ascontiguousarray(patterns.counts),
            constant=np.bitwise_and.reduce(patterns.states, axis=0),
            codes=codes,
        )
        self._forget()

    def _forget(self) -> None:
        """Know nothing but the tips."""
        taxa, patterns = self._tips.shape
        room = 4 * taxa
        self._known = KnownClades(
            bits=np.zeros((room, -(-taxa // 64)), np.uint64),
            clade_slots=np.empty(0, np.int32),
            first_parts=np.empty((room, 2), np.int32),
            subsplits=np.empty((room, 3), np.int32),
            subsplit_slots=np.empty(0, np.int32),
            used=np.array([taxa, 0]),
        )
        leaves = np.arange(taxa)
        self._known.bits[leaves, leaves // 64] = np.uint64(1) << (leaves % 64).astype(np.uint64)
        self._of_patterns = np.empty((room, patterns), np.uint16)
        self._of_patterns[:taxa] = self._tips
        self._counts = np.empty((room, self._block_count), np.int32)
        self._counts[:taxa] = self._tip_counts
        self._starts = np.empty((room, self._block_count), np.int64)
        self._pairs: ShortArray = np.empty((room * 16, 2), np.uint16)
        self._pairs_used: int = 0
        self._hash()

    @property
    def _taxon_count(self) -> int:
        return len(self._tips)

    @property
    def _block_count(self) -> int:
        return len(self.columns.bounds) - 1

    def plan(self, neighbors: IntArray, threads: int) -> Iterator[tuple[slice, Plans, Classes]]:
        """Some of the trees at a time, as many as memory allows, with how to go over them and all their classes."""
        size = self._most_trees()
        for start in range(0, len(neighbors), size):
            trees = slice(start, min(start + size, len(neighbors)))
            yield trees, self._plan(neighbors[trees], threads), self._classes()

    def _most_trees(self) -> int:
        """How many trees could not fill half of the memory, whatever they are: one at least."""
        of_clade = 6 * self._tips.shape[1] + 16 * self._block_count + 8 * self._known.bits.shape[1] + 64
        return max(1, MOST_BYTES // 2 // (of_clade * self._taxon_count))

    def _plan(self, neighbors: IntArray, threads: int) -> Plans:
        trees, nodes = neighbors.shape[:2]
        interior = nodes - self._taxon_count - 1
        if self.bytes_used() > MOST_BYTES // 2:
            self._forget()
        self._make_room(trees * interior)
        plans = Plans(
            children=np.empty((trees, interior, 2), np.int32),
            root_children=np.empty((trees, 3), np.int32),
            branches=np.empty((trees, nodes - 1), np.int32),
            clades=np.empty((trees, nodes - 1), np.int32),
            subsplits=np.empty((trees, interior), np.int32),
        )
        clades, subsplits = self._known.used.tolist()
        plan_trees(neighbors, self._known, plans)
        if self._known.used[1] > subsplits:
            self._classify(clades, subsplits, threads)
        return plans

    def _classify(self, clades: int, subsplits: int, threads: int) -> None:
        """Make the classes of clades and the pairs of subsplits that are new, from these numbers on."""
        known, bounds = self._known, self.columns.bounds
        last_clade, last_subsplit = known.used.tolist()

        def make_classes(first: int, last: int) -> None:
            classify(first, last, bounds, clades, last_clade, known.first_parts, self._of_patterns, self._counts)

        def make_pairs(first: int, last: int) -> None:
            arguments = (known.subsplits, self._of_patterns, self._starts, self._pairs)
            list_pairs(first, last, bounds, subsplits, last_subsplit, *arguments)

        share_tasks(self._block_count, threads, make_classes)
        counts = self._counts[known.subsplits[subsplits:last_subsplit, 2]]
        ends = self._pairs_used + np.cumsum(counts, dtype=np.int64).reshape(counts.shape)
        self._starts[subsplits:last_subsplit] = ends - counts
        self._pairs_used = int(ends[-1, -1])
        if self._pairs_used > len(self._pairs):
            self._pairs = _grown(self._pairs, 2 * self._pairs_used)
        share_tasks(self._block_count, threads, make_pairs)

    def _classes(self) -> Classes:
        return Classes(self._of_patterns, self._counts, self._starts, self._pairs)

    def bytes_used(self) -> int:
        """What the classes take that are known."""
        clades, subsplits = self._known.used.tolist()
        of_clade = self._of_patterns[0].nbytes + self._counts[0].nbytes + self._known.bits[0].nbytes
        return clades * of_clade + subsplits * self._starts[0].nbytes + 4 * self._pairs_used

    def _make_room(self, more: int) -> None:
        """Have room for so many more clades and subsplits."""
        known = self._known
        clades, subsplits = (known.used + more).tolist()
        if clades > len(known.bits):
            bits, first_parts = _grown(known.bits, 2 * clades), _grown(known.first_parts, 2 * clades)
            self._of_patterns, self._counts = _grown(self._of_patterns, 2 * clades), _grown(self._counts, 2 * clades)
            known = known._replace(bits=bits, first_parts=first_parts)
        if subsplits > len(known.subsplits):
            known = known._replace(subsplits=_grown(known.subsplits, 2 * subsplits))
            self._starts = _grown(self._starts, 2 * subsplits)
        if known is not self._known:
            self._known = known
            self._hash()

    def _hash(self) -> None:
        """Make hash tables that are half empty when all room is used."""
        known = self._known
        self._known = known._replace(
            clade_slots=_empty_slots(len(known.bits)), subsplit_slots=_empty_slots(len(known.subsplits))
        )
        hash_known(self._known)


def _blocks(part_bounds: LongArray, most: int) -> tuple[LongArray, IntArray]:
    """Bounds of blocks of about equal size, of at most so many patterns of one part; and the part of each."""
    bounds, parts = [0], []
    for part, (start, end) in enumerate(pairwise(part_bounds.tolist())):
        blocks = max(1, -(-(end - start) // most))
        bounds += [start + (end - start) * block // blocks for block in range(1, blocks + 1)]
        parts += [part] * blocks
    return np.array(bounds, np.int64), np.array(parts, np.int32)


def _empty_slots(entries: int) -> IntArray:
    return np.full(2 ** (2 * entries).bit_length(), EMPTY, np.int32)


def _grown(array: Array, length: int) -> Array:
    """The same content with room for more rows."""
    larger = np.empty_like(array, shape=(length, *array.shape[1:]))
    larger[: len(array)] = array
    return larger
