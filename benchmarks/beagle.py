"""BEAGLE's likelihood and branch gradient through its C interface, where the library is installed.

Debian's libhmsbeagle1v5 will do for likelihoods; gradients need BEAGLE 4 (Debian 13, or built from its sources). A
library that lies elsewhere is found, with its plugins, where LD_LIBRARY_PATH names its folder.
"""

import ctypes
import ctypes.util
import time

import numpy as np

from phloem.data import SitePatterns
from phloem.models import SubstitutionModel
from phloem.trees import TopologyBatch
from timing import best_turns, warm

DOUBLE, NO_THREADS, CPU = 1 << 1, 1 << 14, 1 << 15
VECTORS = (1 << 24, 1 << 11, 1 << 12)  # AVX, SSE, none
NONE = -1  # no buffer
GAP = 4  # the state that says nothing
KNOWN, UNKNOWN = (1, 2, 4, 8), 15

Integers = ctypes.Array[ctypes.c_int]
Doubles = ctypes.Array[ctypes.c_double]


class Details(ctypes.Structure):
    """What BEAGLE says of an instance."""

    _fields_ = (
        ("resource_number", ctypes.c_int),
        ("resource", ctypes.c_char_p),
        ("implementation", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("flags", ctypes.c_long),
    )


def load() -> ctypes.CDLL | None:
    """The library, or None where it is not installed."""
    name = ctypes.util.find_library("hmsbeagle")
    try:
        library = ctypes.CDLL(name or "libhmsbeagle.so.1")
    except OSError:
        return None
    library.beagleGetVersion.restype = ctypes.c_char_p
    library.beagleCreateInstance.argtypes = [
        *[ctypes.c_int] * 9,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_long,
        ctypes.c_long,
        ctypes.POINTER(Details),
    ]
    return library


def doubles(values: object) -> Doubles:
    flat = np.asarray(values, np.float64).ravel()
    return (ctypes.c_double * len(flat))(*flat)


def integers(values: object) -> Integers:
    flat = np.asarray(values, np.int32).ravel()
    return (ctypes.c_int * len(flat))(*flat)


def fastest(
    library: ctypes.CDLL,
    patterns: SitePatterns,
    model: SubstitutionModel,
    topologies: TopologyBatch,
    branch_lengths: np.ndarray,
) -> "Beagle":
    """The trees on the fastest of BEAGLE's implementations for one core of this machine."""
    engines: dict[str, Beagle] = {}
    for vectors in VECTORS:
        engine = Beagle(library, patterns, model, topologies, branch_lengths, vectors)
        if engine.implementation in engines:
            engine.close()
        else:
            engines[engine.implementation] = engine
    turns = {name: warm(engine.log_likelihoods, time.process_time) for name, engine in engines.items()}
    seconds = best_turns(turns, 20)
    chosen = engines.pop(min(engines, key=seconds.__getitem__))
    for engine in engines.values():
        engine.close()
    return chosen


class Beagle:
    """Log-likelihoods and branch gradients of given trees, in double precision, unscaled, on one core.

    Buffers of partials: the taxa, the inner nodes, one more for each tree's last inner node, and the pre-order
    partials of all nodes. A tree's last inner node joins taxon 0; a gradient needs a rooted tree, whose root lies on
    taxon 0's branch, at a distance of zero from the inner node.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        patterns: SitePatterns,
        model: SubstitutionModel,
        topologies: TopologyBatch,
        branch_lengths: np.ndarray,
        vectors: int,
    ) -> None:
        self.library = library
        self.trees, self.taxa, self.inner = len(topologies), topologies.taxon_count, topologies.root
        self.root = self.inner + 1
        self.has_gradients = hasattr(library, "beagleUpdatePrePartials")
        rates = model.site_rates.rates().detach().numpy()
        last = self.root + 1  # the trees' last inner nodes
        preorder = last + self.trees
        buffers = preorder + self.root + 1
        matrices = self.trees * self.inner + 2  # each tree's branches, a branch of length zero, and the derivative
        compact = [bool(np.isin(row, [*KNOWN, UNKNOWN]).all()) for row in patterns.states]
        details = Details()
        self.instance = library.beagleCreateInstance(
            self.taxa,
            buffers - sum(compact),
            sum(compact),
            4,
            len(patterns),
            1,
            matrices,
            len(rates),
            0,
            None,
            0,
            DOUBLE | NO_THREADS | CPU | vectors,
            0,
            ctypes.byref(details),
        )
        if self.instance < 0:
            raise RuntimeError(f"BEAGLE gives error {self.instance}")
        self.implementation = details.implementation.decode()
        for taxon, states in enumerate(patterns.states):
            if compact[taxon]:
                numbers = np.where(np.isin(states, KNOWN), np.log2(np.maximum(states, 1)), GAP)
                library.beagleSetTipStates(self.instance, taxon, integers(numbers))
            else:
                library.beagleSetTipPartials(self.instance, taxon, doubles(patterns.tip_partials[taxon]))
        library.beagleSetPatternWeights(self.instance, doubles(patterns.counts))
        self._set_model(model, rates)
        self._lay_out(topologies, branch_lengths, last)
        if self.has_gradients:
            self._lay_out_gradients(topologies, preorder)

    def _set_model(self, model: SubstitutionModel, rates: np.ndarray) -> None:
        """Frequencies, categories and the eigensystem; it is found by way of a symmetric matrix, √π Q / √π."""
        library, instance = self.library, self.instance
        frequencies, self.rate_matrix = model.frequencies.detach().numpy(), model.rate_matrix().detach().numpy()
        library.beagleSetStateFrequencies(instance, 0, doubles(frequencies))
        library.beagleSetCategoryWeights(instance, 0, doubles(model.site_rates.weights().detach().numpy()))
        library.beagleSetCategoryRates(instance, doubles(rates))
        roots = np.sqrt(frequencies)
        values, vectors = np.linalg.eigh(roots[:, None] * self.rate_matrix / roots)
        library.beagleSetEigenDecomposition(
            instance, 0, doubles(vectors / roots[:, None]), doubles(vectors.T * roots), doubles(values)
        )
        if self.has_gradients:
            self.derivative = self.trees * self.inner + 1
            library.beagleSetDifferentialMatrix(
                instance, self.derivative, doubles(rates[:, None, None] * self.rate_matrix)
            )

    def _lay_out(self, topologies: TopologyBatch, branch_lengths: np.ndarray, last: int) -> None:
        """All trees in one list of operations: a tree needs nothing of the one before it but its last inner node."""
        operations = []
        for tree, neighbors in enumerate(topologies.neighbors):
            first = tree * self.inner  # of the tree's matrices
            for node in range(self.taxa, self.root):
                _, left, right = neighbors[node]
                target = node if node < self.inner else last + tree
                operations.append([target, NONE, NONE, left, first + left, right, first + right])
        self.operation_count = len(operations)
        self.operations = integers(operations)
        self.zero_branch = self.trees * self.inner
        self.branches = integers(range(self.zero_branch + 1))
        self.lengths = doubles([*branch_lengths.ravel(), 0.0])
        self.last_nodes = [integers([last + tree]) for tree in range(self.trees)]
        self.first_branches = [integers([tree * self.inner]) for tree in range(self.trees)]

    def _lay_out_gradients(self, topologies: TopologyBatch, preorder: int) -> None:
        """For each tree, operations up to the root and down again. Down: a node from its parent and its sibling."""
        self.upwards, self.downwards = [], []
        for tree, neighbors in enumerate(topologies.neighbors):
            first = tree * self.inner
            children = {node: neighbors[node, 1:].tolist() for node in range(self.taxa, self.root)}
            children[self.root] = [0, self.inner]
            matrix = {node: first + node for node in range(self.inner)} | {self.inner: self.zero_branch}
            up, down = [], []
            for node, (left, right) in children.items():
                up.append([node, NONE, NONE, left, matrix[left], right, matrix[right]])
            for node in reversed(children):
                for child, sibling in (children[node], reversed(children[node])):
                    down.append(
                        [preorder + child, NONE, NONE, preorder + node, matrix[child], sibling, matrix[sibling]]
                    )
            self.upwards.append(integers(up))
            self.downwards.append(integers(down))
        self.pre_root = integers([preorder + self.root])
        self.nodes = integers(range(self.inner))
        self.pre_nodes = integers(range(preorder, preorder + self.inner))
        self.derivatives = integers([self.derivative] * self.inner)

    def log_likelihoods(self) -> np.ndarray:
        """One value a tree."""
        library, instance, zero, none = self.library, self.instance, integers([0]), integers([NONE])
        library.beagleUpdateTransitionMatrices(
            instance, 0, self.branches, None, None, self.lengths, self.zero_branch + 1
        )
        library.beagleUpdatePartials(instance, self.operations, self.operation_count, NONE)
        values = (ctypes.c_double * self.trees)()
        for tree in range(self.trees):
            library.beagleCalculateEdgeLogLikelihoods(
                instance,
                self.last_nodes[tree],
                zero,
                self.first_branches[tree],
                None,
                None,
                zero,
                zero,
                none,
                1,
                ctypes.byref(values, tree * ctypes.sizeof(ctypes.c_double)),
                None,
                None,
            )
        return np.array(values)

    def gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """One value a tree, and derivatives with respect to all branch lengths, (trees, branches)."""
        library, instance, zero, none = self.library, self.instance, integers([0]), integers([NONE])
        root = integers([self.root])
        library.beagleUpdateTransitionMatrices(
            instance, 0, self.branches, None, None, self.lengths, self.zero_branch + 1
        )
        values, gradients = (ctypes.c_double * self.trees)(), np.empty((self.trees, self.inner))
        row = (ctypes.c_double * self.inner)()
        library.beagleSetRootPrePartials(instance, self.pre_root, zero, 1)
        for tree in range(self.trees):
            up, down = self.upwards[tree], self.downwards[tree]
            library.beagleUpdatePartials(instance, up, len(up) // 7, NONE)
            library.beagleCalculateRootLogLikelihoods(
                instance, root, zero, zero, none, 1, ctypes.byref(values, tree * ctypes.sizeof(ctypes.c_double))
            )
            library.beagleUpdatePrePartials(instance, down, len(down) // 7, NONE)
            library.beagleCalculateEdgeDerivatives(
                instance, self.nodes, self.pre_nodes, self.derivatives, zero, self.inner, None, row, None
            )
            gradients[tree] = row
        return np.array(values), gradients

    def close(self) -> None:
        """Free what the instance holds."""
        self.library.beagleFinalizeInstance(self.instance)
