"""A hash table from label bytes to numbers, so that a tree's tips are looked up without Python strings."""

import numpy as np

from phloem.kernels.arrays import ByteArray, IntArray, LongArray
from phloem.kernels.jit import kernel
from phloem.kernels.newick import QUOTE

FNV_OFFSET = np.uint64(0xCBF29CE484222325)
FNV_PRIME = np.uint64(0x100000001B3)


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
    """Number of the label at buffer[start:stop], quoted or not; -1 where the table does not have it."""
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
