"""Subtrees cut off and put elsewhere: the likelihood of every such move of one tree, with one branch fitted.

The subtree of `node` hangs on `joint`, which goes with it; the joint's other child takes its place, with one branch for
two. On another branch the joint stands in the middle, and only the branch that carries the subtree is fitted: a rough
score, but of most trees that lie so close. Subtrees are those without taxon 0, on which the tree hangs.
"""

import numpy as np

from phloem.kernels.arrays import FloatArray, IntArray
from phloem.kernels.branch_fit import best_length, fill_terms, log_likelihood
from phloem.kernels.jit import vector_kernel
from phloem.kernels.jukes_cantor import BLOCK, STATES
from phloem.kernels.partials import (
    MATRIX,
    PatternTables,
    RateTables,
    TreeTables,
    fill_all_above,
    fill_all_below,
    fill_below,
    fill_matrices,
    join,
    list_from_top,
    sibling_of,
)
from phloem.kernels.pointers import at


@vector_kernel
def cut(tree: TreeTables, node: int) -> int:
    """Take a subtree and its joint out; the joint's other child, which is returned, takes their place."""
    joint, sibling = tree.parent[node], sibling_of(tree, node)
    top = tree.parent[joint]
    tree.parent[sibling] = top
    tree.children[top, 0 if tree.children[top, 0] == joint else 1] = sibling
    tree.lengths[sibling] += tree.lengths[joint]
    return sibling


@vector_kernel
def graft(tree: TreeTables, node: int, place: int) -> None:
    """Put a subtree that was cut off, with its joint, into the middle of the branch above `place`."""
    joint, top = tree.parent[node], tree.parent[place]
    tree.parent[joint], tree.parent[place] = top, joint
    tree.children[top, 0 if tree.children[top, 0] == place else 1] = joint
    tree.children[joint, 0], tree.children[joint, 1] = place, node
    tree.lengths[place] *= 0.5
    tree.lengths[joint] = tree.lengths[place]


@vector_kernel
def score_regrafts(
    tree: TreeTables,
    rates: RateTables,
    patterns: PatternTables,
    terms: FloatArray,
    node: int,
    tolerance: float,
    sites: FloatArray,
) -> tuple[IntArray, FloatArray]:
    """The branches on which the subtree of a node, neither taxon 0 nor its neighbour, could hang, and what they score.

    The tree comes back as it was, but for its partials.
    """
    blocks, categories = tree.below.shape[1], tree.below.shape[2]
    size, width = blocks * categories * STATES, blocks * BLOCK
    parent, children, lengths = tree.parent.copy(), tree.children.copy(), tree.lengths.copy()
    fill_all_below(tree, rates)
    sibling = cut(tree, node)
    fill_matrices(tree.matrices[sibling], rates, tree.lengths[sibling])
    changed = tree.parent[sibling]
    while changed > 0:
        fill_below(tree, rates.equal, changed)
        changed = tree.parent[changed]
    fill_all_above(tree, rates)
    middle = np.empty((blocks, categories, 4, BLOCK))
    steps = np.empty((blocks, BLOCK), np.int32)
    half = np.empty((categories, MATRIX))
    count = list_from_top(tree)
    places = tree.order[:count].copy()
    values = np.empty(count)
    for number in range(count):
        place = places[number]
        fill_matrices(half, rates, 0.5 * tree.lengths[place])
        join(
            rates.equal,
            blocks,
            categories,
            at(middle, 0),
            at(steps, 0),
            at(tree.below, place * size),
            at(tree.below_steps, place * width),
            at(half, 0),
            at(tree.above, place * size),
            at(tree.above_steps, place * width),
            at(half, 0),
        )
        x, x_steps = at(tree.below, node * size), at(tree.below_steps, node * width)
        fill_terms(terms, rates, patterns, categories, x, x_steps, at(middle, 0), at(steps, 0))
        length = best_length(terms, rates.terms, patterns.weights, tree.lengths[node], tolerance)
        values[number] = log_likelihood(terms, rates.terms, patterns.weights, length, x_steps, at(steps, 0), sites)
    tree.parent[:] = parent
    tree.children[:] = children
    tree.lengths[:] = lengths
    return places[places != sibling], values[places != sibling]
