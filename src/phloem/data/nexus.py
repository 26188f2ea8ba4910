"""Alignments in NEXUS files: the DATA or CHARACTERS block of MrBayes, PAUP, Mesquite and others.

A file is split into statements first, by rules that know quotes and comments, so that nothing inside a quoted name is
ever taken for punctuation. Every step reads its text once: the time grows with the size of the file, whatever is in it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from phloem.data.alignment import letter_for
from phloem.errors import AlignmentError, first_few, quoted

MAGIC = b"#nexus"
# A quote opens a name only where a name can begin: the apostrophe inside O'Brien is a letter.
MARK = re.compile(r"[;\[]|(?<![^\s,(=;\]])'")
QUOTED = re.compile(r"'[^']*+(?:''[^']*+)*+'")
BRACKET = re.compile(r"[\[\]]")
KEYWORD = re.compile(r"[^\s=,*'\"(]+")
SETTING = re.compile(r"(\w+)(?:\s*+=\s*+(\"[^\"]*+\"|\S++))?")
MACRO = re.compile(r"(\S)\s*+=\s*+(\{[^{}]*+\}|\([^()]*+\)|\S)")
STATE_SET = re.compile(r"\{([^{}]*+)\}|\(([^()]*+)\)")
NUCLEOTIDE_TYPES = ("dna", "rna", "nucleotide")
DATA_BLOCKS = ("data", "characters")
SETTINGS = ("dimensions", "format")
BOOKKEEPING = {"title", "link", "blockid", "dimensions", "taxlabels"}
SETS = ("charset", "partition", "charpartition", "taxset")
LEAVES_OUT = ("exset", "exclude", "eliminate", "delete")  # sites or taxa
COUNTS: tuple[str, ...] = ("ntax", "nchar")
LARGEST_COUNT = 10**9
MOST_NAMED = 8  # commands of a block, and blocks
LONGEST_WORD = 40  # characters
Records = list[tuple[str, str]]


def is_nexus(content: bytes) -> bool:
    """Whether the file says `#NEXUS` before anything else."""
    return content.lstrip()[: len(MAGIC)].lower() == MAGIC


def unquote(word: str) -> str:
    """A word without its quotes; doubled apostrophes inside them become single."""
    return word[1:-1].replace("''", "'") if len(word) > 1 and word[0] == "'" == word[-1] else word


class Statement(NamedTuple):
    """One statement without its comments and semicolon; quoted names still have their quotes."""

    block: str  # that it is in, in lower case; empty outside of blocks
    block_number: int
    keyword: str  # in lower case
    text: str  # what follows the keyword
    is_whole: bool  # whether it has its semicolon


class NexusAlignment(NamedTuple):
    """The sequences in standard symbols, and which commands of the file were not used."""

    records: Records
    ignored: tuple[Statement, ...]


def parse_nexus(source: str, text: str) -> NexusAlignment:
    """The sequences of the first DATA or CHARACTERS block."""
    found = list(statements(source, text))
    number = next((one.block_number for one in found if one.block in DATA_BLOCKS), None)
    if number is None:
        other = next((one.text.strip() for one in found if one.keyword == "execute"), "")
        advice = f" It executes {quoted(other)}: name that file." if other else ""
        raise AlignmentError(f"{source}: no alignment: this NEXUS file has no DATA or CHARACTERS block.{advice}")
    block = [one for one in found if one.block_number == number]
    settings = _settings(block)
    _check_format(source, settings)
    matrix = next((one for one in block if one.keyword == "matrix"), None)
    if matrix is None:
        raise AlignmentError(f"{source}: the NEXUS DATA block has no MATRIX.")
    if not matrix.is_whole:
        raise AlignmentError(f"{source}: the MATRIX has no ';' at its end. The file may have been cut off.")
    counts = {key: _count(source, key, settings[key]) for key in COUNTS if key in settings}
    interleaved = settings.get("interleave", "no") in ("", "yes")
    records = _records(source, matrix.text, settings, counts.get("nchar"), interleaved)
    _check_counts(source, records, counts)
    used = {id(one) for one in block if one.keyword in SETTINGS} | {id(matrix)}
    ignored = (one for one in found if id(one) not in used and one.keyword not in BOOKKEEPING)
    return NexusAlignment(records, tuple(ignored))


def statements(source: str, text: str) -> Iterator[Statement]:
    """The statements of a file, but for those that begin and end blocks."""
    start = len(text) - len(text.lstrip()) + len(MAGIC)
    block, number = "", 0
    for _, body, is_whole in split_statements(source, text, start):
        found = KEYWORD.search(body)
        keyword = found.group().lower() if found else ""
        rest = body[found.end() :] if found else body
        if keyword == "begin":
            name = KEYWORD.search(rest)
            block, number = (name.group().lower() if name else ""), number + 1
        elif keyword in ("end", "endblock"):
            block = ""
        elif keyword or rest.strip():
            yield Statement(block, number if block else 0, keyword, rest, is_whole)


def split_statements(
    source: str, text: str, position: int, *, for_comments: str = ""
) -> Iterator[tuple[int, str, bool]]:
    """Where each statement begins, its text, and whether it has a semicolon, which only the last can lack.

    Semicolons and brackets inside quotes are letters; comments may nest. A comment before a statement is no part of
    it; for_comments: what stands for the others.
    """
    start = position
    kept: list[str] = []
    while found := MARK.search(text, position):
        kept.append(text[position : found.start()])
        if found.group() == ";":
            yield start, "".join(kept), True
            kept = []
            start = position = found.end()
        elif found.group() == "[":
            position = _after_comment(source, text, found.start())
            if any(map(str.strip, kept)):
                kept.append(for_comments)
            else:
                kept, start = [], position
        elif name := QUOTED.match(text, found.start()):
            kept.append(name.group())
            position = name.end()
        else:
            raise _unclosed(source, text, found.start(), "this quoted name has no closing quote")
    yield start, "".join([*kept, text[position:]]), False


def _after_comment(source: str, text: str, start: int) -> int:
    depth = 0
    for bracket in BRACKET.finditer(text, start):
        depth += 1 if bracket.group() == "[" else -1
        if not depth:
            return bracket.end()
    raise _unclosed(source, text, start, "this comment has no closing ']'")


def _unclosed(source: str, text: str, position: int, what: str) -> AlignmentError:
    return AlignmentError(f"{source}, line {text.count(chr(10), 0, position) + 1}: {what}. Close it.")


def _settings(block: Iterable[Statement]) -> dict[str, str]:
    """`key=value` and bare words of DIMENSIONS and FORMAT, in lower case."""
    settings: dict[str, str] = {}
    for statement in block:
        if statement.keyword in SETTINGS:
            for key, value in SETTING.findall(statement.text):
                settings[key.lower()] = value.strip('"').lower()
    return settings


def _check_format(source: str, settings: dict[str, str]) -> None:
    kind = settings.get("datatype", "standard")
    if not kind.startswith(NUCLEOTIDE_TYPES):
        raise AlignmentError(
            f"{source}: datatype={_short(kind)} is not supported. Only dna, rna and nucleotide data are."
        )
    for word in ("transpose", "nolabels"):
        if settings.get(word, "no") != "no":
            raise AlignmentError(f"{source}: a MATRIX with {word} is not supported. Give a row for each taxon.")
    for symbol, states in MACRO.findall(settings.get("equate", "")):
        if letter_for(symbol) not in ("!", letter_for(states.strip("{}()"))):
            macro = f"{symbol}={states}"
            raise AlignmentError(f"{source}: equate: {_short(macro)} is not supported. Write the states themselves.")


def _count(source: str, key: str, stated: str) -> int:
    """`ntax` or `nchar` as a number."""
    digits = stated.lstrip("0") or "0"
    if not (stated.isascii() and stated.isdigit() and len(digits) < len(str(LARGEST_COUNT))):
        raise AlignmentError(f"{source}: {key}={_short(stated)} is not a count. Give a whole number.")
    return int(digits)


def _records(source: str, matrix: str, settings: dict[str, str], sites: int | None, interleaved: bool) -> Records:
    """Names and sequences. A name can be quoted; a sequence can span lines and contain blanks and sets of states."""
    plain = _declared_symbols(settings)
    pieces: dict[str, list[str]] = {}
    records: list[tuple[str, list[str]]] = []
    length = 0  # of the last record
    for line in filter(None, map(str.strip, matrix.splitlines())):
        goes_on = records and not interleaved and sites is not None and length < sites
        name, row = (records[-1][0], line) if goes_on else _split_row(line)
        sequence = _resolve_sets(source, name, "".join(row.split()).translate(plain))
        if goes_on:
            records[-1][1].append(sequence)
            length += len(sequence)
        elif interleaved and name in pieces:
            pieces[name].append(sequence)
        else:
            pieces[name] = [sequence]
            records.append((name, pieces[name]))
            length = len(sequence)
    return _without_matches([(name, "".join(parts)) for name, parts in records], settings.get("matchchar", "")[:1])


def _split_row(line: str) -> tuple[str, str]:
    """The name that a line begins with, whatever is in it, and the rest."""
    if found := QUOTED.match(line):
        return unquote(found.group()), line[found.end() :]
    name, *rest = line.split(maxsplit=1)
    return name, "".join(rest)


def _declared_symbols(settings: dict[str, str]) -> dict[int, str]:
    """The symbols that the file declares for gaps and missing data, and what they are in all other files."""
    symbols = {settings.get("gap", "")[:1]: "-", settings.get("missing", "")[:1]: "?"}
    return {ord(case): plain for own, plain in symbols.items() for case in {own, own.upper()} if len(case) == 1}


def _resolve_sets(source: str, name: str, sequence: str) -> str:
    """Replace sets of states, {AC} or (AC), by their one-letter code."""

    def letter(found: re.Match[str]) -> str:
        code = letter_for(found.group(1) or found.group(2) or "")
        if code == "!":
            raise AlignmentError(
                f"{source}, sequence {quoted(name)}: {quoted(found.group(), 20)} is not a set of nucleotides. "
                "Write sets such as {AC}."
            )
        return code

    return STATE_SET.sub(letter, sequence)


def _without_matches(records: Records, match: str) -> Records:
    """Replace the symbol that stands for `same as in the first sequence`."""
    if not match or not records:
        return records
    first = records[0][1]
    return [
        (
            name,
            "".join(
                first[place] if symbol.lower() == match and place < len(first) else symbol
                for place, symbol in enumerate(row)
            ),
        )
        for name, row in records
    ]


def _check_counts(source: str, records: Records, stated: dict[str, int]) -> None:
    found = {"ntax": len(records), "nchar": len(records[0][1]) if records else 0}
    for key, count in stated.items():
        if count != found[key]:
            raise AlignmentError(
                f"{source}: the NEXUS file says {key}={count}, but its matrix has {found[key]}. Correct one of them."
            )


def beside_mrbayes(ignored: Sequence[Statement]) -> list[Statement]:
    """All but the commands of a MRBAYES block and the sets that it can refer to, if there is such a block."""
    if not any(one.block == "mrbayes" for one in ignored):
        return [*ignored]
    return [one for one in ignored if one.block != "mrbayes" and one.keyword not in SETS]


def describe_ignored(ignored: Iterable[Statement]) -> str:
    """`ignored: 3 charset, partition (SETS block); lset (MRBAYES block)`; empty if nothing was."""
    blocks: dict[str, Counter[str]] = {}
    for one in ignored:
        blocks.setdefault(one.block, Counter())[one.keyword] += 1
    if not blocks:
        return ""
    parts = []
    for block, commands in blocks.items():
        names = [_short(word or "?") if count == 1 else f"{count:,} {_short(word)}" for word, count in commands.items()]
        place = f"{_short(block).upper()} block" if block else "in no block"
        parts.append(f"{first_few(names, ', ', limit=MOST_NAMED)} ({place})")
    choosing = [word for word in LEAVES_OUT if any(word in commands for commands in blocks.values())]
    unheard = f". {' and '.join(choosing)} would leave out data: all of it is used" if choosing else ""
    return f"ignored: {first_few(parts, '; ', 'more block', 'more blocks', limit=MOST_NAMED)}{unheard}"


def _short(word: str) -> str:
    """A word of the file, for a message: in quotes unless it is a plain one."""
    return word if word.isascii() and word.isprintable() and len(word) <= LONGEST_WORD else quoted(word, LONGEST_WORD)
