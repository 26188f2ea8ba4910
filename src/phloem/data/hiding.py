"""What simulated alignments lack, as real ones do: whole genes, stretches of sites, single sites.

Symbols are the bytes of letters, (taxa, sites), which are changed in place.
"""

from dataclasses import dataclass

import numpy as np

from phloem.arrays import BoolArray, ByteArray, IntArray
from phloem.errors import BadArgument
from phloem.random_streams import RandomStream

LETTERS = np.frombuffer(b"ACGT", np.uint8)
LOST_GENE, GAP, UNKNOWN = (ord(letter) for letter in "?-N")


@dataclass(frozen=True, slots=True)
class Hidden:
    """How much of an alignment is not known, each a share.

    genes: of the taxa, for which a part of the alignment has nothing at all; a taxon always keeps one part. gaps: of
    the sites of each sequence, in gaps of `gap_length` sites on average. missing: of the sites, here and there.
    """

    genes: float = 0.0
    gaps: float = 0.0
    gap_length: float = 10.0
    missing: float = 0.0

    def __post_init__(self) -> None:
        for option, share in (("genes", self.genes), ("gaps", self.gaps), ("missing", self.missing)):
            if not 0 <= share < 1:
                flag = "--missing-genes" if option == "genes" else f"--{option}"
                raise BadArgument(f"{flag} {share:g}: give a share from 0 up to 1.")
        if not 1 <= self.gap_length < np.inf:
            raise BadArgument(f"--gap-length {self.gap_length:g}: give 1 or more sites.")
        if self.gaps > self.gap_length / (self.gap_length + 1):
            raise BadArgument(
                f"--gaps {self.gaps:g}: gaps of mean length {self.gap_length:g}, with sites between them, take less. "
                "Give a smaller share, or a longer --gap-length."
            )


def hide(symbols: ByteArray, part_of_site: IntArray, hidden: Hidden, *, stream: RandomStream) -> None:
    """Put symbols for missing data where the data go missing."""
    if hidden.missing:
        random = stream.named("missing").generator()
        for row in symbols:
            row[random.random(len(row)) < hidden.missing] = UNKNOWN
    if hidden.gaps:
        random = stream.named("gaps").generator()
        for row in symbols:
            row[_gaps(len(row), hidden.gaps, hidden.gap_length, random)] = GAP
    if hidden.genes:
        lost = _lost_genes(len(symbols), int(part_of_site.max()) + 1, hidden.genes, stream.named("genes").generator())
        for part, taxa in enumerate(lost.T):
            symbols[np.ix_(taxa, part_of_site == part)] = LOST_GENE


def _gaps(sites: int, share: float, length: float, random: np.random.Generator) -> BoolArray:
    """Where gaps are: they and what is between them have geometric lengths, whose means have the ratio of the shares.

    The first site is like any other, as what is left of a geometric length is again geometric.
    """
    between = length * (1 - share) / share
    is_gap_first = random.random() < share
    means = np.array([length, between] if is_gap_first else [between, length])
    found = np.zeros(0, np.bool_)
    while len(found) < sites:
        lengths = random.geometric(1 / means, size=(int((sites - len(found)) / means.sum()) + 1, 2)).ravel()
        is_gap = np.arange(len(lengths)) % 2 == (0 if is_gap_first else 1)
        found = np.concatenate([found, np.repeat(is_gap, lengths)])
    return found[:sites]


def _lost_genes(taxa: int, parts: int, share: float, random: np.random.Generator) -> BoolArray:
    """Which parts each taxon lacks, (taxa, parts): in each part the same number of taxa, but none of them all parts.

    A taxon that would have nothing gets a part from one that has several, or if there is none, anew.
    """
    if parts < 2:
        raise BadArgument("--missing-genes: the alignment has one part, and would be gone. Give --partition too.")
    ranks = random.random((taxa, parts)).argsort(axis=0).argsort(axis=0)
    lost = ranks < round(share * taxa)
    for empty in np.flatnonzero(lost.all(axis=1)):
        givers, offered = np.nonzero(~lost & (np.count_nonzero(~lost, axis=1) > 1)[:, None])
        choice = random.integers(len(givers)) if len(givers) else None
        part = random.integers(parts) if choice is None else offered[choice]
        lost[empty, part] = False
        if choice is not None:
            lost[givers[choice], part] = True
    return lost
