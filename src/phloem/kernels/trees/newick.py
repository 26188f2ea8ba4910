"""Tree files as bytes: statements, labels, numbers and Newick trees, straight into canonical parent arrays.

No recursion and no Python objects. A branch length written with 17 digits comes back as the same bits: mantissa ×
10^exponent is formed in double-double arithmetic (106 bits) and rounded once, which gives the nearest double for up to
19 digits and from 1e-250 to 1e270.
"""

from fractions import Fraction

import numpy as np

from phloem.arrays import ByteArray, FloatArray, IntArray, LongArray
from phloem.kernels.jit import kernel
from phloem.kernels.trees.canonical import write_canonical

OPEN, CLOSE, COMMA, COLON, SEMICOLON = ord("("), ord(")"), ord(","), ord(":"), ord(";")
OPEN_COMMENT, CLOSE_COMMENT, QUOTE, EQUALS = ord("["), ord("]"), ord("'"), ord("=")
AMPERSAND, SLASH = ord("&"), ord("/")
SMALL_P, SMALL_W, LARGE_W = ord("p"), ord("w"), ord("W")
ZERO, NINE = ord("0"), ord("9")
PLUS, MINUS, POINT = ord("+"), ord("-"), ord(".")
EXPONENT_SMALL, EXPONENT_LARGE = ord("e"), ord("E")
TREE_WORD = np.frombuffer(b"tree", np.uint8).copy()
UTREE_WORD = np.frombuffer(b"utree", np.uint8).copy()
# One look-up a byte keeps the scanners fast: comparing with each special character is three times slower.
BLANKS = b" \t\n\v\f\r"
IS_BLANK = np.isin(np.arange(256), list(BLANKS))
IS_ORDINARY = ~np.isin(np.arange(256), list(BLANKS + b"(),:;[]'"))
ENDS_LABEL = np.isin(np.arange(256), list(BLANKS + b"()[],:;"))
ENDS_TITLE_WORD = np.isin(np.arange(256), list(BLANKS + b"=["))
# A label, quoted or not, can begin after these; the apostrophe inside O'Brien is a letter.
PRECEDES_LABEL = np.isin(np.arange(256), list(BLANKS + b"(),:;]"))
# What can be wrong with the text of a tree. The messages are in trees/nexus.py.
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
# Hashes of labels: FNV-1a.
FNV_OFFSET = np.uint64(0xCBF29CE484222325)
FNV_PRIME = np.uint64(0x100000001B3)
# Powers outside this range would overflow Dekker's splitting; such exponents take a second, plain factor.
LARGEST_POWER = 270
# Below this, one more digit cannot overflow 64 bits; the digits after that are beyond a double's precision.
MANTISSA_LIMIT = np.uint64(10**18)


def _powers_of_ten() -> FloatArray:
    table = np.empty((2 * LARGEST_POWER + 1, 2))
    for row, exponent in enumerate(range(-LARGEST_POWER, LARGEST_POWER + 1)):
        exact = Fraction(10) ** exponent
        table[row, 0] = float(exact)
        table[row, 1] = float(exact - Fraction(float(exact)))
    return table


POWERS = _powers_of_ten()  # (2·270+1, 2)  high and low part of each power


