"""Clustal and Stockholm alignments: lines of a name and a piece of its sequence, in blocks.

Both are read here and not by Biopython, whose Clustal reader never returns from some damaged files.
"""

from collections.abc import Iterable

from phloem.errors import AlignmentError, quoted

Records = list[tuple[str, str]]


def parse_clustal(source: str, text: str) -> Records:
    """Lines `name piece [residues so far]` after the title; lines that begin with a blank mark conservation."""
    lines = text.lstrip().splitlines()[1:]
    return _join(source, "Clustal", (line.split() for line in lines if line.strip() and not line[0].isspace()))


def parse_stockholm(source: str, text: str) -> Records:
    """Lines `name piece` up to `//`; lines that begin with # are annotations."""
    lines = [line.strip() for line in text.splitlines()]
    if "//" not in lines:
        raise AlignmentError(f"{source}: is not a whole Stockholm file: it has no line `//` at its end.")
    body = lines[: lines.index("//")]
    return _join(source, "Stockholm", (line.split() for line in body if line and line[0] != "#"))


def _join(source: str, form: str, lines: Iterable[list[str]]) -> Records:
    """Put the pieces of each name together, names in order of first appearance."""
    pieces: dict[str, list[str]] = {}
    for words in lines:
        if not (len(words) == 2 or (form == "Clustal" and len(words) == 3 and words[2].isdigit())):
            raise AlignmentError(
                f"{source}: in this {form} file {quoted(' '.join(words))} is not a name and a piece of sequence."
            )
        pieces.setdefault(words[0], []).append(words[1])
    return [(name, "".join(parts)) for name, parts in pieces.items()]
