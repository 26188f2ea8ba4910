"""Where the statements of a tree file end, and what a tree statement says before its tree."""

import numpy as np

from phloem.kernels.arrays import ByteArray, LongArray
from phloem.kernels.decimal import parse_decimal
from phloem.kernels.jit import kernel
from phloem.kernels.newick import (
    BLANKS,
    COMMA,
    EQUALS,
    IS_BLANK,
    OPEN,
    OPEN_COMMENT,
    QUOTE,
    SEMICOLON,
    comment_end,
    label_end,
    quoted_end,
    skip_blanks,
)

AMPERSAND, SLASH = ord("&"), ord("/")
# A label, and so a quoted one, can begin after these; the apostrophe inside O'Brien is a letter.
PRECEDES_LABEL = np.isin(np.arange(256), list(BLANKS + b"(),:;]"))
ENDS_TITLE_WORD = np.isin(np.arange(256), list(BLANKS + b"=["))
IS_ORDINARY = ~np.isin(np.arange(256), list(BLANKS + b"(),:;[]'"))
SMALL_P, SMALL_W, LARGE_W = ord("p"), ord("w"), ord("W")


@kernel
def statement_spans(buffer: ByteArray, start: int, spans: LongArray) -> tuple[int, int]:
    """Fill spans with each statement's (start, semicolon, upper bound on nodes); return (statements, position).

    Semicolons inside comments and quoted labels do not count; `spans` has a row for every one of them.
    The position is the text's end where only white space and comments follow the last statement, and
    otherwise that of what is not finished.
    """
    end = len(buffer)
    count = 0
    first = start
    nodes = 1
    previous = SEMICOLON
    position = start
    while position < end:
        byte = buffer[position]
        if IS_ORDINARY[byte]:
            position += 1
            previous = byte
            continue
        after = position + 1
        if byte == OPEN_COMMENT:
            after = comment_end(buffer, position, end)
        elif byte == QUOTE and PRECEDES_LABEL[previous]:
            after = quoted_end(buffer, position, end)
        elif byte == OPEN or byte == COMMA:
            nodes += 1
        elif byte == SEMICOLON:
            spans[count, 0] = first
            spans[count, 1] = position
            spans[count, 2] = nodes
            count += 1
            first = after
            nodes = 1
        if after < 0:
            return count, position
        position = after
        previous = buffer[after - 1]
    return count, skip_blanks(buffer, first, end)


@kernel
def _comment_weight(buffer: ByteArray, start: int, end: int) -> tuple[float, bool]:
    """Weight in a comment's text and whether it is a [&W x] one; [p = x] counts too; nan where there is none."""
    explicit = False
    position = start
    while position < end and IS_BLANK[buffer[position]]:
        position += 1
    if position + 2 < end and buffer[position] == AMPERSAND:
        letter = buffer[position + 1]
        if (letter != SMALL_W and letter != LARGE_W) or not IS_BLANK[buffer[position + 2]]:
            return np.nan, False
        explicit = True
        position += 2
    elif position < end and buffer[position] == SMALL_P:
        position += 1
        while position < end and IS_BLANK[buffer[position]]:
            position += 1
        if position >= end or buffer[position] != EQUALS:
            return np.nan, False
        position += 1
    else:
        return np.nan, False
    while position < end and IS_BLANK[buffer[position]]:
        position += 1
    weight, after = parse_decimal(buffer, position, end)
    if explicit and after < end and buffer[after] == SLASH:  # PAUP writes [&W 1/3]
        divisor, _ = parse_decimal(buffer, after + 1, end)
        weight /= divisor
    return weight, explicit


@kernel
def read_header(buffer: ByteArray, position: int, end: int, weight: float) -> tuple[int, float, bool]:
    """Skip white space and comments, taking the weight from them: (position, weight, whether it is a good one).

    [&W x] outranks [p = x], whose digits are fewer in MrBayes' files.
    """
    while position < end:
        byte = buffer[position]
        if IS_BLANK[byte]:
            position += 1
        elif byte == OPEN_COMMENT:
            after = comment_end(buffer, position, end)
            if after < 0:
                return position, weight, True
            found, explicit = _comment_weight(buffer, position + 1, after - 1)
            if explicit:
                if not (np.isfinite(found) and found >= 0):
                    return position, found, False
                weight = found
            elif np.isfinite(found) and found >= 0 and np.isnan(weight):
                weight = found
            position = after
        else:
            break
    return position, weight, True


@kernel
def matches_word(buffer: ByteArray, position: int, end: int, word: ByteArray) -> bool:
    """Whether the word (given in lower case) stands at `position`, in any case, and ends there."""
    if position + len(word) > end:
        return False
    for offset in range(len(word)):
        byte = buffer[position + offset]
        if ord("A") <= byte <= ord("Z"):
            byte += 32
        if byte != word[offset]:
            return False
    after = position + len(word)
    return after == end or IS_BLANK[buffer[after]] or buffer[after] == OPEN_COMMENT or buffer[after] == QUOTE


TREE_WORD = np.frombuffer(b"tree", np.uint8).copy()
UTREE_WORD = np.frombuffer(b"utree", np.uint8).copy()


@kernel
def is_tree_statement(buffer: ByteArray, spans: LongArray) -> ByteArray:
    """1 for each statement whose first word is `tree` or `utree`."""
    flags = np.zeros(len(spans), np.uint8)
    for index in range(len(spans)):
        end = spans[index, 1]
        position = skip_blanks(buffer, spans[index, 0], end)
        if matches_word(buffer, position, end, TREE_WORD) or matches_word(buffer, position, end, UTREE_WORD):
            flags[index] = 1
    return flags


@kernel
def locate_trees(
    buffer: ByteArray, spans: LongArray, titled: bool, starts: LongArray, weights: np.ndarray
) -> tuple[int, int, bool]:
    """Where each statement's Newick text starts, and its weight (nan where none is given).

    A titled tree (NEXUS) begins with `tree [*] name =`. Returns the index of the first statement that
    cannot be read (the number of statements where all are good), the position, and whether it is the weight.
    """
    for index in range(len(spans)):
        position = spans[index, 0]
        end = spans[index, 1]
        weight = np.nan
        if titled:
            position = label_end(buffer, skip_blanks(buffer, position, end), end)
            position, weight, good = read_header(buffer, position, end, weight)
            while good and position < end and buffer[position] != EQUALS:
                if buffer[position] == QUOTE:
                    position = quoted_end(buffer, position, end)
                    if position < 0:
                        position = end
                else:
                    while position < end and not ENDS_TITLE_WORD[buffer[position]]:
                        position += 1
                position, weight, good = read_header(buffer, position, end, weight)
            if not good:
                return index, position, True
            if position >= end:
                return index, position, False
            position += 1
        position, weight, good = read_header(buffer, position, end, weight)
        if not good:
            return index, position, True
        starts[index] = position
        weights[index] = weight
    return len(spans), 0, False
