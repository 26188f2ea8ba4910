"""Maximum-likelihood distances: every two taxa as a tree of one branch."""

import numpy as np

from phloem.kernels.arrays import FloatArray
from phloem.kernels.branch_fit import best_length, fill_terms
from phloem.kernels.jit import vector_kernel
from phloem.kernels.jukes_cantor import BLOCK
from phloem.kernels.partials import PatternTables, RateTables
from phloem.kernels.pointers import at

START = 0.1


@vector_kernel
def pair_distances(rates: RateTables, patterns: PatternTables, tips: FloatArray, tolerance: float) -> FloatArray:
    """The length of the branch between every two tips (taxa, blocks, categories, 4, BLOCK), (taxa, taxa)."""
    taxa, blocks, categories = tips.shape[:3]
    size = tips[0].size
    terms = np.empty((blocks, len(rates.terms), BLOCK))
    steps = np.zeros(blocks * BLOCK, np.int32)
    distances = np.zeros((taxa, taxa))
    for first in range(taxa):
        for second in range(first):
            x, y = at(tips, first * size), at(tips, second * size)
            fill_terms(terms, rates, patterns, categories, x, at(steps, 0), y, at(steps, 0))
            distances[first, second] = best_length(terms, rates.terms, patterns.weights, START, tolerance)
            distances[second, first] = distances[first, second]
    return distances
