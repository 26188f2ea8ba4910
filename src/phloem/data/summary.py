"""What an alignment is like, in a few numbers."""

from typing import NamedTuple

import numpy as np

from phloem.data.alignment import Alignment, is_missing
from phloem.data.patterns import compress


class AlignmentSummary(NamedTuple):
    """The short report on an alignment. Identical sequences are kept: they are named, not removed."""

    taxa: int
    sites: int
    patterns: int
    missing_share: float
    constant_sites: int
    empty_sites: int
    empty_taxa: tuple[str, ...]
    identical: tuple[tuple[str, ...], ...]


def summarize(alignment: Alignment) -> AlignmentSummary:
    """Count what matters. A constant site is one that a single state can explain."""
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