@kernel
def _product_error(a: float, b: float, product: float) -> float:
    """a·b − product, exactly (Dekker 1971)."""
    split = 134217729.0  # 2^27 + 1
    a_scaled, b_scaled = a * split, b * split
    a_high = a_scaled - (a_scaled - a)
    b_high = b_scaled - (b_scaled - b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@kernel
def _scale(mantissa: int, exponent: int) -> float:
    """mantissa · 10^exponent, rounded once unless the exponent is beyond the table."""
    power = min(max(exponent, -LARGEST_POWER), LARGEST_POWER)
    high = np.float64(mantissa)
    low = np.float64(np.int64(mantissa - np.uint64(high)))
    power_high = POWERS[power + LARGEST_POWER, 0]
    power_low = POWERS[power + LARGEST_POWER, 1]
    product = high * power_high
    rest = _product_error(high, power_high, product) + (high * power_low + low * power_high)
    value = product + rest
    if power != exponent:
        value *= 10.0 ** float(exponent - power)
    return value


@kernel
def parse_decimal(buffer: ByteArray, start: int, end: int) -> tuple[float, int]:
    """The number that begins at `start` and the position after it; (nan, start) if there is none."""
    position = start
    negative = False
    if position < end and (buffer[position] == PLUS or buffer[position] == MINUS):
        negative = buffer[position] == MINUS
        position += 1
    mantissa = np.uint64(0)
    exponent = 0
    digits = 0
    seen_point = False
    while position < end:
        byte = buffer[position]
        if ZERO <= byte <= NINE:
            digits += 1
            if mantissa < MANTISSA_LIMIT:
                mantissa = mantissa * np.uint64(10) + np.uint64(byte - ZERO)
                if seen_point:
                    exponent -= 1
            elif not seen_point:
                exponent += 1
        elif byte == POINT and not seen_point:
            seen_point = True
        else:
            break
        position += 1
    if digits == 0:
        return np.nan, start
    if position < end and (buffer[position] == EXPONENT_SMALL or buffer[position] == EXPONENT_LARGE):
        after = position + 1
        exponent_negative = False
        if after < end and (buffer[after] == PLUS or buffer[after] == MINUS):
            exponent_negative = buffer[after] == MINUS
            after += 1
        written = 0
        first_digit = after
        while after < end and ZERO <= buffer[after] <= NINE:
            if written < 100_000:
                written = written * 10 + np.int64(buffer[after] - ZERO)
            after += 1
        if after == first_digit:
            return np.nan, start
        exponent += -written if exponent_negative else written
        position = after
    value = 0.0 if mantissa == 0 else _scale(mantissa, exponent)
    return -value if negative else value, position


@kernel
def comment_end(buffer: ByteArray, position: int, end: int) -> int:
    """Position after the comment (they nest) that opens at `position`; -1 if it is not closed."""
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
    """Position after the quoted label that opens at `position` ('' stands for '); -1 if it is not closed."""
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
    """Position after the label at `position`, `position` itself if there is none; -1 if a quote is not closed."""
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
    interior nodes have label_start -1; a branch without a length has nan. A tree with more nodes than the five output
    arrays hold is refused: one more than there are opening brackets and commas is always enough.
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


@kernel
def _hash_label(buffer: ByteArray, start: int, stop: int, quoted: bool) -> int:
    """FNV-1a of the label's bytes; inside quotes '' is one apostrophe."""
    value = FNV_OFFSET
    position = start
    while position < stop:
        byte = buffer[position]
        value = (value ^ np.uint64(byte)) * FNV_PRIME
        position += 2 if quoted and byte == QUOTE else 1
    return np.int64((value ^ (value >> np.uint64(29))) & np.uint64(0x7FFFFFFF))


@kernel
def _same_label(
    buffer: ByteArray, start: int, stop: int, quoted: bool, names: ByteArray, first: int, last: int
) -> bool:
    """Whether the label is names[first:last]."""
    position = start
    for index in range(first, last):
        if position >= stop or buffer[position] != names[index]:
            return False
        position += 2 if quoted and buffer[position] == QUOTE else 1
    return position >= stop


@kernel
def build_table(names: ByteArray, offsets: LongArray) -> IntArray:
    """Open-addressed table of the distinct labels names[offsets[i]:offsets[i + 1]]; -1 marks a free slot."""
    count = len(offsets) - 1
    size = 4
    while size < 2 * count:
        size *= 2
    slots = np.full(size, -1, np.int32)
    for index in range(count):
        slot = _hash_label(names, offsets[index], offsets[index + 1], False) & (size - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = index
    return slots


@kernel
def find_label(buffer: ByteArray, start: int, stop: int, slots: IntArray, names: ByteArray, offsets: LongArray) -> int:
    """Number of the label at buffer[start:stop], quoted or not; -1 if it is not in the table."""
    quoted = buffer[start] == QUOTE
    if quoted:
        start += 1
        stop -= 1
    size = len(slots)
    slot = _hash_label(buffer, start, stop, quoted) & (size - 1)
    while slots[slot] >= 0:
        index = slots[slot]
        if _same_label(buffer, start, stop, quoted, names, offsets[index], offsets[index + 1]):
            return index
        slot = (slot + 1) & (size - 1)
    return -1


@kernel
def statement_spans(buffer: ByteArray, start: int, spans: LongArray) -> tuple[int, int]:
    """Fill spans with each statement's (start, semicolon, upper bound on nodes); return (statements, position).

    Semicolons inside comments and quoted labels do not count; `spans` has a row for each of them nevertheless.
    The position is the end of the text if only white space and comments follow the last statement, and otherwise that
    of the unfinished one.
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
    """The weight in a comment, [&W x] or [p = x], and whether it is the former; nan if there is none."""
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
    """Skip white space and comments, reading a weight from them: (position, weight, whether it is valid).

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
    """Where the Newick text of each statement starts, and its weight (nan if none is given).

    A titled tree (NEXUS) begins with `tree [*] name =`. Returns the index of the first statement that cannot be read
    (the number of statements if all can), the position, and whether the weight is at fault.
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


@kernel
def read_trees(
    buffer: ByteArray,
    starts: LongArray,
    ends: LongArray,
    node_bound: int,
    slots: IntArray,
    names: ByteArray,
    offsets: LongArray,
    taxon_of_label: IntArray,
    leaf_count: int,
    keep_root: bool,
    parents: IntArray,
    lengths: FloatArray,
    node_counts: IntArray,
) -> tuple[int, int, int]:
    """Fill parents (trees, 2n-1), lengths (trees, 2n-1, or no columns if not wanted) and node_counts.

    Returns (tree, status, position) of the first tree that cannot be read; (number of trees, 0, 0) if none.
    """
    raw_parent = np.empty(node_bound, np.int32)
    raw_length = np.empty(node_bound, np.float64)
    label_start = np.empty(node_bound, np.int64)
    label_stop = np.empty(node_bound, np.int64)
    child_count = np.empty(node_bound, np.int32)
    most = 2 * leaf_count - 1  # nodes of a rooted binary tree; only single-child nodes could make more
    identity = np.empty(node_bound, np.int32)
    parent = np.empty(most, np.int32)
    length = np.empty(most, np.float64)
    scratch = np.empty((4, most), np.int32)
    met_in = np.full(leaf_count, -1, np.int64)
    for tree in range(len(starts)):
        nodes, status, position = parse_tree(
            buffer, starts[tree], ends[tree], raw_parent, raw_length, label_start, label_stop, child_count
        )
        if status != FINE:
            return tree, status, position
        leaves = 0
        interior = leaf_count
        for node in range(nodes):
            if label_start[node] < 0:
                identity[node] = interior
                interior += 1
                continue
            label = find_label(buffer, label_start[node], label_stop[node], slots, names, offsets)
            if label < 0:
                return tree, UNKNOWN_TAXON, label_start[node]
            taxon = taxon_of_label[label]
            if taxon < 0:
                return tree, UNKNOWN_TAXON, label_start[node]
            if met_in[taxon] == tree:
                return tree, DUPLICATE_TAXON, label_start[node]
            met_in[taxon] = tree
            identity[node] = taxon
            leaves += 1
        if leaves < leaf_count:
            return tree, MISSING_TAXA, ends[tree]
        for node in range(nodes):
            above = raw_parent[node]
            parent[identity[node]] = identity[above] if above >= 0 else -1
            length[identity[node]] = raw_length[node]
        root = leaf_count  # the first interior node that was met
        node_counts[tree] = write_canonical(
            parent[:nodes], length[:nodes], root, leaf_count, keep_root, scratch, parents[tree], lengths[tree]
        )
    return len(starts), FINE, 0
