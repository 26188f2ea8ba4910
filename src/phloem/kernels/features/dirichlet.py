"""Node features that minimise the Dirichlet energy, and the recovery of a topology from its features.

The features take one pass up the tree and one down:

    Up:    c = 1 / (deg - sum c_child),   d = c * sum d_child     (leaves: c = 0, d = x)
    Root:  x = sum d_child / (deg - sum c_child)
    Down:  x = c * x_parent + d
"""

import numpy as np

from phloem.arrays import FloatArray, IntArray, LongArray, RealArray
from phloem.kernels.jit import at, kernel, vector_kernel, wide_vectors


@kernel
def embed_binary(neighbors: IntArray) -> FloatArray:
    """Features (batch, 2n-2, n) of canonical binary trees with one-hot leaves."""
    batch, nodes, _ = neighbors.shape
    leaf_count = nodes // 2 + 1
    root = nodes - 1
    features = np.empty((batch, nodes, leaf_count))
    share = np.zeros(nodes)  # c of `dirichlet_features`; stays 0 at the leaves
    for tree in range(batch):
        rows = features[tree]
        rows[:leaf_count] = 0.0
        for leaf in range(leaf_count):
            rows[leaf, leaf] = 1.0
        for node in range(leaf_count, root):
            left = neighbors[tree, node, 1]
            right = neighbors[tree, node, 2]
            share[node] = 1.0 / (3.0 - share[left] - share[right])
            _scaled_sum(rows[node], share[node], rows[left], rows[right])
        left = neighbors[tree, root, 1]
        right = neighbors[tree, root, 2]
        scale = 1.0 / (3.0 - share[left] - share[right])
        _scaled_sum(rows[root], scale, rows[left], rows[right])
        rows[root, 0] += scale  # taxon 0 is the root's third child
        for node in range(root - 1, leaf_count - 1, -1):
            _add_scaled(rows[node], share[node], rows[neighbors[tree, node, 0]])
    return features


@kernel
def _scaled_sum(target: FloatArray, scale: float, first: FloatArray, second: FloatArray) -> None:
    for channel in range(len(target)):
        target[channel] = scale * (first[channel] + second[channel])


@kernel
def _add_scaled(target: FloatArray, scale: float, source: FloatArray) -> None:
    for channel in range(len(target)):
        target[channel] += scale * source[channel]


@kernel
def children_of(parent: IntArray) -> tuple[LongArray, IntArray]:
    """Each node's children as children[offsets[v]:offsets[v + 1]], in ascending order."""
    nodes = len(parent)
    offsets = np.zeros(nodes + 1, np.int64)
    for node in range(nodes - 1):
        offsets[parent[node] + 1] += 1
    for node in range(nodes):
        offsets[node + 1] += offsets[node]
    cursor = offsets[:-1].copy()
    children = np.empty(nodes - 1, np.int32)
    for node in range(nodes - 1):
        children[cursor[parent[node]]] = node
        cursor[parent[node]] += 1
    return offsets, children


@kernel
def embed_tree(parent: IntArray, tips: FloatArray, features: FloatArray) -> None:
    """Fill features (nodes, channels) for one tree of any degrees with given tip features (leaves, channels).

    Parents are numbered above their children and the root is the last node. Each interior row is written
    once going up, when its children's rows are still in cache, and once going down.
    """
    nodes = len(parent)
    leaf_count = len(tips)
    features[:leaf_count] = tips
    offsets, children = children_of(parent)
    share = np.zeros(nodes)
    for node in range(leaf_count, nodes):
        first, last = offsets[node], offsets[node + 1]
        remaining = float(last - first) + (1.0 if node < nodes - 1 else 0.0)
        for place in range(first, last):
            remaining -= share[children[place]]
        share[node] = 1.0 / remaining
        row = features[node]
        _scaled_sum(row, share[node], features[children[first]], features[children[first + 1]])
        for place in range(first + 2, last):
            _add_scaled(row, share[node], features[children[place]])
    for node in range(nodes - 2, leaf_count - 1, -1):
        _add_scaled(features[node], share[node], features[parent[node]])


