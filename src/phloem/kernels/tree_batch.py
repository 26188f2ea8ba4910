"""Many trees' text straight into arrays of canonical parents: parse, look names up, root, number."""

import numpy as np

from phloem.kernels.arrays import ByteArray, FloatArray, IntArray, LongArray
from phloem.kernels.canonical import write_canonical
from phloem.kernels.jit import kernel
from phloem.kernels.names import find_label
from phloem.kernels.newick import DUPLICATE_TAXON, FINE, MISSING_TAXA, UNKNOWN_TAXON, parse_tree


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
    """Fill parents (trees, 2n-1), lengths (trees, 2n-1, or no columns where they are not wanted) and node_counts.

    Returns (tree, status, position) of the first tree that cannot be read; (number of trees, 0, 0) if none.
    """
    raw_parent = np.empty(node_bound, np.int32)
    raw_length = np.empty(node_bound, np.float64)
    label_start = np.empty(node_bound, np.int64)
    label_stop = np.empty(node_bound, np.int64)
    child_count = np.empty(node_bound, np.int32)
    most = 2 * leaf_count - 1  # nodes of a rooted binary tree: no tree without single-child nodes has more
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
