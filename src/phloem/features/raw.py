"""Raw node features, the Dirichlet-energy minimisers of Zhang (2023), in linear time; and trees recovered from them.

Tips carry given features; every interior node is the mean of its neighbours, which minimises the sum of squared
differences over the branches. With one-hot tips the features determine the topology.
"""

import numpy as np

from phloem.arrays import FloatArray, IntArray
from phloem.errors import BadArgument, FeatureMismatch
from phloem.kernels.features.dirichlet import embed_binary, embed_tree, embed_trees, largest_residual, merge_tips
from phloem.kernels.trees.canonical import canonical_trees
from phloem.random_streams import RandomStream
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree

# How far features may deviate from their tree's exact ones, in units of the tips' coefficients.
DOUBLE_TOLERANCE = 1e-9
SINGLE_TOLERANCE = 1e-5
LARGEST_VALUE = 1e100  # sums and products of features stay finite


def dirichlet_features(topologies: TopologyBatch, tips: FloatArray | None = None) -> FloatArray:
    """Features of binary trees, (batch, 2n-2, channels), with given tips (n, channels) or one-hot ones.

    O(n) row updates per tree:

    Up:    c = 1 / (deg - sum c_child),   d = c * sum d_child
    Down:  x = c * x_parent + d
    """
    if tips is None:
        return embed_binary(topologies.neighbors)
    return embed_trees(topologies.parent, _checked_tips(tips, topologies.taxon_count))


def tree_features(tree: Tree, tips: FloatArray | None = None, *, out: FloatArray | None = None) -> FloatArray:
    """Features of one tree of any degrees, (nodes, channels), with given tips (leaves, channels) or one-hot ones.

    `out` receives the result; allocating an array for a big tree costs as much as the two passes.
    """
    tips = np.eye(tree.leaf_count) if tips is None else _checked_tips(tips, tree.leaf_count)
    shape = (len(tree.parent), tips.shape[1])
    if out is None:
        out = np.empty(shape)
    elif out.shape != shape or out.dtype != np.float64 or not (out.flags.c_contiguous and out.flags.writeable):
        raise BadArgument(f"out: give a writable, contiguous float64 array of shape {shape}.")
    embed_tree(tree.parent, tips, out)
    return out


def _checked_tips(tips: FloatArray, leaf_count: int) -> FloatArray:
    if tips.ndim != 2 or len(tips) != leaf_count:
        raise BadArgument(f"tip features of shape {tips.shape} for {leaf_count} leaves. Give one row per leaf.")
    return np.ascontiguousarray(tips, np.float64)


def random_tips(leaf_count: int, dimension: int, *, stream: RandomStream) -> FloatArray:
    """Independent normal tip features, (leaves, dimension): a short substitute for the one-hot tips of big trees.

    Inner products of two tips' features have the same mean as for one-hot tips.
    """
    if dimension < 1:
        raise BadArgument(f"tip features of dimension {dimension}. Give at least 1.")
    tips: FloatArray = stream.generator().standard_normal((leaf_count, dimension)) / np.sqrt(dimension)
    return tips


def recover_tree(features: FloatArray, leaf_count: int) -> Tree:
    """The tree with these node features (nodes, channels): leaves first, interior rows in any order.

    Tips may have any linearly independent features. Nodes of any degree are found; a root of degree two stays the
    root, other trees are rooted at taxon 0's neighbour. Every node must be the mean of its neighbours, so features
    that fit no tree are refused. Takes O(n²), the size of the features, after a least-squares solve if the tips are not
    one-hot.
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
            f"features of shape {rows.shape} for {leaf_count} taxa: give one row per node, n+1 to 2n-1 for n >= 3 taxa."
        )
    if not (np.abs(rows) < LARGEST_VALUE).all():
        raise FeatureMismatch(f"features: some values are not finite, or not below {LARGEST_VALUE:g}.")


def _tip_coefficients(rows: FloatArray, leaf_count: int, tolerance: float) -> FloatArray:
    """Every row as a combination of the tips' rows, (nodes, leaves): the features with one-hot tips."""
    tips = rows[:leaf_count]
    if tips.shape == (leaf_count, leaf_count) and (tips == np.eye(leaf_count)).all():
        return rows
    solution, _, rank, _ = np.linalg.lstsq(tips.T, rows.T, rcond=None)
    if rank < leaf_count:
        raise FeatureMismatch(
            f"features: those of the {leaf_count} tips are linearly dependent (rank {rank}), so they do not determine "
            "the tree. Embed with one-hot tips."
        )
    coefficients = np.ascontiguousarray(solution.T)
    with np.errstate(over="ignore", invalid="ignore"):
        difference = np.abs(coefficients @ tips - rows).max()
    if not difference <= tolerance * np.abs(tips).max():
        raise FeatureMismatch("features: some node is not a combination of the tips, so they fit no tree.")
    return coefficients


def _canonical(parent: IntArray, leaf_count: int) -> Tree:
    """The tree in canonical form, rooted at its node of degree two if it has one."""
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
