"""From trees to a support: every subsplit of every rooting, with exact taxon sets behind the hashes."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels.arrays import Array, IntArray, WordArray
from phloem.kernels.clades import clade_bits
from phloem.kernels.pair_index import PairIndex, make_index
from phloem.kernels.subsplits import SPLITS, SubsplitIndex, confirm_sets
from phloem.trees.credible import credible_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.trees.zobrist import taxon_keys
from phloem.variational.support import SubsplitSupport, assemble, locate

FEWEST_TAXA = 4
CHUNK_PAIRS = 200_000  # trees are taken a few at a time: what they may add must fit before they are looked at


def collect_support(
    samples: Sequence[TreeSample], *, credible: float = 1.0, minimum_count: float = 0.0
) -> SubsplitSupport:
    """The support of all rootings of the trees of one or several samples (replicates, runs).

    Each sample is cut to its most frequent topologies within the share `credible` (see `credible_topologies`), what
    is left is joined, and topologies whose weights then sum to less than `minimum_count` are left out.
    """
    if not samples:
        raise BadArgument("support: no tree samples given.")
    taxa = samples[0].taxa
    kept = [credible_topologies(sample.with_taxa(taxa), credible) for sample in samples]
    joined = TreeSample(
        taxa,
        TopologyBatch.concatenate([sample.topologies for sample in kept]),
        np.concatenate([sample.weights for sample in kept]),
        None,
    ).distinct()
    frequent = joined[joined.weights >= minimum_count]
    if len(frequent) == 0:
        raise BadArgument(
            f"support: no topology has a count of {minimum_count:g}; the largest is {joined.weights.max():g}. "
            "Give a smaller minimum count."
        )
    return support_of(taxa, frequent.topologies)


def support_of(taxa: tuple[str, ...], topologies: TopologyBatch, keys: WordArray | None = None) -> SubsplitSupport:
    """The support of all rootings of distinct topologies; `keys` are the taxa's hash keys, fixed ones by default."""
    if len(taxa) < FEWEST_TAXA:
        raise BadArgument(f"support: {len(taxa)} taxa have one topology only. Give trees on at least {FEWEST_TAXA}.")
    collection = _Collection(taxon_keys(len(taxa)) if keys is None else keys)
    chunk = max(1, CHUNK_PAIRS // (9 * len(taxa)))
    for start in range(0, len(topologies), chunk):
        collection.add(topologies[start : start + chunk])
    return assemble(taxa, len(topologies), *collection.parts())


class _Collection:
    """What has been seen so far, in arrays that grow."""

    def __init__(self, keys: WordArray) -> None:
        nothing = make_index(np.empty((0, 2), np.uint64))
        self.keys = keys
        self.counts = np.array([len(keys), 0, 0, 0], np.int64)  # the single taxa are the first clades
        self.index = SubsplitIndex(
            make_index(keys), nothing, nothing, np.empty((0, 2), np.int32), np.empty(0, np.int32)
        )
        self.sets = np.empty((0, (len(keys) + 63) // 64), np.uint64)

    def add(self, topologies: TopologyBatch) -> None:
        """Number what is new in some trees, and compare the taxon sets of what is not."""
        self._make_room(len(topologies))
        known_splits = int(self.counts[SPLITS])
        located = locate(topologies, self.keys, self.index, self.counts, adding=True)
        below = clade_bits(topologies.parent, len(self.keys))
        if not confirm_sets(below, located.splits, self.index.sides, self.sets, known_splits):
            raise BadArgument("support: two different clades have the same hash. Leave out some of the trees.")

    def parts(self) -> tuple[WordArray, IntArray, IntArray, IntArray]:
        """Clades, splits, subsplits and (sister, subsplit) pairs, in order of first appearance."""
        clades, splits, subsplits, pairs = self.counts
        return (
            self.sets[:clades].copy(),
            self.index.sides[:splits].copy(),
            self.index.subsplits.pairs[:subsplits].astype(np.int32),
            self.index.pairs.pairs[:pairs].astype(np.int32),
        )

    def _make_room(self, trees: int) -> None:
        """Make every array large enough for all that trees can bring."""
        clades, _, subsplits, pairs = self.counts.tolist()
        inner = len(self.keys) - 2
        clade_room = clades + 2 * trees * inner + len(self.keys)
        index = self.index
        if len(index.split_of_clade) < clade_room:
            index = index._replace(
                sides=_extended(index.sides, 2 * clade_room),
                split_of_clade=_extended(index.split_of_clade, 2 * clade_room),
            )
            self.sets = _extended(self.sets, 2 * clade_room)
        self.index = index._replace(
            clades=_grown(index.clades, clades, clade_room),
            subsplits=_grown(index.subsplits, subsplits, subsplits + 3 * trees * inner),
            pairs=_grown(index.pairs, pairs, pairs + 9 * trees * inner),
        )


def _grown(index: PairIndex, count: int, needed: int) -> PairIndex:
    """The same index with room for more, doubled so that growing is rare."""
    if needed <= len(index.pairs):
        return index
    return make_index(index.pairs[:count], 2 * needed)


def _extended(array: Array, length: int) -> Array:
    """A longer array, filled up with -1 (all ones in unsigned words)."""
    longer = np.full((length, *array.shape[1:]), -1).astype(array.dtype)
    longer[: len(array)] = array
    return cast(Array, longer)
