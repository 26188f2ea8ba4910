"""All branch lengths of one tree, one branch after the other, in passes over the tree."""

from phloem.kernels.arrays import FloatArray
from phloem.kernels.branch_fit import best_length, fill_terms, log_likelihood
from phloem.kernels.jit import vector_kernel
from phloem.kernels.jukes_cantor import BLOCK, STATES
from phloem.kernels.partials import (
    PatternTables,
    RateTables,
    TreeTables,
    fill_above,
    fill_all_above,
    fill_all_below,
    fill_below,
    fill_matrices,
)
from phloem.kernels.pointers import at


@vector_kernel
def _fill_branch_terms(tree, rates, patterns, terms, node):
    """The coefficients of the branch above a node."""
    blocks, categories = tree.below.shape[1], tree.below.shape[2]
    size, width = blocks * categories * STATES, blocks * BLOCK
    fill_terms(
        terms,
        rates,
        patterns,
        categories,
        at(tree.below, node * size),
        at(tree.below_steps, node * width),
        at(tree.above, node * size),
        at(tree.above_steps, node * width),
    )


@vector_kernel
def _fit_branch(tree, rates, patterns, terms, node, tolerance):
    _fill_branch_terms(tree, rates, patterns, terms, node)
    tree.lengths[node] = best_length(terms, rates.terms, patterns.weights, tree.lengths[node], tolerance)
    fill_matrices(tree.matrices[node], rates, tree.lengths[node])


@vector_kernel
def _pass_over(tree, rates, patterns, terms, tolerance):
    """Fit every branch on the way down, and renew `below` on the way up; `above` is out of date afterwards.

    tree.order is the path from the top, tree.places how many children of each of its nodes have been visited.
    """
    depth = 0
    tree.order[0] = tree.children[0, 0]
    tree.places[0] = 0
    while depth >= 0:
        node = tree.order[depth]
        seen = tree.places[depth]
        if seen == 0:
            fill_above(tree, rates.equal, node)
            _fit_branch(tree, rates, patterns, terms, node, tolerance)
        if tree.children[node, 0] < 0:
            depth -= 1
        elif seen < 2:
            tree.places[depth] = seen + 1
            depth += 1
            tree.order[depth] = tree.children[node, seen]
            tree.places[depth] = 0
        else:
            fill_below(tree, rates.equal, node)
            depth -= 1


@vector_kernel
def tree_log_likelihood(
    tree: TreeTables, rates: RateTables, patterns: PatternTables, terms: FloatArray, sites: FloatArray
) -> float:
    """The log-likelihood, from `below` and taxon 0's branch; each pattern's own goes to `sites`."""
    top = tree.children[0, 0]
    width = tree.below.shape[1] * BLOCK
    _fill_branch_terms(tree, rates, patterns, terms, top)
    return log_likelihood(
        terms,
        rates.terms,
        patterns.weights,
        tree.lengths[top],
        at(tree.below_steps, top * width),
        at(tree.above_steps, top * width),
        sites,
    )


@vector_kernel
def smooth(
    tree: TreeTables,
    rates: RateTables,
    patterns: PatternTables,
    terms: FloatArray,
    sites: FloatArray,
    passes: int,
    tolerance: float,
) -> float:
    """At most so many passes, until one gains less than `tolerance`; the log-likelihood, with all partials in place."""
    fill_all_below(tree, rates)
    top = tree.children[0, 0]
    tree.above[top] = tree.below[0]
    tree.above_steps[top] = tree.below_steps[0]
    value = tree_log_likelihood(tree, rates, patterns, terms, sites)
    for _ in range(passes):
        _pass_over(tree, rates, patterns, terms, 0.01 * tolerance)
        before = value
        value = tree_log_likelihood(tree, rates, patterns, terms, sites)
        if value - before < tolerance:
            break
    fill_all_above(tree, rates)
    return value
