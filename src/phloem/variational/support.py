"""The support of a subsplit Bayesian network: which trees it can generate, as flat arrays."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels import sbn
from phloem.kernels.arrays import BoolArray, IntArray, LongArray, WordArray, read_only
from phloem.kernels.clades import hash_sets
from phloem.kernels.pair_index import PairIndex, find_all, make_index
from phloem.kernels.subsplits import SubsplitIndex, locate_trees
from phloem.trees.sample import group_rows
from phloem.trees.topology import TopologyBatch
from phloem.trees.zobrist import taxon_keys


class Located(NamedTuple):
    """What topologies use of a support, by number; -1 for what it lacks.

    A branch has its split and its primary subsplit pairs: how each side of more than one taxon divides, given
    the other side. Entries are those that the rootings use.
    """

    neighbors: IntArray  # (batch, 2n-2, 3)     the topologies' own
    splits: IntArray  # (batch, 2n-3)
    subsplits: IntArray  # (batch, 2n-3, 2)     below and above each branch; -1 below a leaf
    entries: IntArray  # (batch, n-2, 3, 3)     each interior node seen from each neighbour, beside three sisters


@dataclass(frozen=True, slots=True, eq=False)
class SubsplitSupport:
    """Conditional probability tables over subsplits, for every rooting of every tree that they were collected from.

    An entry is a subsplit given the sister of the clade that it divides; a table is a contiguous range of entries with
    the same clade and sister. Table 0 holds the root splits: entry i is split i. The tables with a choice come first,
    so the entries below `parameter_count` are the parameters. A table of one entry has no parameter; nor has the root's
    if there is one topology only, which is the same wherever its root is.
    """

    taxa: tuple[str, ...]
    topology_count: int  # distinct topologies that it was collected from
    clades: WordArray  # (clades, words)   bit sets; the first n are the single taxa
    splits: IntArray  # (splits, 2)        the clade away from taxon 0 (taxon 0 itself for its own branch), and the rest
    subsplits: IntArray  # (subsplits, 2)  the two clades that a clade divides into
    sisters: IntArray  # (entries,)        a clade; -1 for root splits
    divisions: IntArray  # (entries,)      a split for table 0, else a subsplit
    starts: LongArray  # (tables + 1,)     where each table's entries begin
    children: IntArray  # (entries, 2)     the tables of the two halves; -1 - taxon for a single taxon
    free_tables: int  # how many of the tables have parameters
    index: SubsplitIndex  # finds all of these again

    @property
    def parameter_count(self) -> int:
        return int(self.starts[self.free_tables])

    @property
    def entry_count(self) -> int:
        return len(self.sisters)

    @property
    def table_count(self) -> int:
        return len(self.starts) - 1

    @property
    def free_starts(self) -> LongArray:
        """Where each table with parameters begins, and the end of the last."""
        return self.starts[: self.free_tables + 1]

    def locate(self, topologies: TopologyBatch) -> Located:
        """Number the splits, subsplits and table entries of topologies; linear in the number of taxa."""
        if topologies.taxon_count != len(self.taxa):
            raise BadArgument(f"trees on {topologies.taxon_count} taxa for a support on {len(self.taxa)}.")
        keys = self.index.clades.pairs[: len(self.taxa)]
        return locate(topologies, keys, self.index, np.zeros(4, np.int64), adding=False)

    def generates(self, topologies: TopologyBatch) -> BoolArray:
        """Whether some rooting of each topology is within the tables, (batch,)."""
        located = self.locate(topologies)
        totals = sbn.log_rootings(located.neighbors, located.splits, located.entries, np.zeros(self.entry_count))
        possible: BoolArray = (totals == 0).any(axis=1)
        return possible


def locate(
    topologies: TopologyBatch, keys: WordArray, index: SubsplitIndex, counts: LongArray, *, adding: bool
) -> Located:
    """What topologies use of an index, by number; with `adding`, what is new is numbered and counted."""
    batch, branches = len(topologies), topologies.branch_count
    located = Located(
        topologies.neighbors,
        np.empty((batch, branches), np.int32),
        np.empty((batch, branches, 2), np.int32),
        np.full((batch, topologies.taxon_count - 2, 3, 3), -1, np.int32),
    )
    locate_trees(topologies.neighbors, keys, index, counts, adding, located.splits, located.subsplits, located.entries)
    return located


def assemble(
    taxa: tuple[str, ...],
    topology_count: int,
    clades: WordArray,
    splits: IntArray,
    subsplits: IntArray,
    pairs: IntArray,
) -> SubsplitSupport:
    """Lay the tables out: pairs (count, 2) are the sister and the subsplit of every entry but the root splits.

    Tables and their entries keep the order in which `pairs` has them, except that tables with a choice come first.
    """
    hashes = hash_sets(clades, taxon_keys(len(taxa)))
    clade_index = make_index(hashes)
    divided = find_all(clade_index, hashes[subsplits[:, 0]] ^ hashes[subsplits[:, 1]])  # (subsplits,)
    parents = np.stack([pairs[:, 0], divided[pairs[:, 1]]], axis=1)  # sister and divided clade of every entry
    first, table = group_rows(parents)
    sizes = np.bincount(table, minlength=len(first))
    by_choice = np.argsort(sizes == 1, kind="stable")
    place = np.argsort(by_choice, kind="stable")
    pairs = pairs[np.argsort(place[table], kind="stable")]
    sizes = np.concatenate([[len(splits)], sizes[by_choice]])

    split_numbers = np.arange(len(splits), dtype=np.int32)
    no_sister = np.full(len(splits), -1, np.int32)
    entries = np.concatenate([np.stack([no_sister, split_numbers], axis=1), pairs])
    table_index = make_index(_as_words(parents[first[by_choice]]))
    halves = np.concatenate([splits, subsplits[pairs[:, 1]]])
    split_of_clade = np.full(len(clades), -1, np.int32)
    split_of_clade[splits[:, 0]] = split_numbers
    return SubsplitSupport(
        taxa=taxa,
        topology_count=topology_count,
        clades=read_only(clades),
        splits=read_only(splits),
        subsplits=read_only(subsplits),
        sisters=read_only(entries[:, 0].copy()),
        divisions=read_only(entries[:, 1].copy()),
        starts=read_only(np.concatenate([[0], np.cumsum(sizes)])),
        children=read_only(_child_tables(table_index, halves, len(taxa))),
        free_tables=int((sizes > 1).sum()) if topology_count > 1 else 0,
        index=SubsplitIndex(
            clade_index, make_index(_as_words(subsplits)), make_index(_as_words(entries)), splits, split_of_clade
        ),
    )


def _child_tables(table_index: PairIndex, halves: IntArray, taxon_count: int) -> IntArray:
    """For each half (entries, 2) the table of that clade beside the other half; -1 - taxon for a single taxon."""
    children = np.empty(halves.shape, np.int32)
    for side in (0, 1):
        clade, sister = halves[:, side], halves[:, 1 - side]
        table = find_all(table_index, _as_words(np.stack([sister, clade], axis=1))) + np.int32(1)
        children[:, side] = np.where(clade < taxon_count, -1 - clade, table)
    if (children == 0).any():
        raise BadArgument("subsplit support: a clade that a subsplit gives has no table of its own.")
    return children


def _as_words(pairs: IntArray) -> WordArray:
    return pairs.astype(np.int64).view(np.uint64)  # -1, a root split's missing sister, becomes the largest word
