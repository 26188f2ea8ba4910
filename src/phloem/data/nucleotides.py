"""Nucleotide symbols as sets of states: bit 0 is A, bit 1 C, bit 2 G, bit 3 T."""

import numpy as np

from phloem.kernels.arrays import ByteArray

STATES = "ACGT"
ANY = 0b1111
ILLEGAL = 0

# The IUPAC codes. U is T; a gap, `?` and N say nothing, so every state is possible.
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


def _code_table() -> ByteArray:
    table = np.full(256, ILLEGAL, np.uint8)
    for symbol, members in MEMBERS.items():
        code = sum(1 << STATES.index(state) for state in members)
        table[ord(symbol)] = table[ord(symbol.lower())] = code
    return table


CODE_OF_BYTE = _code_table()  # (256,)  0 where the symbol is not a nucleotide's


def encode(sequence: str) -> ByteArray:
    """State sets of a sequence, 0 where a symbol is none of ours."""
    octets = np.frombuffer(sequence.encode("latin-1", "replace"), np.uint8)
    return CODE_OF_BYTE[octets]


def letter_for(symbols: str) -> str:
    """The one IUPAC letter for a set of symbols, such as M for AC; `!`, which is illegal, where there is none."""
    members = {state for symbol in symbols.upper() if symbol.strip(", ") for state in MEMBERS.get(symbol, "!")}
    return next((letter for letter, states in MEMBERS.items() if set(states) == members), "!")
