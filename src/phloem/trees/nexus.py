"""Tree files split into trees: Newick statements and NEXUS blocks, and error messages with their place."""

import re
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from phloem.arrays import ByteArray, FloatArray, LongArray
from phloem.data.nexus import MAGIC, unquote
from phloem.errors import TreeFormatError, quoted
from phloem.kernels.trees import newick
from phloem.kernels.trees.newick import OPEN, OPEN_COMMENT, QUOTE, SEMICOLON, label_end, skip_blanks

EXPLANATIONS = {
    newick.NO_SUBTREE: "there is no tree before this ';'",
    newick.NO_NAME: "a leaf has no name here. Every leaf needs one",
    newick.SINGLE_CHILD: "this bracket closes a node with a single child. Remove the redundant pair of brackets",
    newick.NOT_CLOSED: "the tree ends with a bracket open. A ')' or the rest of the tree is missing",
    newick.TOO_MANY_CLOSED: "this ')' closes nothing. There is a '(' missing or a ')' too many",
    newick.BAD_LENGTH: "a finite branch length must follow ':'",
    newick.QUOTE_NOT_CLOSED: "a quoted name has no closing quote",
}


def place(source: str, buffer: ByteArray, tree: int | None, position: int) -> str:
    """`file, tree 3, line 7, column 12`, all counted from one; columns count bytes."""
    before = buffer[:position].tobytes()
    line = before.count(b"\n") + 1
    column = position - (before.rfind(b"\n") + 1) + 1
    number = "" if tree is None else f"tree {tree + 1}, "
    return f"{source}, {number}line {line}, column {column}"


def problem(source: str, buffer: ByteArray, tree: int | None, position: int, what: str) -> TreeFormatError:
    """An error about one place in a tree file."""
    return TreeFormatError(f"{place(source, buffer, tree, position)}: {what}.")


def syntax_problem(source: str, buffer: ByteArray, tree: int, position: int, status: int) -> TreeFormatError:
    """The parser's status in words."""
    if status == newick.UNEXPECTED:
        what = f"{found_at(buffer, position)} cannot stand here. Put names with blanks or brackets in 'quotes'"
    else:
        what = EXPLANATIONS[status]
    return problem(source, buffer, tree, position, what)


def found_at(buffer: ByteArray, position: int) -> str:
    """The text at a position, for a message."""
    stop = max(newick.label_end(buffer, position, len(buffer)), position + 1)
    return quoted(decode(buffer, position, stop), limit=20)


def decode(buffer: ByteArray, start: int, stop: int) -> str:
    """Bytes as text for a message; invalid UTF-8 is escaped."""
    return buffer[start:stop].tobytes().decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True, eq=False)
class TreeText:
    """The trees of one file as byte ranges of its content, in file order."""

    source: str
    buffer: ByteArray
    starts: LongArray  # (trees,)  where each tree's Newick text begins
    ends: LongArray  # (trees,)  where its semicolon is
    weights: FloatArray  # (trees,)
    first_tree: int  # index of the first tree in the file: above 0 after a burn-in
    node_bound: int  # no tree has more nodes than this
    names: dict[str, str] | None  # what a leaf's label stands for; None: labels are the names
    order: tuple[str, ...] | None  # the file's own order of taxa, where it states one

    def without_first(self, count: int) -> "TreeText":
        """Without the first `count` trees."""
        return replace(
            self,
            starts=self.starts[count:],
            ends=self.ends[count:],
            weights=self.weights[count:],
            first_tree=self.first_tree + count,
        )


def scan_statements(source: str, buffer: ByteArray, start: int, *, titled: bool = False) -> LongArray:
    """Start, semicolon and bound on the nodes of every statement, (statements, 3); raise if the text breaks off.

    `titled`: not every statement is a tree, and those that are begin with `tree name =`.
    """
    spans = np.empty((np.count_nonzero(buffer == SEMICOLON), 3), np.int64)
    count, stopped = newick.statement_spans(buffer, start, spans)
    if stopped < len(buffer):
        trees = int(newick.is_tree_statement(buffer, spans[:count]).sum()) if titled else count
        raise _unfinished(source, buffer, trees, stopped, titled)
    return spans[:count]


def _unfinished(source: str, buffer: ByteArray, tree: int, position: int, titled: bool) -> TreeFormatError:
    if buffer[position] == OPEN_COMMENT:
        what = "this comment has no closing ']'"
    elif buffer[position] == QUOTE:
        what = "this quoted name has no closing quote"
    elif titled or buffer[position] == OPEN:
        what = "this statement has no ';' at its end. The file may have been cut off"
    else:
        what = f"expected a tree in Newick format, found {found_at(buffer, position)}"
    return problem(source, buffer, tree, position, what)


