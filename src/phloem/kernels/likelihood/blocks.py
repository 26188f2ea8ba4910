"""Blocks of site patterns: how partial likelihoods are laid out, and how they are kept from underflowing.

A block holds `BLOCK` patterns as rows (state, pattern): it stays in cache, and every loop over it is vector code. Where
the partials of a pattern become small they are multiplied by a power of two, which is exact; the number of
multiplications is counted, so that any number of taxa is possible.
"""

import numpy as np

from phloem.kernels.jit import vector_kernel

BLOCK = 32  # patterns
SECOND, THIRD, FOURTH = BLOCK, 2 * BLOCK, 3 * BLOCK  # where the rows of C, G and T begin
STATES = 4 * BLOCK  # entries of a block
MATRIX = 16  # entries of a transition matrix
# By precision: patterns whose partials sum to less than the first are multiplied by the second until they do not.
RESCALING = {np.float64: (2.0**-200, 2.0**200), np.float32: (2.0**-40, 2.0**40)}


@vector_kernel
def rescale(partials, rows, sums, steps, small, factor):
    """Multiply each pattern whose sum is small, but not zero, until it is not; add the multiplications to `steps`."""
    for i in range(BLOCK):
        while sums[i] > 0 and sums[i] < small:
            for row in range(rows):
                partials[row * BLOCK + i] *= factor
            sums[i] *= factor
            steps[i] += 1


@vector_kernel
def undo_scaling(derivatives, steps, factor):
    """What was multiplied on the way up is multiplied on the way down."""
    for i in range(BLOCK):
        for _ in range(steps[i]):
            for state in range(4):
                derivatives[state * BLOCK + i] *= factor


@vector_kernel
def clear(steps):
    """Set the counts of a block to zero."""
    for i in range(BLOCK):
        steps[i] = 0
