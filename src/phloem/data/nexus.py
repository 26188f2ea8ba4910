"""Alignments in NEXUS files: the DATA or CHARACTERS block of MrBayes, PAUP, Mesquite and others."""

import re

from phloem.data.alignment import letter_for
from phloem.errors import AlignmentError

MAGIC = b"#nexus"
BRACKET = re.compile(r"[\[\]]")
# A quote opens a name only where a name can begin: the apostrophe inside O'Brien is a letter.
BRACKET_OR_QUOTED = re.compile(r"[\[\]]|(?<![^\s,(])'(?:[^']|'')*'")
NUCLEOTIDE_TYPES = ("dna", "rna", "nucleotide")
Records = list[tuple[str, str]]


def is_nexus(content: bytes) -> bool:
    """Whether the file says `#NEXUS` before anything else."""
    return content.lstrip()[: len(MAGIC)].lower() == MAGIC


def without_comments(text: str) -> str:
    """Text without [comments], which may nest. Brackets inside quotes stay; quotes inside comments are ignored."""
    kept: list[str] = []
    depth = position = 0
    while found := (BRACKET if depth else BRACKET_OR_QUOTED).search(text, position):
        if not depth:
            kept.append(text[position : found.start()])
        if found.group() == "[":
            depth += 1
        elif found.group() == "]":
            depth = max(depth - 1, 0)
        else:
            kept.append(found.group())
        position = found.end()
    return "".join(kept) if depth else "".join(kept) + text[position:]


def unquote(word: str) -> str:
    """A word without its quotes; doubled apostrophes inside them become single."""
    return word[1:-1].replace("''", "'") if len(word) > 1 and word[0] == "'" == word[-1] else word


def parse_nexus(source: str, text: str) -> Records:
    """The sequences of the first DATA or CHARACTERS block, in standard symbols."""
    block = _find_block(without_comments(text))
    if block is None:
        raise AlignmentError(f"{source}: no alignment: this NEXUS file has no DATA or CHARACTERS block.")
    settings = _settings(block)
    kind = settings.get("datatype", "standard")
    if not kind.startswith(NUCLEOTIDE_TYPES):
        raise AlignmentError(f"{source}: datatype={kind} is not supported. Only dna, rna and nucleotide data are.")
    matrix = re.search(r"\bmatrix\b(.*?)(?:;|$)", block, re.IGNORECASE | re.DOTALL)
    if matrix is None:
        raise AlignmentError(f"{source}: the NEXUS DATA block has no MATRIX.")
    interleaved = settings.get("interleave", "no") in ("", "yes")
    sites = int(settings["nchar"]) if settings.get("nchar", "").isdigit() else None
    records = _plain_symbols(_rows(_resolve_sets(matrix.group(1)), interleaved, sites), settings)
    _check_counts(source, records, settings)
    return records


def _find_block(text: str) -> str | None:
    found = re.search(
        r"\bbegin\s+(?:data|characters)\s*;(.*?)(?:;\s*end(?:block)?\s*;|$)", text, re.IGNORECASE | re.DOTALL
    )
    return found.group(1) + ";" if found else None


def _settings(block: str) -> dict[str, str]:
    """`key=value` and bare words of DIMENSIONS and FORMAT, in lower case."""
    head = re.split(r"\bmatrix\b", block, maxsplit=1, flags=re.IGNORECASE)[0]
    settings: dict[str, str] = {}
    for statement in re.findall(r"\b(?:dimensions|format)\b([^;]*);", head, re.IGNORECASE):
        for key, value in re.findall(r"(\w+)(?:\s*=\s*(\"[^\"]*\"|\([^)]*\)|\S+))?", statement):
            settings[key.lower()] = value.strip('"').lower()
    return settings


def _rows(matrix: str, interleaved: bool, sites: int | None) -> Records:
    """Names and sequences. A name can be quoted; a sequence can span lines and contain blanks."""
    names: list[str] = []
    rows: list[str] = []
    place: dict[str, int] = {}
    for line in filter(None, map(str.strip, matrix.splitlines())):
        if rows and not interleaved and sites is not None and len(rows[-1]) < sites:
            rows[-1] += "".join(line.split())
            continue
        name, *rest = re.split(r"(?<=')\s+" if line[0] == "'" else r"\s+", line, maxsplit=1)
        name, row = unquote(name), "".join("".join(rest).split())
        if interleaved and name in place:
            rows[place[name]] += row
        else:
            place[name] = len(rows)
            names.append(name)
            rows.append(row)
    return list(zip(names, rows, strict=True))


def _check_counts(source: str, records: Records, settings: dict[str, str]) -> None:
    expected = {"ntax": len(records), "nchar": len(records[0][1]) if records else 0}
    for key, found in expected.items():
        stated = settings.get(key, "")
        if stated.isdigit() and int(stated) != found:
            raise AlignmentError(
                f"{source}: the NEXUS file says {key}={stated}, but its matrix has {found}. Correct one of them."
            )


def _plain_symbols(records: Records, settings: dict[str, str]) -> Records:
    """Replace the symbols that the file declares for gaps, missing data and `same as in the first sequence`."""
    own = {settings.get("gap", "-")[:1]: "-", settings.get("missing", "?")[:1]: "?"}
    match = settings.get("matchchar", "")[:1]
    first = records[0][1] if records else ""
    plain: Records = []
    for name, row in records:
        if match:
            row = "".join(
                first[place] if symbol.lower() == match and place < len(first) else symbol
                for place, symbol in enumerate(row)
            )
        for symbol, meaning in own.items():
            if symbol:
                row = row.replace(symbol, meaning).replace(symbol.upper(), meaning)
        plain.append((name, row))
    return plain


def _resolve_sets(matrix: str) -> str:
    """Replace sets of states, {AC} or (AC), by their one-letter code."""
    return re.sub(r"\{([^}]*)\}|\(([^)]*)\)", lambda found: letter_for(found.group(1) or found.group(2) or ""), matrix)
