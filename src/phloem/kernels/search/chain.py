"""A Markov chain over trees with branch lengths. Every move leaves the posterior as it is.

The chain walks around the tree, along every branch down and up again. As the tree changes under its feet, where it is
must be part of the state: with the children of every node in an order, "the next place on the way around the tree" maps
places one to one, so a step leaves the uniform distribution over places, and with it the posterior, as it is. What the
walk saves is likelihoods: a step needs one join, however large the tree.

On its way down an inner branch the chain chooses among the three topologies that differ by an interchange across it, by
their likelihoods with all lengths kept. Then the length of the branch, inner or not, is multiplied by random factors,
and Metropolis and Hastings decide.

A regraft cuts off a random subtree and puts it back onto *any* branch of the rest. One place is drawn on each of them,
uniformly, but on the branch that it was on it is the old one; their weights are likelihood · length of the branch. The
lengths above and below the new joint add up to the branch's, so that the prior is the same everywhere.

A branch can be a constraint, whose split every tree has. No interchange goes across it. A subtree is regrafted within
the part of the tree around its joint, cut at constraints: onto this side of them, but not beyond. All trees that
one of these moves can reach from each other have the same choice of places, so that what is said above holds for them.

Topologies are equally probable a priori, and the lengths' density depends on their sum T alone, up to a longest
length: log p = -rate · T - power · log T. Likelihoods are in single precision, as in a search:
their rounding is far below what any sample could show.
"""

import math
from typing import NamedTuple

import numpy as np

from phloem.arrays import BoolArray, FloatArray, IntArray, LongArray, WordArray
from phloem.kernels.jit import vector_kernel
from phloem.kernels.philox import UNIT, block
from phloem.kernels.search.branch import (
    LANES,
    LONGEST,
    SHORTEST,
    BranchTables,
    PatternTables,
    RateTables,
    fill_matrices,
    fill_terms,
    log_likelihood,
)
from phloem.kernels.search.moves import LOWER, UPPER, join_pair, scratch_end, take_out
from phloem.kernels.search.partials import (
    TreeTables,
    end_above,
    end_below,
    fill_above,
    fill_all_above,
    fill_all_below,
    fill_below,
    join,
    matrices_at,
)
from phloem.kernels.trees.surgery import graft, list_from_top, sibling_of

NARROW, WIDE = 0.8, 4.0  # ranges of the logarithms of factors


class ChainTables(NamedTuple):
    """What a chain is beside its tree."""

    rate: float  # of the lengths' prior
    power: float
    longest: float
    total: FloatArray  # (1,)  T
    key: WordArray  # (2,)  of its random numbers
    counter: LongArray  # (2,)  how many it has drawn, and its own number
    place: LongArray  # (2,)  node, and where the walk came there from: 0 from above, 1 or 2 from a child
    changes: LongArray  # (2,)  how many interchanges there were, and how many regrafts
    constrained: BoolArray  # (nodes,)  whether the branch above each node is a constraint
    sites: FloatArray  # (width,)  scratch


@vector_kernel
def _uniform(chain):
    """A number in [0, 1)."""
    chain.counter[0] += 1
    word = block(chain.key, chain.counter[0], chain.counter[1], 0)[0]
    return (word >> np.uint64(11)) * UNIT


@vector_kernel
def _choose(chain, log_weights):
    """A place in an array, with the probabilities that its logarithms say."""
    highest = log_weights.max()
    total = 0.0
    for place in range(len(log_weights)):
        total += math.exp(log_weights[place] - highest)
    left = _uniform(chain) * total
    for place in range(len(log_weights)):
        left -= math.exp(log_weights[place] - highest)
        if left < 0:
            return place
    return int(log_weights.argmax())


