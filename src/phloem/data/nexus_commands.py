"""Commands of NEXUS files other than the matrix, as words, each with its line for messages.

Comments count as blanks. A quoted name is one word, and so is what stands in braces: `GTR{1.2, 3}+G4{0.5}`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from phloem.data.nexus import KEYWORD, MAGIC, is_nexus, split_statements, unquote

WORD = re.compile(
    r"""'[^']*+(?:''[^']*+)*+' | "[^"]*+" | [=,:()*] | (?:\{[^{}]*+\} | [^\s=,:()*{}'"] [^\s=,:(){}]*+)++ | \S""", re.X
)
PUNCTUATION = frozenset("=,:()*")
# MrBayes takes any beginning of a command that is that of no other.
MRBAYES = (
    *("about", "acknowledgments", "begin", "calibrate", "charset", "charstat", "citations", "comparetree"),
    *("constraint", "ctype", "databreaks", "delete", "dimensions", "disclaimer", "end", "endblock", "exclude"),
    *("execute", "format", "help", "include", "link", "log", "lset", "manual", "matrix", "mcmc", "mcmcp", "outgroup"),
    *("pairs", "partition", "plot", "propset", "prset", "quit", "report", "restore", "set", "showbeagle"),
    *("showmatrix", "showmcmctrees", "showmodel", "showmoves", "showparams", "showusertrees", "speciespartition"),
    *("ss", "ssp", "startvals", "sump", "sumss", "sumt", "taxastat", "taxlabels", "taxset", "translate", "tree"),
    *("unlink", "usertree", "version"),
)


class Word(NamedTuple):
    """A word of a command. What was in quotes is a name, whatever it looks like."""

    text: str
    is_quoted: bool = False

    def __str__(self) -> str:
        return self.text

    def marks(self, signs: str) -> bool:
        """Whether it is one of these punctuation signs."""
        return not self.is_quoted and self.text in PUNCTUATION and self.text in signs


class Command(NamedTuple):
    """One command of a block, without its semicolon."""

    block: str  # in lower case; empty outside of blocks
    line: int
    keyword: str  # in lower case, and in full where a MRBAYES block abbreviates it
    text: str  # what follows the keyword, comments replaced by blanks
    is_whole: bool  # whether it has its semicolon

    def words(self) -> list[Word]:
        """What follows the keyword, word by word."""
        return split_words(self.text)


def in_full(word: str, known: Iterable[str]) -> str:
    """What a word abbreviates: the one of `known` that begins with it; the word itself if that is none or several."""
    begun = [name for name in known if name.startswith(word)]
    return begun[0] if len(begun) == 1 and word not in begun else word


def split_words(text: str) -> list[Word]:
    """The words of a text without comments."""
    return [_word(found.group()) for found in WORD.finditer(text)]


def _word(text: str) -> Word:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return Word(unquote(text) if text[0] == "'" else text[1:-1], is_quoted=True)
    return Word(text)


def commands(source: str, text: str) -> Iterator[Command]:
    """The commands of a file, but for those that begin and end blocks. `#NEXUS` may be missing."""
    ends_of_lines = [found.start() for found in re.finditer("\n", text)]
    block = ""
    begin = len(text) - len(text.lstrip()) + len(MAGIC) if is_nexus(text.lstrip()[:16].encode()) else 0
    for start, body, is_whole in split_statements(source, text, begin, for_comments=" "):
        found = KEYWORD.search(body)
        if found is None:
            continue
        keyword, rest = found.group().lower(), body[found.end() :]
        if keyword == "begin":
            name = KEYWORD.search(rest)
            block = name.group().lower() if name else ""
        elif keyword in ("end", "endblock"):
            block = ""
        else:
            keyword = in_full(keyword, MRBAYES) if block == "mrbayes" else keyword
            yield Command(block, _line(ends_of_lines, start + found.start()), keyword, rest, is_whole)


def _line(ends_of_lines: list[int], position: int) -> int:
    return bisect_right(ends_of_lines, position - 1) + 1
