"""Site patterns: the distinct columns of an alignment with their counts, and a summary of an alignment."""

from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np

from phloem.arguments import check_fields, checked
from phloem.arrays import ByteArray, FloatArray, LongArray, read_only
from phloem.data.alignment import STATES, Alignment, is_missing


@dataclass(frozen=True, slots=True, eq=False)
class SitePatterns:
    """The distinct columns of an alignment in order of first appearance, how often each occurs, and where."""

    taxa: tuple[str, ...]
    states: ByteArray  # (taxa, patterns)  bits A, C, G, T
    counts: FloatArray  # (patterns,)
    pattern_of_site: LongArray  # (sites,)

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("states", "counts", "pattern_of_site"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def part_bounds(self) -> LongArray:
        """Patterns part_bounds[p]:part_bounds[p+1] are those of part p of the alignment, which is one whole."""
        return np.array([0, len(self)])

    @property
    def alignment(self) -> Alignment:
        """The alignment that the patterns come from."""
        return Alignment(self.taxa, self.states[:, self.pattern_of_site])

    @property
    def tip_partials(self) -> FloatArray:
        """1 for each state that a tip may have, (taxa, patterns, 4)."""
        return (self.states[..., None] >> np.arange(len(STATES)) & 1).astype(np.float64)


@checked
def compress(alignment: Alignment) -> SitePatterns:
    """The distinct columns with their counts. Values per pattern map back to sites by `pattern_of_site`."""
    return _merge_columns(
        alignment.taxa, alignment.states, np.ones(alignment.site_count), np.arange(alignment.site_count)
    )


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
    return _merge_columns(patterns.taxa, least, patterns.counts, patterns.pattern_of_site)


def _rename(states: ByteArray, order: tuple[int, ...]) -> ByteArray:
    table = np.zeros(1 << len(STATES), np.uint8)
    for code in range(len(table)):
        table[code] = sum(1 << order[state] for state in range(len(STATES)) if code >> state & 1)
    return table[states]


def _merge_columns(
    taxa: tuple[str, ...], states: ByteArray, counts: FloatArray, pattern_of_site: LongArray
) -> SitePatterns:
    _, first, group = np.unique(states, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    merged = np.zeros(len(order))
    np.add.at(merged, rank[group.ravel()], counts)
    return SitePatterns(taxa, states[:, first[order]], merged, rank[group.ravel()][pattern_of_site])


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
