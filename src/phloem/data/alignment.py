"""Aligned nucleotide sequences, and their symbols as sets of states."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phloem.arguments import check_fields
from phloem.arrays import ByteArray, read_only
from phloem.errors import AlignmentError, counted, listed, quoted

STATES = "ACGT"
ANY = 0b1111
ILLEGAL = 0
# The IUPAC codes; bit 0 is A, bit 1 C, bit 2 G, bit 3 T. U is T; gaps, `?` and N allow every state.
MEMBERS = {
    "A": "A",
    "C": "C",
    "G": "G",
    "T": "T",
    "U": "T",
    "R": "AG",
    "Y": "CT",
    "S": "CG",
    "W": "AT",
    "K": "GT",
    "M": "AC",
    "B": "CGT",
    "D": "AGT",
    "H": "ACT",
    "V": "ACG",
    "N": "ACGT",
    "X": "ACGT",
    "?": "ACGT",
    "-": "ACGT",
}
SYMBOLS = "".join(MEMBERS)
# Symbols of amino acids that are not nucleotide codes.
PROTEIN_ONLY = frozenset("EFILPQZefilpqz*")


def _code_table() -> ByteArray:
    table = np.full(256, ILLEGAL, np.uint8)
    for symbol, members in MEMBERS.items():
        code = sum(1 << STATES.index(state) for state in members)
        table[ord(symbol)] = table[ord(symbol.lower())] = code
    return table


CODE_OF_BYTE = _code_table()  # (256,)  0 for bytes that are not nucleotide symbols


def encode(sequence: str) -> ByteArray:
    """State sets of a sequence, 0 for illegal symbols."""
    octets = np.frombuffer(sequence.encode("latin-1", "replace"), np.uint8)
    return CODE_OF_BYTE[octets]


def letter_for(symbols: str) -> str:
    """The IUPAC letter for a set of symbols, such as M for AC; `!`, an illegal symbol, if there is none."""
    members = {state for symbol in symbols.upper() if symbol.strip(", ") for state in MEMBERS.get(symbol, "!")}
    return next((letter for letter, states in MEMBERS.items() if set(states) == members), "!")


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Sequences of the same length, one per taxon, each site a set of possible states; taxon names differ."""

    taxa: tuple[str, ...]
    states: ByteArray  # (taxa, sites)  bits A, C, G, T; 15 where the state is unknown

    def __post_init__(self) -> None:
        check_fields(self)
        if self.states.ndim != 2 or len(self.states) != len(self.taxa) or len(set(self.taxa)) != len(self.taxa):
            raise AlignmentError(f"alignment: states of shape {self.states.shape} do not fit {len(self.taxa)} taxa.")
        object.__setattr__(self, "states", read_only(self.states))

    @property
    def site_count(self) -> int:
        return int(self.states.shape[1])

    @classmethod
    def from_sequences(cls, taxa: Sequence[str], sequences: Sequence[str], source: str = "alignment") -> "Alignment":
        """From one string per taxon, after checking names, lengths and symbols."""
        _check_names(taxa, source)
        _check_lengths(taxa, sequences, source)
        states = np.stack([encode(sequence) for sequence in sequences])
        illegal = np.argwhere(states == ILLEGAL)
        if len(illegal):
            raise _illegal_symbol(taxa, sequences, illegal, source)
        return cls(tuple(taxa), states)


def _check_names(taxa: Sequence[str], source: str) -> None:
    if len(taxa) < 3:
        count = counted(len(taxa), "sequence")
        raise AlignmentError(f"{source}: {count}. At least 3 are needed, and 4 to infer a tree.")
    if not all(taxa):
        raise AlignmentError(f"{source}: sequence {list(taxa).index('') + 1} has no name. Give it one.")
    if odd := [name for name in taxa if not name.isprintable()]:
        raise AlignmentError(f"{source}: the name {quoted(odd[0])} has a control character. Rename the sequence.")
    if twice := [name for name, count in Counter(taxa).items() if count > 1]:
        raise AlignmentError(f"{source}: several sequences are called {listed(twice)}. Give each a different name.")


def _check_lengths(taxa: Sequence[str], sequences: Sequence[str], source: str) -> None:
    sites = len(sequences[0])
    for name, sequence in zip(taxa, sequences, strict=True):
        if len(sequence) != sites:
            raise AlignmentError(
                f"{source}, sequence {quoted(name)}: {counted(len(sequence), 'site')} where {quoted(taxa[0])} has "
                f"{sites}. Align the sequences first."
            )
    if not sites:
        raise AlignmentError(f"{source}: the sequences have no sites.")


def _illegal_symbol(taxa: Sequence[str], sequences: Sequence[str], illegal: np.ndarray, source: str) -> AlignmentError:
    found = {sequences[row][column] for row, column in illegal[:10_000]}
    if found & PROTEIN_ONLY:
        return AlignmentError(
            f"{source}: the sequences look like proteins (they contain {listed(sorted(found & PROTEIN_ONLY))}). "
            "Only nucleotides are supported."
        )
    row, column = illegal[0]
    return AlignmentError(
        f"{source}, sequence {quoted(taxa[row])}, column {column + 1}: {quoted(sequences[row][column])} is not a "
        f"nucleotide. Use {SYMBOLS}."
    )


def is_missing(alignment: Alignment) -> np.ndarray:
    """Where the state is unknown, (taxa, sites)."""
    return np.asarray(alignment.states == ANY)
