"""A Newick parser over bytes: one tree into parent pointers, no recursion, no Python objects."""

import numpy as np

from phloem.kernels.arrays import ByteArray, FloatArray, IntArray, LongArray
from phloem.kernels.decimal import parse_decimal
from phloem.kernels.jit import kernel

OPEN, CLOSE, COMMA, COLON, SEMICOLON = ord("("), ord(")"), ord(","), ord(":"), ord(";")
OPEN_COMMENT, CLOSE_COMMENT, QUOTE, EQUALS = ord("["), ord("]"), ord("'"), ord("=")
BLANKS = b" \t\n\v\f\r"

# One look-up a byte keeps the scanners fast: comparing with each special character is three times slower.
IS_BLANK = np.isin(np.arange(256), list(BLANKS))
ENDS_LABEL = np.isin(np.arange(256), list(BLANKS + b"()[],:;"))

# What can be wrong with one tree's text. The words for each are in trees/problems.py.
FINE = 0
NO_SUBTREE = 1
NO_NAME = 2
SINGLE_CHILD = 3
NOT_CLOSED = 4
TOO_MANY_CLOSED = 5
UNEXPECTED = 6
BAD_LENGTH = 7
QUOTE_NOT_CLOSED = 8
UNKNOWN_TAXON = 9
DUPLICATE_TAXON = 10
MISSING_TAXA = 11


@kernel
def comment_end(buffer: ByteArray, position: int, end: int) -> int:
    """Position after the comment (they nest) that opens at `position`; -1 where it does not end."""
    depth = 0
    while position < end:
        byte = buffer[position]
        position += 1
        if byte == OPEN_COMMENT:
            depth += 1
        elif byte == CLOSE_COMMENT:
            depth -= 1
            if depth == 0:
                return position
    return -1


@kernel
def skip_blanks(buffer: ByteArray, position: int, end: int) -> int:
    """Position of the next byte that is neither white space nor inside a comment."""
    while position < end:
        byte = buffer[position]
        if byte == OPEN_COMMENT:
            after = comment_end(buffer, position, end)
            if after < 0:
                return position
            position = after
        elif IS_BLANK[byte]:
            position += 1
        else:
            break
    return position


@kernel
def quoted_end(buffer: ByteArray, position: int, end: int) -> int:
    """Position after the quoted label that opens at `position` ('' stands for '); -1 where it does not end."""
    position += 1
    while position < end:
        if buffer[position] == QUOTE:
            if position + 1 < end and buffer[position + 1] == QUOTE:
                position += 1
            else:
                return position + 1
        position += 1
    return -1


@kernel
def label_end(buffer: ByteArray, position: int, end: int) -> int:
    """Position after the label at `position`, which is `position` itself where there is none; -1: open quote."""
    if position < end and buffer[position] == QUOTE:
        return quoted_end(buffer, position, end)
    while position < end and not ENDS_LABEL[buffer[position]]:
        position += 1
    return position


@kernel
def parse_tree(
    buffer: ByteArray,
    start: int,
    end: int,
    parent: IntArray,
    length: FloatArray,
    label_start: LongArray,
    label_stop: LongArray,
    child_count: IntArray,
) -> tuple[int, int, int]:
    """Read the tree in buffer[start:end], its semicolon at `end`; return (nodes, status, position).

    Nodes are numbered as they are met, so a parent comes before its children and node 0 is the root;
    interior nodes have label_start -1; a branch without a length has nan. A tree with more nodes than the
    five output arrays hold is refused: as many as opening brackets and commas, plus one, are always enough.
    """
    nodes = 0
    bracket = -1  # the innermost open bracket's node
    position = start
    while True:
        position = skip_blanks(buffer, position, end)
        if position >= end:
            return nodes, NOT_CLOSED if bracket >= 0 else NO_SUBTREE, position
        if nodes == len(parent):
            return nodes, UNEXPECTED, position
        node = nodes
        nodes += 1
        parent[node] = bracket
        length[node] = np.nan
        child_count[node] = 0
        if bracket >= 0:
            child_count[bracket] += 1
        if buffer[position] == OPEN:
            label_start[node] = -1
            bracket = node
            position += 1
            continue
        stop = label_end(buffer, position, end)
        if stop < 0:
            return nodes, QUOTE_NOT_CLOSED, position
        if stop == position:
            return nodes, NO_NAME, position
        label_start[node] = position
        label_stop[node] = stop
        position = stop
        while True:  # a subtree has ended: its length, then what follows it
            position = skip_blanks(buffer, position, end)
            if position < end and buffer[position] == COLON:
                position = skip_blanks(buffer, position + 1, end)
                length[node], after = parse_decimal(buffer, position, end)
                if after == position or not np.isfinite(length[node]):
                    return nodes, BAD_LENGTH, position
                position = skip_blanks(buffer, after, end)
            if bracket < 0:
                if position < end:
                    return nodes, TOO_MANY_CLOSED if buffer[position] == CLOSE else UNEXPECTED, position
                return nodes, FINE, position
            if position >= end:
                return nodes, NOT_CLOSED, position
            if buffer[position] == COMMA:
                position += 1
                break
            if buffer[position] != CLOSE:
                return nodes, UNEXPECTED, position
            if child_count[bracket] == 1:
                return nodes, SINGLE_CHILD, position
            node = bracket
            bracket = parent[node]
            position = skip_blanks(buffer, position + 1, end)
            position = label_end(buffer, position, end)  # a support value or an ancestor's name
            if position < 0:
                return nodes, QUOTE_NOT_CLOSED, end
