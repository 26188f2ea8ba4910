"""Site patterns in the layout that the kernels read: blocks of patterns, states before patterns."""

from dataclasses import dataclass

import numpy as np

from phloem.data.patterns import SitePatterns
from phloem.kernels.arrays import FloatArray
from phloem.kernels.jukes_cantor import BLOCK

# Sums of partials below the first number are multiplied by the second, a power of two, until they are above it.
RESCALING = {np.float64: (2.0**-200, 2.0**200), np.float32: (2.0**-40, 2.0**40)}
Precision = type[np.float64] | type[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class TipTable:
    """Tip partials and weights in blocks; the last block is filled up with patterns of weight 0."""

    tips: FloatArray  # (blocks, taxa, 4, BLOCK)
    weights: FloatArray  # (blocks, BLOCK)
    offsets: FloatArray  # (patterns,)  what normalising the tips took from each log-likelihood
    rescaling: FloatArray  # (2,)

    @property
    def pattern_count(self) -> int:
        return len(self.offsets)

    def constant(self) -> FloatArray:
        """1 where all tips may have the state, (blocks, 4, BLOCK)."""
        return np.ascontiguousarray((self.tips > 0).all(axis=1).astype(np.float64))


def build_table(patterns: SitePatterns, precision: Precision, *, normalized: bool) -> TipTable:
    """The table of all patterns; `normalized` tips have partials that sum to one."""
    taxa, count = patterns.states.shape
    blocks = -(-count // BLOCK)
    partials = patterns.tip_partials  # (taxa, patterns, 4)
    offsets = np.zeros(count)
    if normalized:
        sums = partials.sum(axis=2)
        partials = partials / sums[..., None]
        offsets = np.log(sums).sum(axis=0)
    filled = np.full((taxa, blocks * BLOCK, 4), 0.25 if normalized else 1.0)
    filled[:, :count] = partials
    tips = filled.reshape(taxa, blocks, BLOCK, 4).transpose(1, 0, 3, 2)
    weights = np.zeros(blocks * BLOCK)
    weights[:count] = patterns.counts
    return TipTable(
        np.ascontiguousarray(tips, precision),
        weights.reshape(blocks, BLOCK),
        offsets,
        np.array(RESCALING[precision], precision),
    )
