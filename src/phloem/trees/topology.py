"""Unrooted binary topologies as arrays, in batches: canonical numbering, clade hashes, and an index."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np

from phloem.arguments import check_fields
from phloem.arrays import BoolArray, FloatArray, IntArray, LongArray, WordArray, read_only
from phloem.errors import BadArgument
from phloem.kernels.trees import clades
from phloem.kernels.trees.canonical import canonical_trees, neighbors_of

Selection = slice | np.ndarray | list[int]
# Two streams of SplitMix64 (Steele, Lea & Flood 2014). Any odd seeds will do.
FIRST_SEED = np.uint64(0x9E3779B97F4A7C15)
SECOND_SEED = np.uint64(0xD1B54A32D192ED03)


@dataclass(frozen=True, slots=True, eq=False)
class TopologyBatch:
    """Unrooted binary trees on n taxa: leaves 0..n-1, parents numbered above children, root 2n-3.

    Canonical: the root is taxon 0's neighbour, children come in order of their least leaf and interior
    nodes are numbered in postorder, so equal topologies are equal arrays. Column 0 of `neighbors` leads
    to taxon 0 (at the root it is taxon 0), columns 1 and 2 lead to the children in order. A branch has
    the number of its lower node. The arrays are read-only.
    """

    parent: IntArray  # (batch, 2n-2)     -1 at the root
    neighbors: IntArray  # (batch, 2n-2, 3)  -1 where a leaf has none

    def __post_init__(self) -> None:
        check_fields(self)
        nodes = self.parent.shape[-1]
        if self.parent.ndim != 2 or nodes < 4 or nodes % 2 or self.neighbors.shape != (*self.parent.shape, 3):
            raise BadArgument(
                f"topologies: parents of shape {self.parent.shape} and neighbours of {self.neighbors.shape}, where "
                "(batch, 2n-2) and (batch, 2n-2, 3) with n >= 3 are needed."
            )
        for array in (self.parent, self.neighbors):
            if array.dtype != np.int32 or (array.size and not -1 <= array.min() <= array.max() < nodes):
                raise BadArgument("topologies: node numbers must be 32-bit integers from 0 to 2n-3, or -1.")
        if (self.neighbors[:, nodes // 2 + 1 :] < 0).any():
            raise BadArgument("topologies: every interior node needs three neighbours.")
        object.__setattr__(self, "parent", read_only(self.parent))
        object.__setattr__(self, "neighbors", read_only(self.neighbors))

    @classmethod
    def from_canonical(cls, parent: IntArray) -> "TopologyBatch":
        """From parents (batch, 2n-2) that are canonical, which is not checked."""
        parent = read_only(parent)  # numba would compile another variant for writable arrays
        return cls._known(parent, neighbors_of(parent))

    @classmethod
    def _known(cls, parent: IntArray, neighbors: IntArray) -> "TopologyBatch":
        """From valid arrays, which are not checked."""
        batch = object.__new__(cls)
        object.__setattr__(batch, "parent", read_only(parent))
        object.__setattr__(batch, "neighbors", read_only(neighbors))
        return batch

    @classmethod
    def from_parents(cls, parent: IntArray) -> "TopologyBatch":
        """From parents (batch, 2n-2) in any interior numbering and with any interior node as the root."""
        raw = np.array(parent, ndmin=2)
        _check_binary(raw)
        return cls.from_trusted(raw.astype(np.int32, order="C"))

    @classmethod
    def from_trusted(cls, parent: IntArray) -> "TopologyBatch":
        """Like `from_parents`, for parents of unrooted binary trees, which is not checked."""
        no_lengths = np.empty((len(parent), 0))
        canonical, _, _ = canonical_trees(parent, no_lengths, parent.shape[1] // 2 + 1, False)
        return cls.from_canonical(canonical)

    @classmethod
    def with_lengths(cls, parent: IntArray, lengths: FloatArray) -> "tuple[TopologyBatch, FloatArray]":
        """Like `from_trusted`, with the lengths of the branches above all nodes (batch, 2n-2), the root's unused.

        They come back in the order of the canonical branches, (batch, 2n-3).
        """
        canonical, ordered, _ = canonical_trees(parent, lengths, parent.shape[1] // 2 + 1, False)
        return cls.from_canonical(canonical), ordered[:, :-1].copy()

    def with_leaves(
        self, leaves: IntArray, branch_lengths: FloatArray | None = None
    ) -> "tuple[TopologyBatch, FloatArray | None]":
        """The same trees with leaf i renamed leaves[i], and the branch lengths in the new branches' order."""
        if not np.array_equal(np.sort(leaves), np.arange(self.taxon_count)):
            raise BadArgument(f"new leaf numbers: each of 0 to {self.taxon_count - 1} is needed once.")
        if branch_lengths is not None and branch_lengths.shape != (len(self), self.branch_count):
            raise BadArgument(f"branch lengths of shape {branch_lengths.shape} do not fit the trees.")
        raw = self.parent.copy()
        raw[:, leaves] = self.parent[:, : len(leaves)]
        if branch_lengths is None:
            return self.from_trusted(raw), None
        raw_lengths = np.full(raw.shape, np.nan)
        raw_lengths[:, leaves] = branch_lengths[:, : len(leaves)]
        raw_lengths[:, len(leaves) : -1] = branch_lengths[:, len(leaves) :]
        return self.with_lengths(raw, raw_lengths)

    @property
    def taxon_count(self) -> int:
        return self.node_count // 2 + 1

    @property
    def node_count(self) -> int:
        return int(self.parent.shape[1])

    @property
    def branch_count(self) -> int:
        return self.node_count - 1

    @property
    def root(self) -> int:
        return self.node_count - 1

    def __len__(self) -> int:
        return len(self.parent)

    def __getitem__(self, selection: "SupportsIndex | Selection") -> "TopologyBatch":
        """A smaller batch; a single index gives a batch of one."""
        if isinstance(selection, SupportsIndex) and not isinstance(selection, np.ndarray):
            index = range(len(self))[selection]
            selection = slice(index, index + 1)
        return TopologyBatch(
            np.ascontiguousarray(self.parent[selection]), np.ascontiguousarray(self.neighbors[selection])
        )

    def take(self, places: LongArray) -> "TopologyBatch":
        """The trees at these indices, without checks, for training."""
        return self._known(self.parent[places], self.neighbors[places])

    def __iter__(self) -> "Iterator[TopologyBatch]":
        return (self[index] for index in range(len(self)))

    def distinct(self) -> "tuple[TopologyBatch, list[int]]":
        """Each topology once, in order of first appearance, and the number of every tree's topology."""
        numbers: dict[bytes, int] = {}
        group: list[int] = []
        first: list[int] = []
        for tree, row in enumerate(self.parent):
            number = numbers.setdefault(row.tobytes(), len(first))
            if number == len(first):
                first.append(tree)
            group.append(number)
        if len(first) == len(self):
            return self, group
        return self._known(self.parent[first], self.neighbors[first]), group

    def equal(self, other: "TopologyBatch") -> BoolArray:
        """Whether topologies are the same, tree by tree, (batch,)."""
        if self.parent.shape[1] != other.parent.shape[1]:
            raise BadArgument(f"topologies on {self.taxon_count} and on {other.taxon_count} taxa cannot be compared.")
        if len(self) != len(other):
            raise BadArgument(f"{len(self)} and {len(other)} topologies cannot be compared tree by tree.")
        same: BoolArray = (self.parent == other.parent).all(axis=1)
        return same

    @staticmethod
    def concatenate(batches: "list[TopologyBatch]") -> "TopologyBatch":
        """One batch from several on the same taxa, in order."""
        if len({batch.taxon_count for batch in batches}) != 1:
            raise BadArgument("topologies: one or more batches on the same number of taxa are needed.")
        return TopologyBatch(
            np.concatenate([batch.parent for batch in batches]),
            np.concatenate([batch.neighbors for batch in batches]),
        )


