"""Site patterns: the distinct columns of an alignment with their counts, and a summary of an alignment."""

from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import NamedTuple

import numpy as np

from phloem.arguments import check_fields, checked
from phloem.arrays import ByteArray, FloatArray, IntArray, LongArray, read_only
from phloem.data.alignment import STATES, Alignment, is_missing
from phloem.data.partitions import SitePartition
from phloem.errors import AlignmentError, counted


@dataclass(frozen=True, slots=True, eq=False)
class SitePatterns:
    """The distinct columns of an alignment in order of first appearance, how often each occurs, and where.

    With a partition, those of its parts one after the other: columns of different parts are different.
    """

    taxa: tuple[str, ...]
    states: ByteArray  # (taxa, patterns)  bits A, C, G, T
    counts: FloatArray  # (patterns,)
    pattern_of_site: LongArray  # (sites,)
    partition: SitePartition | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("states", "counts", "pattern_of_site"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def part_bounds(self) -> LongArray:
        """Patterns part_bounds[p]:part_bounds[p+1] are those of part p of the alignment."""
        if self.partition is None:
            return np.array([0, len(self)])
        return np.searchsorted(self._parts(self.partition), np.arange(len(self.partition) + 1))

    @property
    def parts(self) -> "tuple[SitePatterns, ...]":
        """The patterns of each part, as if there were no others; all of them where there is no partition."""
        if self.partition is None:
            return (self,)
        found = []
        for part, (first, last) in enumerate(pairwise(self.part_bounds.tolist())):
            sites = self.pattern_of_site[self.partition.part_of_site == part] - first
            found.append(SitePatterns(self.taxa, self.states[:, first:last], self.counts[first:last], sites))
        return tuple(found)

    def _parts(self, partition: SitePartition) -> IntArray:
        """The part of every pattern."""
        parts: IntArray = np.empty(len(self), np.int32)
        parts[self.pattern_of_site] = partition.part_of_site
        return parts

    @property
    def alignment(self) -> Alignment:
        """The alignment that the patterns come from."""
        return Alignment(self.taxa, self.states[:, self.pattern_of_site])

    @property
    def tip_partials(self) -> FloatArray:
        """1 for each state that a tip may have, (taxa, patterns, 4)."""
        return (self.states[..., None] >> np.arange(len(STATES)) & 1).astype(np.float64)


@checked
def compress(alignment: Alignment, partition: SitePartition | None = None) -> SitePatterns:
    """The distinct columns with their counts. Values per pattern map back to sites by `pattern_of_site`."""
    sites = alignment.site_count
    if partition is not None and len(partition.part_of_site) != sites:
        given = counted(len(partition.part_of_site), "site")
        raise AlignmentError(f"partition: of {given}, but the alignment has {sites}. Give that of this alignment.")
    return _merge_columns(alignment.taxa, alignment.states, np.ones(sites), np.arange(sites), partition)


def merge_relabelled(patterns: SitePatterns) -> SitePatterns:
    """Merge patterns that are equal up to the names of the states: Jukes–Cantor cannot tell them apart."""
    relabelled = np.stack([_rename(patterns.states, order) for order in permutations(range(len(STATES)))])
    # The least of the 24 renamings, by the first taxon where they differ, stands for all of them.
    least = relabelled[0].copy()
    for candidate in relabelled[1:]:
        differs = candidate != least
        first = differs.argmax(axis=0)
        columns = np.arange(least.shape[1])
        smaller = candidate[first, columns] < least[first, columns]
        least[:, smaller] = candidate[:, smaller]
    return _merge_columns(patterns.taxa, least, patterns.counts, patterns.pattern_of_site, patterns.partition)


def _rename(states: ByteArray, order: tuple[int, ...]) -> ByteArray:
    table = np.zeros(1 << len(STATES), np.uint8)
    for code in range(len(table)):
        table[code] = sum(1 << order[state] for state in range(len(STATES)) if code >> state & 1)
    return table[states]


def _merge_columns(
    taxa: tuple[str, ...],
    states: ByteArray,
    counts: FloatArray,
    pattern_of_site: LongArray,
    partition: SitePartition | None,
) -> SitePatterns:
    """Merge equal columns, which are those of sites or patterns, of the same part."""
    columns = states
    parts: IntArray = np.zeros(states.shape[1], np.int32)
    if partition is not None:
        parts[pattern_of_site] = partition.part_of_site
        columns = np.concatenate([np.ascontiguousarray(parts[:, None]).view(np.uint8).T, states])
    _, first, group = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    order = np.lexsort((first, parts[first]))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    merged = np.zeros(len(order))
    np.add.at(merged, rank[group.ravel()], counts)
    return SitePatterns(taxa, states[:, first[order]], merged, rank[group.ravel()][pattern_of_site], partition)


class AlignmentSummary(NamedTuple):
    """What an alignment is like, in a few numbers. Identical sequences are listed, not removed."""

    taxa: int
    sites: int
    patterns: int
    missing_share: float
    constant_sites: int
    empty_sites: int
    empty_taxa: tuple[str, ...]
    identical: tuple[tuple[str, ...], ...]


def summarize(alignment: Alignment) -> AlignmentSummary:
    """The summary. A constant site is one that a single state can explain."""
    missing = is_missing(alignment)
    common = np.bitwise_and.reduce(alignment.states, axis=0)
    groups: dict[bytes, list[str]] = {}
    for name, row in zip(alignment.taxa, alignment.states, strict=True):
        groups.setdefault(row.tobytes(), []).append(name)
    return AlignmentSummary(
        taxa=len(alignment.taxa),
        sites=alignment.site_count,
        patterns=len(compress(alignment)),
        missing_share=float(missing.mean()),
        constant_sites=int((common != 0).sum()),
        empty_sites=int(missing.all(axis=0).sum()),
        empty_taxa=tuple(np.array(alignment.taxa)[missing.all(axis=1)].tolist()),
        identical=tuple(tuple(names) for names in groups.values() if len(names) > 1),
    )
