"""Raw node features: the Dirichlet-energy minimisers of Zhang (2023), in linear time.

Tips carry given features; every interior node is the mean of its neighbours, which minimises the sum of
squared differences over the branches. With one-hot tips the features determine the topology.
"""

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray
from phloem.kernels.dirichlet import embed_binary, embed_tree, embed_trees
from phloem.random_streams import RandomStream
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree


def dirichlet_features(topologies: TopologyBatch, tips: FloatArray | None = None) -> FloatArray:
    """Features of binary trees, (batch, 2n-2, channels), with given tips (n, channels) or one-hot ones.

    O(n) row updates a tree:

    Up:    c = 1 / (deg - sum c_child),   d = c * sum d_child
    Down:  x = c * x_parent + d
    """
    if tips is None:
        return embed_binary(topologies.neighbors)
    return embed_trees(topologies.parent, _checked_tips(tips, topologies.taxon_count))


def tree_features(tree: Tree, tips: FloatArray | None = None, *, out: FloatArray | None = None) -> FloatArray:
    """Features of one tree of any degrees, (nodes, channels), with given tips (leaves, channels) or one-hot ones.

    `out` takes the result without a new allocation, which for big trees costs as much as the two passes.
    """
    tips = np.eye(tree.leaf_count) if tips is None else _checked_tips(tips, tree.leaf_count)
    shape = (len(tree.parent), tips.shape[1])
    if out is None:
        out = np.empty(shape)
    elif out.shape != shape or out.dtype != np.float64 or not (out.flags.c_contiguous and out.flags.writeable):
        raise BadArgument(f"out: a writable, contiguous float64 array of shape {shape} is needed.")
    embed_tree(tree.parent, tips, out)
    return out


def _checked_tips(tips: FloatArray, leaf_count: int) -> FloatArray:
    if tips.ndim != 2 or len(tips) != leaf_count:
        raise BadArgument(f"tip features of shape {tips.shape} for {leaf_count} leaves. Give one row a leaf.")
    return np.ascontiguousarray(tips, np.float64)


def random_tips(leaf_count: int, dimension: int, *, stream: RandomStream) -> FloatArray:
    """Independent normal tip features, (leaves, dimension): a short stand-in for one-hot tips of big trees.

    Scaled so that the inner products of two tips' features are, on average, those of one-hot tips.
    """
    if dimension < 1:
        raise BadArgument(f"tip features of dimension {dimension}. Give at least 1.")
    tips: FloatArray = stream.generator().standard_normal((leaf_count, dimension)) / np.sqrt(dimension)
    return tips