@vector_kernel
def _visit(tree, rates, patterns, branch, chain, room, counts, matrices, node):
    """Choose a topology around the branch above a node, then its length; whether the topology is another one."""
    categories, length = tree.below.shape[2], tree.lengths[node]
    is_inner = tree.children[node, 0] >= 0 and tree.parent[node] > 0 and not chain.constrained[node]
    values = np.full(3, -np.inf)  # with each of the two children moved, and as it is
    if is_inner:
        sibling, above = sibling_of(tree.parent, tree.children, node), tree.parent[node]
        for which in range(2):
            moved, kept = tree.children[node, which], tree.children[node, 1 - which]
            matrices[1], matrices[2] = tree.matrices[sibling], tree.matrices[kept]
            matrices[3], matrices[4] = tree.matrices[moved], tree.matrices[above]
            ends = end_below(tree, sibling), end_below(tree, kept), end_below(tree, moved), end_above(tree, above)
            for row in range(2):
                join_pair(rates.equal, tree.parts, tree.bounds, room, counts, row, ends, matrices)
            lower, upper = scratch_end(room, counts, LOWER), scratch_end(room, counts, UPPER)
            fill_terms(branch, rates, patterns, categories, lower, upper)
            values[which] = log_likelihood(branch, rates.terms, patterns.weights, length, chain.sites)
    fill_terms(branch, rates, patterns, categories, end_below(tree, node), end_above(tree, node))
    values[2] = log_likelihood(branch, rates.terms, patterns.weights, length, chain.sites)
    chosen = _choose(chain, values) if is_inner else 2
    if chosen < 2:
        _interchange(tree, node, chosen)
        fill_below(tree, rates.equal, node)
        fill_above(tree, rates.equal, node)
        fill_terms(branch, rates, patterns, categories, end_below(tree, node), end_above(tree, node))
    tree.lengths[node] = _multiplied(rates, patterns, branch, chain, length, values[chosen])
    fill_matrices(tree.matrices[node], rates, tree.lengths[node])
    return chosen < 2


@vector_kernel
def _interchange(tree, node, which):
    """A child of a node and the node's sibling change places."""
    moved, sibling, above = tree.children[node, which], sibling_of(tree.parent, tree.children, node), tree.parent[node]
    tree.children[above, 1 if tree.children[above, 1] == sibling else 0], tree.parent[moved] = moved, above
    tree.children[node, which], tree.parent[sibling] = sibling, node


@vector_kernel
def _multiplied(rates, patterns, branch, chain, length, value):
    """A length after two random factors, one of a wide range and one of a narrow, each accepted or not.

    value: the log-likelihood with the length as it is.
    """
    for time in range(2):
        log_factor = (WIDE if time == 0 else NARROW) * (_uniform(chain) - 0.5)
        chance, other = _uniform(chain), length * math.exp(log_factor)
        if other < SHORTEST or other > min(LONGEST, chain.longest):
            continue
        there = log_likelihood(branch, rates.terms, patterns.weights, other, chain.sites)
        total = chain.total[0] + other - length
        gain = there - value - chain.rate * (other - length) - chain.power * math.log(total / chain.total[0])
        if math.log1p(-chance) < gain + log_factor:
            length, value, chain.total[0] = other, there, total
    return length


@vector_kernel
def _step(tree, rates, chain):
    """Go to the next place around the tree, with the partials that are needed there."""
    node, side = chain.place[0], chain.place[1]
    if node > 0 and tree.children[node, 0] >= 0 and side < 2:
        below = tree.children[node, side]
    elif node == 0:
        below = tree.children[0, 0]
    else:
        if tree.children[node, 0] >= 0:
            fill_below(tree, rates.equal, node)
        above = tree.parent[node]
        chain.place[0], chain.place[1] = above, 1 if tree.children[above, 0] == node else 2
        return
    fill_above(tree, rates.equal, below)
    chain.place[0], chain.place[1] = below, 0


@vector_kernel
def _walk_around(tree, rates, patterns, branch, chain, room, counts, matrices):
    """Once around the tree; the number of interchanges."""
    changes = 0
    chain.total[0] = tree.lengths[1:].sum()
    for _ in range(2 * (len(tree.parent) - 1)):
        _step(tree, rates, chain)
        if chain.place[1] == 0:
            changes += _visit(tree, rates, patterns, branch, chain, room, counts, matrices, chain.place[0])
    return changes


