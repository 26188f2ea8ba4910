"""A topology from its node features: merge tips into their neighbour, again and again.

With one-hot tips, coefficient (v, i) is the chance that a random walk from node v meets tip i before any
other tip. A walk can reach i only through i's neighbour, so the neighbour is the interior node with the
largest coefficient. When all but one of a node's neighbours are known the node becomes a tip itself, and
its own neighbour is found with the same column, among the nodes that are left: what is beyond it must
again pass through it. So nothing is ever recomputed, and the cost is linear in the size of the matrix.
"""

import numpy as np

from phloem.kernels.arrays import FloatArray, IntArray
from phloem.kernels.jit import kernel


@kernel
def _nearest(column: FloatArray, candidates: IntArray, count: int, besides: int) -> int:
    """The candidate with the largest coefficient, -1 where none is positive."""
    best = -1
    largest = 0.0
    for place in range(count):
        node = candidates[place]
        if node != besides and column[node] > largest:
            best = node
            largest = column[node]
    return best


@kernel
def _is_complete(
    coefficients: FloatArray, pending: FloatArray, attached: int, node: int, above: int, tolerance: float
) -> bool:
    """Whether `node` is the mean of its `attached` known neighbours (whose sum is `pending`) and of `above`."""
    for channel in range(coefficients.shape[1]):
        expected = (attached + 1) * coefficients[node, channel] - pending[channel]
        if abs(expected - coefficients[above, channel]) > tolerance:
            return False
    return True


@kernel
def merge_tips(coefficients: FloatArray, tolerance: float, parent: IntArray) -> int:
    """Fill parent pointers from coefficients (nodes, leaves), leaves first; return the root, or -1 if none fits.

    Works for every degree from two up. A node with k known neighbours is merged only when one more
    neighbour makes it their mean; until then other subtrees come first.
    """
    nodes, leaf_count = coefficients.shape
    # Columns are read whole, so they are laid out in rows.
    columns = np.ascontiguousarray(coefficients.T)
    candidates = np.arange(leaf_count, nodes).astype(np.int32)
    remaining = nodes - leaf_count
    pending = np.zeros((nodes, leaf_count))
    attached = np.zeros(nodes, np.int64)
    representative = np.full(nodes, -1, np.int32)  # the tip below a node with the largest coefficient there
    waiting = np.arange(nodes).astype(np.int32)  # tips, old and new, whose neighbour is to be found
    queued = leaf_count
    done = 0
    parent[:] = -1
    for leaf in range(leaf_count):
        representative[leaf] = leaf
    while done < queued:
        tip = waiting[done]
        done += 1
        node = _nearest(columns[representative[tip]], candidates, remaining, -1)
        if node < 0:
            return -1
        parent[tip] = node
        attached[node] += 1
        pending[node] += coefficients[tip]
        old = representative[node]
        new = representative[tip]
        if old < 0 or coefficients[node, new] > coefficients[node, old]:
            representative[node] = new
        if remaining == 1:
            continue
        above = _nearest(columns[representative[node]], candidates, remaining, node)
        if above < 0 or not _is_complete(coefficients, pending[node], attached[node], node, above, tolerance):
            continue
        remaining -= 1
        for place in range(remaining):
            if candidates[place] == node:
                candidates[place] = candidates[remaining]
                break
        waiting[queued] = node
        queued += 1
    return candidates[0] if remaining == 1 else -1


@kernel
def largest_residual(coefficients: FloatArray, parent: IntArray) -> float:
    """How far any interior node is from the mean of its neighbours, and any tip from its unit vector."""
    nodes, leaf_count = coefficients.shape
    rest = np.zeros((nodes, leaf_count))
    degree = np.zeros(nodes)
    for node in range(nodes):
        above = parent[node]
        if above >= 0:
            rest[above] += coefficients[node]
            rest[node] += coefficients[above]
            degree[above] += 1.0
            degree[node] += 1.0
    largest = 0.0
    for node in range(nodes):
        for leaf in range(leaf_count):
            if node < leaf_count:
                expected = 1.0 if node == leaf else 0.0
            else:
                expected = rest[node, leaf] / degree[node]
            largest = max(largest, abs(coefficients[node, leaf] - expected))
    return largest