@kernel
def embed_trees(parents: IntArray, tips: FloatArray) -> FloatArray:
    """Features (batch, nodes, channels) of trees with the same number of nodes and the same tips."""
    features = np.empty((len(parents), parents.shape[1], tips.shape[1]))
    for tree in range(len(parents)):
        embed_tree(parents[tree], tips, features[tree])
    return features


@vector_kernel
def project_tips(neighbors: IntArray, tips: RealArray) -> RealArray:
    """Features (batch, 2n-2, channels) of canonical binary trees with the same tips (n, channels)."""
    wide_vectors()
    batch, nodes, _ = neighbors.shape
    features = np.empty((batch, nodes, tips.shape[1]), tips.dtype)
    nothing, share = np.zeros(tips.shape[1], tips.dtype), np.zeros(nodes, tips.dtype)
    for tree in range(batch):
        features[tree, : len(tips)] = tips
        solve_interior(neighbors[tree], nothing, 0, features[tree], share)
    return features


@vector_kernel
def project_tips_backward(neighbors: IntArray, gradient: RealArray) -> RealArray:
    """The adjoint of `project_tips`: from (batch, 2n-2, channels) to (n, channels), summed over the batch.

    The linear system for the interior features is symmetric, so its adjoint is the same system with the interior
    gradient as its source and tips of zero; a tip's gradient is its own plus its neighbour's solution.
    """
    wide_vectors()
    batch, nodes, channels = gradient.shape
    leaf_count = nodes // 2 + 1
    sums = np.zeros((leaf_count, channels), gradient.dtype)
    rows, share = np.zeros((nodes, channels), gradient.dtype), np.zeros(nodes, gradient.dtype)
    for tree in range(batch):
        solve_interior(neighbors[tree], gradient[tree], channels, rows, share)
        for leaf in range(leaf_count):
            target, own = at(sums, leaf * channels), at(gradient, (tree * nodes + leaf) * channels)
            above = at(rows, neighbors[tree, leaf, 0] * channels)
            for channel in range(channels):
                target[channel] += own[channel] + above[channel]
    return sums


@vector_kernel
def solve_interior(neighbors: IntArray, sources: RealArray, stride: int, rows: RealArray, share: RealArray) -> None:
    """Solve deg·x_u - Σ x_neighbours = source_u at the interior nodes of a binary tree, for tips that `rows` holds.

    The source of node u begins at element u · stride: with stride 0 all nodes have the same. `share` (nodes,) is
    scratch, and zero at the leaves.
    """
    nodes, channels = rows.shape
    leaf_count = nodes // 2 + 1
    one, three = rows.dtype.type(1), rows.dtype.type(3)
    for node in range(leaf_count, nodes):
        left, right = neighbors[node, 1], neighbors[node, 2]
        scale = one / (three - share[left] - share[right])
        share[node] = scale
        target, source = at(rows, node * channels), at(sources, node * stride)
        first, second = at(rows, left * channels), at(rows, right * channels)
        for channel in range(channels):
            target[channel] = scale * (source[channel] + first[channel] + second[channel])
    target, first, scale = at(rows, (nodes - 1) * channels), at(rows, 0), share[nodes - 1]
    for channel in range(channels):
        target[channel] += scale * first[channel]  # taxon 0 is the root's third child
    for node in range(nodes - 2, leaf_count - 1, -1):
        target, source = at(rows, node * channels), at(rows, neighbors[node, 0] * channels)
        scale = share[node]
        for channel in range(channels):
            target[channel] += scale * source[channel]


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
    """Fill parent pointers from coefficients (nodes, leaves), leaves first; return the root, or -1 if no tree fits.

    Coefficient (v, i) is the probability that a random walk from node v meets tip i before any other tip. A walk can
    reach i only through i's neighbour, so the neighbour is the interior node with the largest coefficient. When all but
    one of a node's neighbours are known the node becomes a tip itself, and its own neighbour is found with the same
    column, among the remaining nodes: walks from beyond it must again pass through it. So nothing is ever recomputed,
    and the cost is linear in the size of the matrix.

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
    """The largest deviation of an interior node from the mean of its neighbours, or of a tip from its unit vector."""
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