@vector_kernel
def _regraft(tree, rates, patterns, branch, chain, room, counts, matrices):
    """Cut off a random subtree and draw a new place for it among all; whether the topology is another one.

    Where only the lengths of the joint's branches change, the topology does not. All partials are up to date again.
    """
    node = 1 + int(_uniform(chain) * (len(tree.parent) - 1))
    joint = tree.parent[node]
    if joint == 0:
        return False
    categories = tree.below.shape[2]
    old_length = tree.lengths[sibling_of(tree.parent, tree.children, node)]
    sibling = take_out(tree, rates, node)
    count = list_from_top(tree.children, tree.order)
    can_take = _places_within(tree, chain.constrained, count, sibling, joint)
    shares, log_weights = np.empty(count), np.empty(count)
    for number in range(count):
        place, length = tree.order[number], tree.lengths[tree.order[number]]
        shares[number] = old_length / length if place == sibling else _uniform(chain)
        # Elsewhere, the branch that it was on would be whole again.
        if place != sibling and not (can_take[place] and tree.lengths[sibling] <= chain.longest):
            log_weights[number] = -math.inf
            continue
        fill_matrices(matrices[0], rates, shares[number] * length)
        fill_matrices(matrices[1], rates, (1 - shares[number]) * length)
        low, high, middle = end_below(tree, place), end_above(tree, place), scratch_end(room, counts, 0)
        to_low, to_high = matrices_at(matrices, 0), matrices_at(matrices, 1)
        join(rates.equal, tree.parts, tree.bounds, categories, middle, low, to_low, high, to_high)
        fill_terms(branch, rates, patterns, categories, end_below(tree, node), middle)
        value = log_likelihood(branch, rates.terms, patterns.weights, tree.lengths[node], chain.sites)
        log_weights[number] = value + math.log(length)
    chosen = _choose(chain, log_weights)
    place, share, length = tree.order[chosen], shares[chosen], tree.lengths[tree.order[chosen]]
    if place != sibling:
        _move_joint(tree, chain.constrained, sibling, joint, place, can_take[place])
    graft(tree.parent, tree.children, node, place)
    if _uniform(chain) < 0.5:  # the order of children is random too
        tree.children[joint, 0], tree.children[joint, 1] = node, place
    tree.lengths[place], tree.lengths[joint] = share * length, (1 - share) * length
    fill_all_below(tree, rates)
    fill_all_above(tree, rates)
    return place != sibling


@vector_kernel
def _places_within(tree, constrained, count, sibling, joint):
    """Which branches, by the nodes below them, can take a subtree that is cut off, beside the one that it was on.

    1 where it gets below a constraint on the branch, 2 where it gets above, 0 where it cannot go. A joint between two
    constraints has to stay.
    """
    can_take = np.zeros(len(constrained), np.int8)
    if constrained[sibling] and constrained[joint]:
        return can_take
    part = np.zeros(len(constrained), np.int32)  # the highest node that is reached without crossing a constraint
    is_merged = constrained[sibling] or constrained[joint]
    for number in range(count):
        node = tree.order[number]
        is_cut = is_merged if node == sibling else constrained[node]
        part[node] = node if is_cut else part[tree.parent[node]]
    own = part[tree.parent[sibling]] if constrained[sibling] else part[sibling]
    for number in range(count):
        node = tree.order[number]
        if part[tree.parent[node]] == own:
            can_take[node] = 2
        elif part[node] == own:
            can_take[node] = 1
    return can_take


@vector_kernel
def _move_joint(tree, constrained, sibling, joint, place, side):
    """Say which branches are constraints once a joint leaves two, which become one, for another that it divides.

    side: as in `can_take`.
    """
    constrained[sibling] |= constrained[joint]
    constrained[joint] = constrained[place] and side == 1
    if constrained[joint]:
        constrained[place] = False


@vector_kernel
def run_chain(
    tree: TreeTables,
    rates: RateTables,
    patterns: PatternTables,
    branch: BranchTables,
    chain: ChainTables,
    rounds: int,
    regrafts: int,
    parents: IntArray,
    lengths: FloatArray,
) -> None:
    """Fill the rows of `parents` and `lengths`, (trees, nodes), with the chain's trees after every so many rounds.

    A round is once around the tree, and some regrafts.
    """
    blocks, categories = tree.below.shape[1], tree.below.shape[2]
    room = np.empty((2, blocks, categories, 4, LANES), np.float32)
    counts = np.empty((2, blocks, LANES), np.int32)
    matrices = np.empty((5, *tree.matrices.shape[1:]), np.float32)
    fill_all_below(tree, rates)
    fill_all_above(tree, rates)
    for row in range(len(parents)):
        for _ in range(rounds):
            chain.changes[0] += _walk_around(tree, rates, patterns, branch, chain, room, counts, matrices)
            for _ in range(regrafts):
                chain.changes[1] += _regraft(tree, rates, patterns, branch, chain, room, counts, matrices)
        parents[row] = tree.parent
        lengths[row] = tree.lengths
