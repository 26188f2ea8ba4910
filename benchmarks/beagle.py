"""BEAGLE's likelihood through its C interface, where the library is installed (Debian: libhmsbeagle1v5)."""

import ctypes
import ctypes.util

import numpy as np

from phloem.data import SitePatterns
from phloem.trees import TopologyBatch

DOUBLE, NO_THREADS, SSE, CPU = 1 << 1, 1 << 14, 1 << 11, 1 << 15
NO_BUFFER = -1


def load() -> ctypes.CDLL | None:
    """The library, or None where it is not installed."""
    name = ctypes.util.find_library("hmsbeagle")
    try:
        return ctypes.CDLL(name or "libhmsbeagle.so.1")
    except OSError:
        return None


def doubles(values: object) -> ctypes.Array[ctypes.c_double]:
    flat = np.asarray(values, np.float64).ravel()
    return (ctypes.c_double * len(flat))(*flat)


def integers(values: object) -> ctypes.Array[ctypes.c_int]:
    flat = np.asarray(values, np.int32).ravel()
    return (ctypes.c_int * len(flat))(*flat)


class Beagle:
    """Jukes–Cantor log-likelihoods, unscaled, one tree after the other, on one core with SSE."""

    def __init__(self, library: ctypes.CDLL, patterns: SitePatterns) -> None:
        self.library = library
        taxa, count = patterns.states.shape
        self.taxa = taxa
        flags = ctypes.c_long(DOUBLE | NO_THREADS | SSE | CPU)
        details = ctypes.create_string_buffer(256)
        nodes = 2 * taxa - 1
        self.instance = library.beagleCreateInstance(
            taxa, taxa, taxa, 4, count, 1, nodes, 1, 0, None, 0, flags, ctypes.c_long(0), details
        )
        if self.instance < 0:
            raise RuntimeError(f"BEAGLE gives error {self.instance}")
        for taxon in range(taxa):
            codes = patterns.states[taxon]
            states = np.where(np.bitwise_count(codes) == 1, np.log2(np.maximum(codes, 1)), 4)
            library.beagleSetTipStates(self.instance, taxon, integers(states))
        library.beagleSetPatternWeights(self.instance, doubles(patterns.counts))
        library.beagleSetStateFrequencies(self.instance, 0, doubles([0.25] * 4))
        library.beagleSetCategoryWeights(self.instance, 0, doubles([1.0]))
        library.beagleSetCategoryRates(self.instance, doubles([1.0]))
        values, vectors = np.linalg.eigh((np.ones((4, 4)) - 4 * np.eye(4)) / 3)
        library.beagleSetEigenDecomposition(self.instance, 0, doubles(vectors), doubles(vectors.T), doubles(values))

    def log_likelihoods(
        self,
        topologies: TopologyBatch,
        operations: list[ctypes.Array[ctypes.c_int]],
        lengths: list[ctypes.Array[ctypes.c_double]],
    ) -> list[float]:
        """One value a tree, from what `prepare` made."""
        branches = integers(range(2 * self.taxa - 2))
        zero, none = integers([0]), integers([NO_BUFFER])
        root = integers([2 * self.taxa - 2])
        result = ctypes.c_double()
        values = []
        for steps, times in zip(operations, lengths, strict=True):
            self.library.beagleUpdateTransitionMatrices(self.instance, 0, branches, None, None, times, len(branches))
            self.library.beagleUpdatePartials(self.instance, steps, self.taxa - 1, NO_BUFFER)
            self.library.beagleCalculateRootLogLikelihoods(
                self.instance, root, zero, zero, none, 1, ctypes.byref(result)
            )
            values.append(result.value)
        return values


def prepare(
    topologies: TopologyBatch, branch_lengths: np.ndarray
) -> tuple[list[ctypes.Array[ctypes.c_int]], list[ctypes.Array[ctypes.c_double]]]:
    """Operations and lengths of trees rooted on taxon 0's branch, where its neighbour joins the two other children."""
    taxa, inner = topologies.taxon_count, topologies.root
    operations, lengths = [], []
    for neighbors, row in zip(topologies.neighbors, branch_lengths, strict=True):
        steps = [
            [node, NO_BUFFER, NO_BUFFER, neighbors[node, 1], neighbors[node, 1], neighbors[node, 2], neighbors[node, 2]]
            for node in range(taxa, inner + 1)
        ]
        steps.append([inner + 1, NO_BUFFER, NO_BUFFER, 0, 0, inner, inner])
        operations.append(integers(steps))
        lengths.append(doubles([*row, 0.0]))
    return operations, lengths