def locate_trees(
    source: str,
    buffer: ByteArray,
    spans: LongArray,
    *,
    titled: bool = False,
    names: dict[str, str] | None = None,
    order: tuple[str, ...] | None = None,
) -> TreeText:
    """Find each statement's tree and weight, by default 1; `titled`: after `tree name =`."""
    starts = np.empty(len(spans), np.int64)
    weights = np.empty(len(spans))
    bad, position, is_weight = newick.locate_trees(buffer, spans, titled, starts, weights)
    if bad < len(spans):
        what = (
            "the weight must be a finite number that is not negative"
            if is_weight
            else "this statement has no '='. Write `tree name = (…);`"
        )
        raise problem(source, buffer, bad, position, what)
    weights[np.isnan(weights)] = 1.0
    node_bound = int(spans[:, 2].max()) if len(spans) else 0
    return TreeText(source, buffer, starts, spans[:, 1].copy(), weights, 0, node_bound, names, order)


def scan_nexus(source: str, buffer: ByteArray) -> TreeText:
    """The trees of all TREES blocks, with the names of leaves from translate tables and taxon labels."""
    content = buffer.tobytes()
    start = len(content) - len(content.lstrip()) + len(MAGIC)
    spans = scan_statements(source, buffer, start, titled=True)
    is_tree = newick.is_tree_statement(buffer, spans).astype(bool)
    block = ""
    in_trees = np.zeros(len(spans), bool)
    taxa: _Statement | None = None
    tables: list[_Statement] = []
    previous = 0
    for index in np.flatnonzero(~is_tree):
        in_trees[previous:index] = block == "trees"
        previous = int(index)
        words = _Statement(source, buffer, spans[index])
        if words.keyword == "begin":
            block = words.block()
        elif words.keyword in ("end", "endblock"):
            block = ""
        elif words.keyword == "taxlabels":
            if taxa is not None and words.content != taxa.content and words.tokens() != taxa.tokens():
                raise words.problem("this list of taxa differs from an earlier one. Split the file by its TAXA blocks")
            taxa = taxa or words
        elif words.keyword == "translate" and block == "trees":
            tables.append(words)
    in_trees[previous:] = block == "trees"
    trees = spans[is_tree & in_trees]
    if not len(trees):
        raise TreeFormatError(f"{source}: this NEXUS file has no trees. It needs a TREES block with `tree` statements.")
    labels = taxa.taxon_labels() if taxa else []
    translated = _translations(tables, set(labels))
    names = _label_meanings(labels, translated) or None
    order = tuple(labels or dict.fromkeys(translated.values())) or None
    return locate_trees(source, buffer, trees, titled=True, names=names, order=order)


def _label_meanings(labels: list[str], translated: dict[str, str]) -> dict[str, str]:
    """What a leaf's label stands for: a translation, else a name, else a taxon's number."""
    names = {name: name for name in (*labels, *translated.values())}
    numbers = {str(number): name for number, name in enumerate(labels, 1)}
    return numbers | names | translated


def _translations(tables: "list[_Statement]", listed: set[str]) -> dict[str, str]:
    """All translate tables as one; the names must be those of the TAXA block, where there is one."""
    translated: dict[str, str] = {}
    for table in tables:
        for label, name in table.translations().items():
            if listed and name not in listed:
                raise table.problem(f"translate table: taxon {quoted(name)} is not in the TAXA block")
            if translated.setdefault(label, name) != name:
                raise table.problem(
                    f"{quoted(label)} stands for {quoted(translated[label])} in one translate table and for "
                    f"{quoted(name)} in another. Split the file by its TREES blocks"
                )
    return translated


class _Statement:
    """One NEXUS statement other than a tree, split into tokens."""

    def __init__(self, source: str, buffer: ByteArray, span: LongArray) -> None:
        self.source, self.buffer = source, buffer
        self.position = skip_blanks(buffer, int(span[0]), int(span[1]))
        keyword = re.match(r"\s*([a-z]*)", decode(buffer, self.position, min(self.position + 16, int(span[1]))).lower())
        self.keyword = keyword.group(1) if keyword else ""
        self._end = int(span[1])

    @property
    def content(self) -> bytes:
        """Its bytes."""
        return self.buffer[self.position : self._end].tobytes()

    def block(self) -> str:
        """The name of the block that the statement begins, in lower case."""
        position = skip_blanks(self.buffer, label_end(self.buffer, self.position, self._end), self._end)
        return unquote(
            decode(self.buffer, position, max(label_end(self.buffer, position, self._end), position))
        ).lower()

    def tokens(self) -> list[str]:
        """Its tokens, without comments, names in their quotes: the same rules as inside trees."""
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
        labels = [unquote(word) for word in self.tokens()[1:]]
        if len(set(labels)) < len(labels):
            twice = next(label for label, count in Counter(labels).items() if count > 1)
            raise self.problem(f"taxon {quoted(twice)} is listed twice. Taxon names must differ")
        return labels

    def translations(self) -> dict[str, str]:
        """The translate table as a dictionary."""
        table: dict[str, str] = {}
        used: set[str] = set()
        entry: list[str] = []
        for word in [*self.tokens()[1:], ","]:
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
            if label in table or name in used:
                twice = label if label in table else name
                raise self.problem(f"translate table: {quoted(twice)} is listed twice. Labels and names must differ")
            table[label] = name
            used.add(name)
        return table
