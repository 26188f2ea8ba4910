"""The way back: a topology from its node features alone."""

import numpy as np

from phloem.errors import FeatureMismatch
from phloem.kernels.arrays import FloatArray, IntArray
from phloem.kernels.canonical import canonical_trees
from phloem.kernels.recovery import largest_residual, merge_tips
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree

# How far features may be from their tree's exact ones, in units of the tips' coefficients.
DOUBLE_TOLERANCE = 1e-9
SINGLE_TOLERANCE = 1e-5


def recover_tree(features: FloatArray, leaf_count: int) -> Tree:
    """The tree whose node features (nodes, channels) these are: leaves first, interior rows in any order.

    Tips may have any linearly independent features. All degrees are found: binary, multifurcating, and a
    root of degree two, which stays the root; other trees hang on taxon 0's neighbour. In the end
    every node must be the mean of its neighbours, so features that fit no tree are refused. The work grows
    like the size of the features, O(n²), after one least-squares solve where the tips are not one-hot.
    """
    tolerance = DOUBLE_TOLERANCE if np.asarray(features).dtype.itemsize >= 8 else SINGLE_TOLERANCE
    rows = np.ascontiguousarray(features, np.float64)
    _check_shape(rows, leaf_count)
    coefficients = _tip_coefficients(rows, leaf_count, tolerance)
    parent = np.empty(len(rows), np.int32)
    root = merge_tips(coefficients, tolerance, parent)
    if root < 0:
        raise FeatureMismatch("features: some node is not the mean of its neighbours, so they fit no tree.")
    difference = largest_residual(coefficients, parent)
    if not difference <= tolerance:
        raise FeatureMismatch(
            f"features: in the nearest tree some node differs from its neighbours' mean by {difference:.1e} "
            f"(at most {tolerance:.0e} is allowed), so they fit no tree."
        )
    return _canonical(parent, leaf_count)


def recover_topologies(features: FloatArray, leaf_count: int) -> TopologyBatch:
    """The binary topologies of a batch of features, (batch, 2n-2, channels)."""
    parents = np.empty((len(features), 2 * leaf_count - 2), np.int32)
    for index, rows in enumerate(features):
        try:
            tree = recover_tree(rows, leaf_count)
        except FeatureMismatch as problem:
            raise FeatureMismatch(f"tree {index + 1}: {problem}") from None
        if not tree.is_binary:
            raise FeatureMismatch(f"tree {index + 1}: features: the tree is not binary.")
        parents[index] = tree.parent
    return TopologyBatch.from_canonical(parents)


def _check_shape(rows: FloatArray, leaf_count: int) -> None:
    if rows.ndim != 2 or leaf_count < 3 or not leaf_count < len(rows) < 2 * leaf_count:
        raise FeatureMismatch(
            f"features of shape {rows.shape} for {leaf_count} taxa: give one row a node, n+1 to 2n-1 for n >= 3 taxa."
        )
    if not np.isfinite(rows).all():
        raise FeatureMismatch("features: some values are not finite.")


def _tip_coefficients(rows: FloatArray, leaf_count: int, tolerance: float) -> FloatArray:
    """Every row as a combination of the tips' rows, (nodes, leaves): the features that one-hot tips would give."""
    tips = rows[:leaf_count]
    if tips.shape == (leaf_count, leaf_count) and (tips == np.eye(leaf_count)).all():
        return rows
    solution, _, rank, _ = np.linalg.lstsq(tips.T, rows.T, rcond=None)
    if rank < leaf_count:
        raise FeatureMismatch(
            f"features: the {leaf_count} tips' are linearly dependent (rank {rank}), so trees cannot be told apart. "
            "Embed with one-hot tips."
        )
    coefficients = np.ascontiguousarray(solution.T)
    if np.abs(coefficients @ tips - rows).max() > tolerance * np.abs(tips).max():
        raise FeatureMismatch("features: some node is not a combination of the tips, so they fit no tree.")
    return coefficients


def _canonical(parent: IntArray, leaf_count: int) -> Tree:
    """The tree in canonical form, hanging on its node of degree two where it has one."""
    degrees = np.bincount(parent[parent >= 0], minlength=len(parent)) + (parent >= 0)
    if degrees[leaf_count:].min() < 2:
        raise FeatureMismatch("features: some interior node has a single neighbour, so they fit no tree.")
    points = np.flatnonzero(degrees[leaf_count:] == 2) + leaf_count
    if len(points) > 1:
        raise FeatureMismatch(f"features: {len(points)} nodes have only two neighbours, but a tree has one root.")
    if len(points):
        node, below = int(points[0]), -1
        while node >= 0:
            above = int(parent[node])
            parent[node] = below
            node, below = above, node
    canonical, _, _ = canonical_trees(parent[None], np.empty((1, 0)), leaf_count, len(points) == 1)
    return Tree(canonical[0], leaf_count)
