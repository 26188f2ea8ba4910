"""Site patterns in the layout that the kernels read: blocks of patterns, states before patterns."""

from dataclasses import dataclass
from typing import cast

import numpy as np

from phloem.data.patterns import SitePatterns
from phloem.kernels.arrays import FloatArray
from phloem.kernels.jukes_cantor import BLOCK

# Sums of partials below the first number are multiplied by the second, a power of two, until they are above it.
RESCALING = {np.float64: (2.0**-200, 2.0**200), np.float32: (2.0**-40, 2.0**40)}
CACHE_LINE = 64  # bytes
Precision = type[np.float64] | type[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class TipTable:
    """Tip partials and weights in blocks; the last block is filled up with patterns of weight 0."""

    tips: FloatArray  # (blocks, taxa, 4, BLOCK), or 5 with the partials' sums
    weights: FloatArray  # (blocks, BLOCK)
    pattern_count: int
    rescaling: FloatArray  # (2,)

    def constant(self) -> FloatArray:
        """1 where all tips may have the state, (blocks, 4, BLOCK)."""
        return np.ascontiguousarray((self.tips[:, :, :4] > 0).all(axis=1).astype(np.float64))


def build_table(patterns: SitePatterns, precision: Precision, *, with_sums: bool) -> TipTable:
    """The table of all patterns: 1 for each state that a tip may have and, `with_sums`, how many these are."""
    taxa, count = patterns.states.shape
    blocks = -(-count // BLOCK)
    filled = np.ones((taxa, blocks * BLOCK, 4))
    filled[:, :count] = patterns.tip_partials
    if with_sums:
        filled = np.concatenate([filled, filled.sum(axis=2, keepdims=True)], axis=2)
    tips = filled.reshape(taxa, blocks, BLOCK, -1).transpose(1, 0, 3, 2)
    weights = np.zeros(blocks * BLOCK)
    weights[:count] = patterns.counts
    return TipTable(
        _aligned(tips, precision),
        weights.reshape(blocks, BLOCK),
        count,
        np.array(RESCALING[precision], precision),
    )


def _aligned(values: FloatArray, precision: Precision) -> FloatArray:
    """A contiguous copy that begins on a cache line: vector loads that straddle two lines take twice as long."""
    size = values.size * np.dtype(precision).itemsize
    room = np.empty(size + CACHE_LINE, np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    copy = cast(FloatArray, room[start : start + size].view(precision).reshape(values.shape))
    copy[...] = values
    return copy
