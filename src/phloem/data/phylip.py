"""PHYLIP alignments: strict or relaxed names, sequential or interleaved, whichever fits the header."""

import re
from collections.abc import Iterator

from phloem.errors import AlignmentError, quoted

HEADER = re.compile(r"\s*(\d{1,9})[ \t]+(\d{1,9})(?!\S)")
STRICT_NAME = 10  # columns of a name in the strict format, blanks included

Records = list[tuple[str, str]]


def parse_phylip(source: str, text: str) -> Records:
    """The sequences under a header `taxa sites`. The four dialects look alike: the first one that fits is taken."""
    header, *lines = text.lstrip().splitlines()
    found = HEADER.match(header)
    if found is None:
        raise AlignmentError(f"{source}: a PHYLIP file begins with its numbers of sequences and sites.")
    taxa, sites = int(found.group(1)), int(found.group(2))
    lines = [line.rstrip() for line in lines if line.strip()]
    for attempt in (_interleaved, _sequential):
        for strict in (False, True):
            records = attempt(lines, taxa, sites, strict)
            if records is not None and len(records) == taxa and all(len(row) == sites for _, row in records):
                return records
    raise _complain(source, lines, taxa, sites)


def _split_name(line: str, strict: bool) -> tuple[str, str]:
    """A name and the sequence after it, without blanks."""
    if strict:
        return line[:STRICT_NAME].strip(), "".join(line[STRICT_NAME:].split())
    name, *rest = line.split(maxsplit=1)
    return name, "".join(rest[0].split()) if rest else ""


def _interleaved(lines: list[str], taxa: int, sites: int, strict: bool) -> Records | None:
    """Blocks of one line a taxon; names stand in the first block only."""
    if not taxa or len(lines) % taxa:
        return None
    records = [_split_name(line, strict) for line in lines[:taxa]]
    names, rows = [name for name, _ in records], [[row] for _, row in records]
    for index, line in enumerate(lines[taxa:]):
        rows[index % taxa].append("".join(line.split()))
    return list(zip(names, map("".join, rows), strict=True))


def _sequential(lines: list[str], taxa: int, sites: int, strict: bool) -> Records | None:
    """One taxon after the other, each over as many lines as its sites need."""
    records: Records = []
    rest: Iterator[str] = iter(lines)
    for line in rest:
        name, row = _split_name(line, strict)
        while len(row) < sites:
            more = next(rest, None)
            if more is None:
                return None
            row += "".join(more.split())
        records.append((name, row))
    return records


def _complain(source: str, lines: list[str], taxa: int, sites: int) -> AlignmentError:
    if len(lines) < taxa:
        what = f"{len(lines)} lines of sequence"
    else:
        name, row = _split_name(lines[0], strict=False)
        what = f"the first sequence, {quoted(name)}, has {len(row)} sites on its first line"
    return AlignmentError(
        f"{source}: does not fit its PHYLIP header of {taxa} sequences with {sites} sites ({what}). "
        "Mend the header or the file."
    )