def _check_binary(parent: IntArray) -> None:
    """Raise unless every row is an unrooted binary tree with leaves 0..n-1 and an interior root."""
    if parent.ndim != 2 or parent.shape[1] < 4 or parent.shape[1] % 2:
        raise BadArgument(f"parents of shape {parent.shape}: a binary tree of n >= 3 taxa has 2n-2 nodes.")
    nodes = parent.shape[1]
    leaf_count = nodes // 2 + 1
    if ((parent < -1) | (parent >= nodes)).any() or ((parent == -1).sum(axis=1) != 1).any():
        raise BadArgument("parents: each tree needs one root (-1), and otherwise node numbers.")
    degrees = (parent >= 0).astype(np.int32)
    trees, children = np.nonzero(parent >= 0)
    np.add.at(degrees, (trees, parent[trees, children]), 1)
    if (degrees[:, :leaf_count] != 1).any() or (degrees[:, leaf_count:] != 3).any():
        raise BadArgument("parents: leaves 0..n-1 need one neighbour each and interior nodes three.")
    if (parent[:, :leaf_count] < 0).any():
        raise BadArgument("parents: the root must be an interior node.")
    if not _all_lead_to_root(parent):
        raise BadArgument("parents: some nodes form a cycle instead of leading to the root.")


def _all_lead_to_root(parent: IntArray) -> bool:
    """Pointer doubling: after log2(nodes) rounds every pointer has arrived at its tree's root."""
    trees = np.arange(len(parent))[:, None]
    root = parent.argmin(axis=1)[:, None]
    ahead = np.where(parent < 0, root, parent)
    for _ in range(parent.shape[1].bit_length()):
        ahead = ahead[trees, ahead]
    return bool((ahead == root).all())


