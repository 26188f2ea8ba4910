"""What alignments and trees in NEXUS files have in common."""

import re

MAGIC = b"#nexus"
BRACKET = re.compile(r"[\[\]]")
# A quote opens a name only where a name can begin: the apostrophe inside O'Brien is a letter.
BRACKET_OR_QUOTED = re.compile(r"[\[\]]|(?<![^\s,(])'(?:[^']|'')*'")


def is_nexus(content: bytes) -> bool:
    """Whether the file says `#NEXUS` before anything else."""
    return content.lstrip()[: len(MAGIC)].lower() == MAGIC


def without_comments(text: str) -> str:
    """Text without its [comments], which may nest. Brackets inside quotes stay; quotes inside comments do not count."""
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
    """A word as it is meant: without quotes, and with apostrophes that were doubled inside them."""
    return word[1:-1].replace("''", "'") if len(word) > 1 and word[0] == "'" == word[-1] else word
