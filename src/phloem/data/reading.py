"""Reading alignments: bundled examples by name, files by content (FASTA, PHYLIP, NEXUS, Clustal, Stockholm).

Clustal and Stockholm are parsed here and not by Biopython, whose Clustal reader never returns from some damaged files.
"""

import io
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from Bio.SeqIO.FastaIO import SimpleFastaParser

from phloem.arguments import checked
from phloem.data.alignment import Alignment
from phloem.data.nexus import beside_mrbayes, describe_ignored, is_nexus, parse_nexus
from phloem.errors import AlignmentError, FileProblem, InputWarning, counted, listed, quoted
from phloem.storage.files import read_bytes

EXAMPLES = ("primates",)
HEADER = re.compile(r"\s*(\d{1,9})[ \t]+(\d{1,9})(?!\S)")
STRICT_NAME = 10  # columns of a name in strict PHYLIP, blanks included
Records = list[tuple[str, str]]


class LoadedAlignment(NamedTuple):
    """An alignment, and a line for everything in its file that was not taken as it stands."""

    alignment: Alignment
    notes: tuple[str, ...]


class _Parsed(NamedTuple):
    records: Records
    note: str = ""  # what was left out, without the file's name; empty if nothing was


@checked
def find_trees(name: str | Path) -> Path:
    """The tree file at that path or, if there is none, the bundled example of that name."""
    return _find(name, ".trees.nex")


@checked
def find_alignment(name: str | Path) -> Path:
    """The alignment at that path or, if there is none, the bundled example of that name."""
    return _find(name, ".fasta")


def _find(name: str | Path, suffix: str) -> Path:
    path = Path(name)
    try:
        if path.exists():
            return path
    except OSError:  # an unreadable directory or too long a name: reading the file will say so
        return path
    if str(name) in EXAMPLES:
        return Path(str(files("phloem.data") / "examples" / f"{name}{suffix}"))
    raise FileProblem(f"{path}: no such file, nor a bundled example ({', '.join(EXAMPLES)}). Check the path.")


def parse_phylip(source: str, text: str) -> Records:
    """The sequences under a header `taxa sites`. The four dialects look alike: the first that fits is taken."""
    header, *lines = text.lstrip().splitlines()
    found = HEADER.match(header)
    if found is None:
        raise AlignmentError(f"{source}: a PHYLIP file must begin with the numbers of sequences and sites.")
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
    """Blocks of one line per taxon; only the first block has names."""
    if not taxa or len(lines) % taxa:
        return None
    records = [_split_name(line, strict) for line in lines[:taxa]]
    names, rows = [name for name, _ in records], [[row] for _, row in records]
    for index, line in enumerate(lines[taxa:]):
        rows[index % taxa].append("".join(line.split()))
    return list(zip(names, map("".join, rows), strict=True))


def _sequential(lines: list[str], taxa: int, sites: int, strict: bool) -> Records | None:
    """One taxon after another, each on as many lines as its sites need."""
    records: Records = []
    rest: Iterator[str] = iter(lines)
    for line in rest:
        name, row = _split_name(line, strict)
        pieces, length = [row], len(row)
        while length < sites:
            more = next(rest, None)
            if more is None:
                return None
            pieces.append("".join(more.split()))
            length += len(pieces[-1])
        records.append((name, "".join(pieces)))
    return records


def _complain(source: str, lines: list[str], taxa: int, sites: int) -> AlignmentError:
    if len(lines) < taxa:
        what = f"{counted(len(lines), 'line')} of sequence"
    else:
        name, row = _split_name(lines[0], strict=False)
        what = f"the first sequence, {quoted(name)}, has {counted(len(row), 'site')} on its first line"
    return AlignmentError(
        f"{source}: does not match its PHYLIP header of {counted(taxa, 'sequence')} with {counted(sites, 'site')} "
        f"({what}). Correct the header or the sequences."
    )


def parse_clustal(source: str, text: str) -> Records:
    """Lines `name piece [residues so far]` after the title; lines that begin with a blank mark conservation."""
    lines = text.lstrip().splitlines()[1:]
    return _join(source, "Clustal", (line.split() for line in lines if line.strip() and not line[0].isspace()))


def parse_stockholm(source: str, text: str) -> _Parsed:
    """Lines `name piece` up to `//`; lines that begin with # are annotations."""
    lines = [line.strip() for line in text.splitlines()]
    if "//" not in lines:
        raise AlignmentError(f"{source}: incomplete Stockholm file: the line `//` at its end is missing.")
    end = lines.index("//")
    records = _join(source, "Stockholm", (line.split() for line in lines[:end] if line and line[0] != "#"))
    return _Parsed(records, "ignored: all but the first alignment" if any(lines[end + 1 :]) else "")


