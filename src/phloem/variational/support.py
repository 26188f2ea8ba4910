"""The support of a subsplit Bayesian network: which trees it can generate, from a tree sample, as flat arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from phloem.arrays import Array, BoolArray, IntArray, LongArray, WordArray, read_only
from phloem.errors import BadArgument, FileProblem
from phloem.kernels.trees.clades import clade_bits, hash_sets
from phloem.kernels.variational import sbn
from phloem.kernels.variational.subsplits import (
    SPLITS,
    PairIndex,
    SubsplitIndex,
    confirm_sets,
    find_all,
    locate_trees,
    make_index,
)
from phloem.storage.arrays import distinct_names, read_arrays, write_arrays
from phloem.trees.sample import TreeSample, credible_topologies, group_rows
from phloem.trees.topology import TopologyBatch, taxon_keys

FEWEST_TAXA = 4
CHUNK_PAIRS = 200_000  # trees are taken a few at a time: what they may add must fit before they are looked at
Arrays = dict[str, np.ndarray[Any, Any]]
PARTS = ("taxa", "topology_count", "clades", "splits", "subsplits", "pairs")


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


def write_support(support: SubsplitSupport, path: str | Path) -> None:
    """Write a support; the same support gives the same bytes."""
    write_arrays(Path(path), support_arrays(support))


def read_support(path: str | Path) -> SubsplitSupport:
    """A support from its file, or from a network's."""
    return support_from(Path(path), read_arrays(Path(path), PARTS, "phloem support --out"))


def support_arrays(support: SubsplitSupport) -> Arrays:
    """What a support's file holds."""
    after_root = slice(len(support.splits), None)
    return {
        "taxa": np.array(support.taxa),
        "topology_count": np.array(support.topology_count, np.int64),
        "clades": support.clades,
        "splits": support.splits,
        "subsplits": support.subsplits,
        "pairs": np.stack([support.sisters[after_root], support.divisions[after_root]], axis=1),
    }


def support_from(path: Path, arrays: Arrays) -> SubsplitSupport:
    """The support that a file's arrays describe."""
    taxa = distinct_names(arrays["taxa"])
    if taxa is None or len(taxa) < FEWEST_TAXA:
        raise damaged(path, f"`taxa` is no list of at least {FEWEST_TAXA} distinct names")
    topology_count, *parts = (arrays[name] for name in PARTS[1:])
    problem = _first_problem(len(taxa), topology_count, *parts)
    if problem:
        raise damaged(path, problem)
    try:
        support = assemble(taxa, int(topology_count), *parts)
    except BadArgument as reason:
        raise damaged(path, str(reason)) from None
    if topology_count == 1 and (len(support.splits) != 2 * len(taxa) - 3 or (np.diff(support.starts)[1:] > 1).any()):
        raise damaged(path, "it has more trees than one")
    return support


def _first_problem(
    taxon_count: int, topology_count: Any, clades: Any, splits: Any, subsplits: Any, pairs: Any
) -> str | None:
    """What is wrong with the parts of a support, or None: kernels would not notice."""
    if topology_count.shape != () or topology_count.dtype != np.int64 or topology_count < 1:
        return "`topology_count` is no positive number"
    words = (taxon_count + 63) // 64
    if clades.dtype != np.uint64 or clades.ndim != 2 or clades.shape[1] != words or len(clades) < taxon_count:
        return "`clades` are no sets of these taxa"
    number = np.arange(taxon_count)
    single = np.zeros((taxon_count, words), np.uint64)
    single[number, number // 64] = np.uint64(1) << (number % 64).astype(np.uint64)
    whole = np.bitwise_or.reduce(single, axis=0)
    if (clades[:taxon_count] != single).any() or (clades & ~whole).any():
        return "`clades` do not begin with the single taxa"
    for name, part, first_bound, second_bound in (
        ("splits", splits, len(clades), len(clades)),
        ("subsplits", subsplits, len(clades), len(clades)),
        ("pairs", pairs, len(clades), len(subsplits)),
    ):
        if part.dtype != np.int32 or part.ndim != 2 or part.shape[1] != 2 or len(part) == 0:
            return f"`{name}` are no pairs of numbers"
        if part.min() < 0 or (part.max(axis=0) >= (first_bound, second_bound)).any():
            return f"`{name}` name what does not exist"
    for name, part in (("clades", clades), ("splits", splits), ("subsplits", subsplits), ("pairs", pairs)):
        if len(group_rows(part)[0]) < len(part):
            return f"`{name}` are not distinct"
    one, two = clades[splits[:, 0]], clades[splits[:, 1]]
    holds_first_taxon = (one[:, 0] & np.uint64(1)).astype(bool)
    if (one ^ two != whole).any() or (splits[holds_first_taxon, 0] != 0).any():
        return "the sides of a split are no complements, or in the wrong order"
    if (clades[subsplits[:, 0]] & clades[subsplits[:, 1]]).any() or (subsplits[:, 0] >= subsplits[:, 1]).any():
        return "the halves of a subsplit overlap, or are in the wrong order"
    divided = np.bitwise_or.reduce(clades[subsplits], axis=1)
    _, groups = group_rows(np.concatenate([clades, divided]))
    if groups.max() >= len(clades):
        return "a subsplit divides no clade"
    if (clades[pairs[:, 0]] & divided[pairs[:, 1]]).any():
        return "a clade overlaps its sister"
    return None


def damaged(path: Path, what: str) -> FileProblem:
    """A file whose parts are there but make no sense."""
    return FileProblem(f"{path}: is damaged or no file of phloem's: {what}. Make it again.")