def _split_mix(counter: WordArray) -> WordArray:
    mixed = counter * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def taxon_keys(taxon_count: int) -> WordArray:
    """Fixed random keys, (taxa, 2) words: taxon i has the same key whatever the number of taxa."""
    counter = np.arange(1, taxon_count + 1, dtype=np.uint64)
    return np.stack([_split_mix(counter + FIRST_SEED), _split_mix(counter + SECOND_SEED)], axis=1)


def clade_hashes(topologies: TopologyBatch) -> WordArray:
    """Hash of the taxa at or below every node, (batch, nodes, 2); the root's is that of all taxa.

    XOR with the root's hash gives the complement's.
    """
    return clades.clade_hashes(topologies.parent, taxon_keys(topologies.taxon_count))


class TopologyIndex:
    """Finds topologies in a list of distinct ones, many at a time."""

    def __init__(self, topologies: TopologyBatch) -> None:
        self._taxon_count = topologies.taxon_count
        rows = pack_rows(topologies.parent)
        self._order = np.argsort(rows)
        self._rows = rows[self._order]

    def find(self, topologies: TopologyBatch) -> LongArray:
        """The index of each topology in the list, (batch,); -1 if it is not there."""
        if topologies.taxon_count != self._taxon_count:
            raise BadArgument(
                f"topologies on {topologies.taxon_count} taxa cannot be found among topologies on {self._taxon_count}."
            )
        if not len(self._rows):
            return np.full(len(topologies), -1)
        rows = pack_rows(topologies.parent)
        nearest = np.minimum(np.searchsorted(self._rows, rows), len(self._rows) - 1)
        found: LongArray = np.where(self._rows[nearest] == rows, self._order[nearest], -1)
        return found


def pack_rows(rows: IntArray | WordArray) -> np.ndarray:
    """Each row of an integer matrix as one item, (rows,), to sort and compare rows as a whole."""
    return np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
