"""NEXUS tree files: blocks, taxon labels and translate tables of MrBayes, BEAST, PAUP and others."""

import re
from collections import Counter

import numpy as np

from phloem.data.nexus_text import MAGIC, unquote
from phloem.errors import TreeFormatError, quoted
from phloem.kernels import statements
from phloem.kernels.arrays import ByteArray, LongArray
from phloem.kernels.newick import label_end, skip_blanks
from phloem.trees.problems import decode, problem
from phloem.trees.tree_text import TreeText, locate_trees, scan_statements


def scan_nexus(source: str, buffer: ByteArray) -> TreeText:
    """The trees of all TREES blocks, with the names that translate tables and taxon labels give to leaves."""
    content = buffer.tobytes()
    start = len(content) - len(content.lstrip()) + len(MAGIC)
    spans = scan_statements(source, buffer, start, titled=True)
    is_tree = statements.is_tree_statement(buffer, spans).astype(bool)
    block = ""
    in_trees = np.zeros(len(spans), bool)
    labels: list[str] = []
    translated: dict[str, str] = {}
    previous = 0
    for index in np.flatnonzero(~is_tree):
        in_trees[previous:index] = block == "trees"
        previous = int(index)
        words = _Statement(source, buffer, spans[index])
        if words.keyword == "begin":
            block = words.tokens[1].lower() if len(words.tokens) > 1 else ""
        elif words.keyword in ("end", "endblock"):
            block = ""
        elif words.keyword == "taxlabels":
            labels = words.taxon_labels()
        elif words.keyword == "translate" and block == "trees":
            _merge(translated, words.translations(labels), words)
    in_trees[previous:] = block == "trees"
    trees = spans[is_tree & in_trees]
    if not len(trees):
        raise TreeFormatError(f"{source}: this NEXUS file has no trees. It needs a TREES block with `tree` statements.")
    names = _label_meanings(labels, translated) or None
    order = tuple(labels or dict.fromkeys(translated.values())) or None
    return locate_trees(source, buffer, trees, titled=True, names=names, order=order)


def _label_meanings(labels: list[str], translated: dict[str, str]) -> dict[str, str]:
    """What a leaf's label stands for: first a translation, then a name, then a taxon's number."""
    names = {name: name for name in (*labels, *translated.values())}
    numbers = {str(number): name for number, name in enumerate(labels, 1)}
    return numbers | names | translated


def _merge(translated: dict[str, str], more: dict[str, str], statement: "_Statement") -> None:
    for label, name in more.items():
        if translated.setdefault(label, name) != name:
            raise statement.problem(
                f"{quoted(label)} stands for {quoted(translated[label])} in one translate table and for "
                f"{quoted(name)} in another. Split the file by its TREES blocks"
            )


class _Statement:
    """One NEXUS statement other than a tree, cut into words."""

    def __init__(self, source: str, buffer: ByteArray, span: LongArray) -> None:
        self.source, self.buffer = source, buffer
        self.position = skip_blanks(buffer, int(span[0]), int(span[1]))
        keyword = re.match(r"\s*([a-z]*)", decode(buffer, self.position, min(self.position + 16, int(span[1]))).lower())
        self.keyword = keyword.group(1) if keyword else ""
        self._end = int(span[1])

    @property
    def tokens(self) -> list[str]:
        """Its words and signs, comments left out, names in their quotes: the same rules as inside trees."""
        words = []
        position = self.position
        while position < self._end:
            stop = max(label_end(self.buffer, position, self._end), position + 1)
            words.append(self.buffer[position:stop].tobytes())
            position = skip_blanks(self.buffer, stop, self._end)
        try:
            return [word.decode() for word in words]
        except UnicodeDecodeError:
            raise self.problem("this statement is not UTF-8 text") from None

    def problem(self, what: str) -> TreeFormatError:
        return problem(self.source, self.buffer, None, self.position, what)

    def taxon_labels(self) -> list[str]:
        labels = [unquote(word) for word in self.tokens[1:]]
        if len(set(labels)) < len(labels):
            twice = next(label for label, count in Counter(labels).items() if count > 1)
            raise self.problem(f"taxon {quoted(twice)} is listed twice. Taxon names must differ")
        return labels

    def translations(self, labels: list[str]) -> dict[str, str]:
        """The translate table as a dictionary; the names must be those of the TAXA block, where there is one."""
        table: dict[str, str] = {}
        listed, used = set(labels), set[str]()
        entry: list[str] = []
        for word in [*self.tokens[1:], ","]:
            if word != ",":
                entry.append(word)
                continue
            if not entry:  # a comma after the last entry
                continue
            if len(entry) != 2:
                raise self.problem(f"translate table: {quoted(' '.join(entry))} is not a label and a name")
            label, name = map(unquote, entry)
            entry = []
            if not name:
                raise self.problem(f"translate table: {quoted(label)} stands for an empty name")
            if labels and name not in listed:
                raise self.problem(f"translate table: taxon {quoted(name)} is not in the TAXA block")
            if label in table or name in used:
                twice = label if label in table else name
                raise self.problem(f"translate table: {quoted(twice)} is there twice. Labels and names must differ")
            table[label] = name
            used.add(name)
        return table
