"""Writing alignments: FASTA, NEXUS and relaxed PHYLIP, from the letters of the sequences."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from phloem.arrays import ByteArray
from phloem.errors import BadArgument, quoted
from phloem.storage.files import atomic_write

SUFFIXES: Final = {"fasta": ".fasta", "nexus": ".nex", "phylip": ".phy"}
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.]+")


def write_letters(taxa: Sequence[str], symbols: ByteArray, path: Path, form: str) -> None:
    """Write sequences, as the bytes of letters (taxa, sites), in one of the forms of `SUFFIXES`."""
    lines = {"fasta": _fasta, "nexus": _nexus, "phylip": _phylip}[form](taxa, symbols)
    with atomic_write(path) as stream:
        for line in lines:
            stream.write(line)


def _fasta(taxa: Sequence[str], symbols: ByteArray) -> Iterator[bytes]:
    _refuse_blanks(taxa, "FASTA")
    for name, row in zip(taxa, symbols, strict=True):
        yield f">{name}\n".encode() + row.tobytes() + b"\n"


def _phylip(taxa: Sequence[str], symbols: ByteArray) -> Iterator[bytes]:
    _refuse_blanks(taxa, "PHYLIP")
    yield f"{len(taxa)} {symbols.shape[1]}\n".encode()
    for name, row in zip(taxa, symbols, strict=True):
        yield f"{name}  ".encode() + row.tobytes() + b"\n"


def _nexus(taxa: Sequence[str], symbols: ByteArray) -> Iterator[bytes]:
    yield f"#NEXUS\nbegin data;\n  dimensions ntax={len(taxa)} nchar={symbols.shape[1]};\n".encode()
    yield b"  format datatype=dna missing=? gap=-;\n  matrix\n"
    for name, row in zip(taxa, symbols, strict=True):
        shown = name if PLAIN_NAME.fullmatch(name) else "'" + name.replace("'", "''") + "'"
        yield f"  {shown}  ".encode() + row.tobytes() + b"\n"
    yield b"  ;\nend;\n"


def _refuse_blanks(taxa: Sequence[str], form: str) -> None:
    odd = next((name for name in taxa if " " in name), None)
    if odd is not None:
        raise BadArgument(f"{form}: the name {quoted(odd)} has a blank, which would end it. Write NEXUS instead.")
