"""Reading alignments: the format is recognised by content, not by the file's name."""

import io
import re
from pathlib import Path

from Bio.SeqIO.FastaIO import SimpleFastaParser

from phloem.data.alignment import Alignment
from phloem.data.blocks import parse_clustal, parse_stockholm
from phloem.data.examples import find_alignment
from phloem.data.nexus import parse_nexus
from phloem.data.nexus_text import is_nexus
from phloem.data.phylip import HEADER, parse_phylip
from phloem.errors import AlignmentError
from phloem.files import read_bytes

Records = list[tuple[str, str]]


def read_alignment(path: str | Path) -> Alignment:
    """Nucleotide sequences from FASTA, PHYLIP, NEXUS, Stockholm or Clustal, plain or gzipped, or a bundled example."""
    found = find_alignment(path)
    return parse_alignment(read_bytes(found), source=str(path))


def parse_alignment(content: bytes, *, source: str = "alignment") -> Alignment:
    """The alignment in a file's content."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise AlignmentError(f"{source}: is not a text file (byte {problem.start + 1}). Give an alignment.") from None
    records = _parse(source, text)
    return Alignment.from_sequences([name for name, _ in records], [row for _, row in records], source)


def _parse(source: str, text: str) -> Records:
    start = text.lstrip()[:200]
    if not start:
        raise AlignmentError(f"{source}: is empty.")
    if start.startswith(">"):
        return _parse_fasta(text)
    if is_nexus(start.encode()):
        return parse_nexus(source, text)
    if start.startswith("# STOCKHOLM"):
        return parse_stockholm(source, text)
    if re.match(r"(CLUSTAL|MUSCLE|PROBCONS|Kalign|MSAPROBS)\b", start):
        return parse_clustal(source, text)
    if HEADER.match(start):
        return parse_phylip(source, text)
    raise AlignmentError(
        f"{source}: is no alignment that phloem knows. Give FASTA, PHYLIP, NEXUS, Stockholm or Clustal, also gzipped."
    )


def _parse_fasta(text: str) -> Records:
    """A sequence's name is the first word of its title, as in most programs."""
    records = SimpleFastaParser(io.StringIO(text.lstrip()))
    return [(title.split(maxsplit=1)[0] if title.split() else "", "".join(row.split())) for title, row in records]