def _join(source: str, form: str, lines: Iterable[list[str]]) -> Records:
    """Put the pieces of each name together, names in order of first appearance."""
    pieces: dict[str, list[str]] = {}
    for words in lines:
        if not (len(words) == 2 or (form == "Clustal" and len(words) == 3 and words[2].isdigit())):
            raise AlignmentError(
                f"{source}: {form} lines have a name and a piece of sequence, not {quoted(' '.join(words))}."
            )
        pieces.setdefault(words[0], []).append(words[1])
    return [(name, "".join(parts)) for name, parts in pieces.items()]


@checked
def read_alignment(path: str | Path, *, long_names: bool = False) -> Alignment:
    """Nucleotide sequences from FASTA, PHYLIP, NEXUS, Stockholm or Clustal, plain or gzipped, or a bundled example.

    long_names: whole title lines of FASTA files are names, not only their first words. What is in the file and was not
    used, such as a partition, is said in an `InputWarning`.
    """
    alignment, notes = load_alignment(path, long_names=long_names)
    for note in notes:
        warnings.warn(note, InputWarning, stacklevel=3)  # past the check of its arguments
    return alignment


@checked
def load_alignment(path: str | Path, *, long_names: bool = False, mrbayes: bool = False) -> LoadedAlignment:
    """As `read_alignment`, with the notes to be shown by whoever asks. mrbayes: as in `parse_alignment`."""
    content = read_bytes(find_alignment(path))
    return parse_alignment(content, source=str(path), long_names=long_names, mrbayes=mrbayes)


def parse_alignment(
    content: bytes, *, source: str = "alignment", long_names: bool = False, mrbayes: bool = False
) -> LoadedAlignment:
    """The alignment in the content of a file.

    mrbayes: whether somebody else says what of a MRBAYES block is not used.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise AlignmentError(f"{source}: not a text file (byte {problem.start + 1}). Give an alignment.") from None
    records, note = _parse(source, text, long_names, mrbayes)
    alignment = Alignment.from_sequences([name for name, _ in records], [row for _, row in records], source)
    return LoadedAlignment(alignment, (f"{source}: {note}.",) if note else ())


def _parse(source: str, text: str, long_names: bool, mrbayes: bool) -> _Parsed:
    start = text.lstrip()[:200]
    if not start:
        raise AlignmentError(f"{source}: is empty.")
    if start.startswith(">"):
        return _parse_fasta(source, text, long_names)
    if is_nexus(start.encode()):
        found = parse_nexus(source, text)
        return _Parsed(found.records, describe_ignored(beside_mrbayes(found.ignored) if mrbayes else found.ignored))
    if start.startswith("# STOCKHOLM"):
        return parse_stockholm(source, text)
    if re.match(r"(CLUSTAL|MUSCLE|PROBCONS|Kalign|MSAPROBS)\b", start):
        return _Parsed(parse_clustal(source, text))
    if HEADER.match(start):
        return _Parsed(parse_phylip(source, text))
    raise AlignmentError(
        f"{source}: not a known alignment format. Give FASTA, PHYLIP, NEXUS, Stockholm or Clustal, plain or gzipped."
    )


def _parse_fasta(source: str, text: str, long_names: bool) -> _Parsed:
    """A name is the first word of a title, as in most programs, or all of it; several blanks in it count as one."""
    titles: list[str] = []
    rows: list[str] = []
    for title, row in SimpleFastaParser(io.StringIO(text.lstrip())):
        titles.append(" ".join(title.split()))
        rows.append("".join(row.split()))
    if long_names:
        return _Parsed(list(zip(titles, rows, strict=True)))
    names = [title.split(" ", 1)[0] for title in titles]
    if len(set(names)) < len(names) and len(set(titles)) == len(titles):
        twice = [name for name, count in Counter(names).items() if count > 1]
        raise AlignmentError(
            f"{source}: names end at the first blank, so that several sequences are called {listed(twice)}. "
            "--long-names (in Python, long_names=True) keeps whole lines."
        )
    cut = [title for title, name in zip(titles, names, strict=True) if title != name]
    note = ""
    if cut:
        first, others = cut[0], f" and {len(cut) - 1:,} more" if len(cut) > 1 else ""
        note = (
            f"names end at the first blank: {quoted(first)} is {quoted(first.split(' ', 1)[0])}{others}; "
            "--long-names (in Python, long_names=True) keeps them whole"
        )
    return _Parsed(list(zip(names, rows, strict=True)), note)
