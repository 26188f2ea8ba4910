"""Rectangular tree layouts: x is the path length from the root, y follows the order of the leaves.

For trees with leaves 0..n-1, parents numbered above children and the root last: the `parent` of a `Tree`, (nodes,), or
that of a `TopologyBatch`, (batch, nodes). All results have the same leading axis, or none.
"""

from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, IntArray
from phloem.errors import BadArgument


class TreeLayout(NamedTuple):
    """Coordinates of nodes, each (…, nodes).

    The branch above a node runs from its parent's x to its own x, at y. A vertical line from `first` to `last` joins
    the children of a node; at a leaf both equal y.
    """

    x: FloatArray  # 0 at the root
    y: FloatArray  # a leaf's rank, 0 to n-1; an interior node is midway between its first and last child
    first: FloatArray  # y of the first child
    last: FloatArray  # y of the last child


def lay_out(
    parent: IntArray, leaf_count: int, lengths: FloatArray | None = None, order: IntArray | None = None
) -> TreeLayout:
    """Layouts of one or more trees; linear in the nodes.

    lengths: (…, nodes) or, without the root, (…, nodes - 1); nan counts as 0. Without lengths all leaves are at x = 1,
    and interior nodes are spaced by the number of levels below them. order: leaves from the first to the last, (n,) for
    all trees or (…, n); by default that of `ladder_order`.
    """
    rows = np.atleast_2d(parent)
    trees, nodes = rows.shape
    if order is None:
        order = ladder_order(parent, leaf_count)
    order = np.broadcast_to(order, (trees, leaf_count))
    if not (np.sort(order, axis=1) == np.arange(leaf_count)).all():
        raise BadArgument(f"tree layout: the order must list each of the leaves 0 to {leaf_count - 1} once.")
    if lengths is None:
        x = _level_x(rows, leaf_count)
    else:
        branches = np.atleast_2d(lengths)[:, : nodes - 1]
        if branches.shape != (trees, nodes - 1):
            raise BadArgument(
                f"tree layout: lengths of shape {lengths.shape} do not fit {trees} trees of {nodes} nodes."
            )
        x = _path_x(rows, np.nan_to_num(branches, nan=0.0))
    first, last = np.full((2, trees, nodes), np.inf)
    last[:] = -np.inf
    tree = np.arange(trees)
    first[tree[:, None], order] = last[tree[:, None], order] = np.arange(leaf_count)
    for node in range(nodes - 1):  # children come before their parents
        above, middle = rows[:, node], (first[:, node] + last[:, node]) / 2
        first[tree, above] = np.minimum(first[tree, above], middle)
        last[tree, above] = np.maximum(last[tree, above], middle)
    shape = parent.shape
    y = (first + last) / 2
    return TreeLayout(x.reshape(shape), y.reshape(shape), first.reshape(shape), last.reshape(shape))


def ladder_order(parent: IntArray, leaf_count: int) -> IntArray:
    """The leaves from the first to the last, (…, n): of sister clades the smaller one comes first.

    Of clades of the same size, the one with the lower number does.
    """
    rows = np.atleast_2d(parent)
    trees, nodes = rows.shape
    tree = np.arange(trees)
    size = np.zeros((trees, nodes), np.int32)
    size[:, :leaf_count] = 1
    for node in range(nodes - 1):
        size[tree, rows[:, node]] += size[:, node]
    before = np.zeros((trees, nodes), np.int32)  # leaves of earlier sisters, then of all earlier clades
    passed = np.zeros((trees, nodes), np.int32)
    for node in np.argsort(size[:, :-1], axis=1, kind="stable").T:  # (trees,): in each tree the next larger
        above = rows[tree, node]
        before[tree, node] = passed[tree, above]
        passed[tree, above] += size[tree, node]
    for node in reversed(range(nodes - 1)):
        before[:, node] += before[tree, rows[:, node]]
    order = np.argsort(before[:, :leaf_count], axis=1).astype(np.int32)
    return order.reshape(*parent.shape[:-1], leaf_count)


def _path_x(rows: IntArray, lengths: FloatArray) -> FloatArray:
    """From the root down: a node's x is its parent's plus the branch between."""
    tree = np.arange(len(rows))
    x = np.zeros(rows.shape)
    for node in reversed(range(rows.shape[1] - 1)):
        x[:, node] = x[tree, rows[:, node]] + lengths[:, node]
    return x


def _level_x(rows: IntArray, leaf_count: int) -> FloatArray:
    """From 0 at the root to 1 at all leaves, by the number of levels below a node."""
    tree = np.arange(len(rows))
    levels = np.zeros(rows.shape)
    for node in range(rows.shape[1] - 1):
        above = rows[:, node]
        levels[tree, above] = np.maximum(levels[tree, above], levels[:, node] + 1)
    x: FloatArray = 1 - levels / levels[:, -1:]
    return x
