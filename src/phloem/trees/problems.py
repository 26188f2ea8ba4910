"""The words for what can be wrong in a tree file: where, what, and what to do."""

from phloem.errors import TreeFormatError, quoted
from phloem.kernels import newick
from phloem.kernels.arrays import ByteArray

EXPLANATIONS = {
    newick.NO_SUBTREE: "there is no tree before this ';'",
    newick.NO_NAME: "a leaf has no name here. Every leaf needs one",
    newick.SINGLE_CHILD: "this bracket closes a node with a single child. Remove the needless pair of brackets",
    newick.NOT_CLOSED: "the tree ends with a bracket open. A ')' or the rest of the tree is missing",
    newick.TOO_MANY_CLOSED: "this ')' closes no bracket. A '(' is missing or a ')' too many",
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
    """What stands at a position, as a message shows it."""
    stop = max(newick.label_end(buffer, position, len(buffer)), position + 1)
    return quoted(decode(buffer, position, stop), limit=20)


def decode(buffer: ByteArray, start: int, stop: int) -> str:
    """Bytes as text for a message: what is not UTF-8 is shown as it can be."""
    return buffer[start:stop].tobytes().decode("utf-8", "backslashreplace")
