"""Fitch parsimony (Fitch 1971): stepwise addition, and subtrees moved to where they cost least."""

import numpy as np

from phloem.arrays import ByteArray, FloatArray, IntArray, LongArray
from phloem.kernels.jit import at, kernel, wide_vectors
from phloem.kernels.trees.surgery import cut, graft, list_from_top, root_on_taxon_0, sibling_of

LANES = 64  # patterns that the widest vectors hold
UNKNOWN = np.uint8(15)
NONE = np.uint8(0)


@kernel
def parsimony_scores(neighbors: IntArray, states: ByteArray, weights: LongArray) -> LongArray:
    """The least number of changes, each pattern times its weight, on trees of a canonical neighbour table, (batch,).

    states (taxa, patterns) and weights (patterns,). O(taxa · patterns) a tree.
    """
    rows, short_weights = padded(states, weights, neighbors.shape[1])
    scores = np.empty(len(neighbors), np.int64)
    for tree in range(len(neighbors)):
        scores[tree] = _score(neighbors[tree], len(states), rows, short_weights)
    return scores


@kernel
def stepwise_addition(states: ByteArray, weights: LongArray, orders: IntArray, picks: FloatArray) -> IntArray:
    """Parents (batch, 2n-2) of trees to which taxa are added where the score grows least, not yet canonical.

    Tree b starts with the first three taxa of orders[b] (batch, n); the next one goes onto the best branch, and where m
    of them are equally good onto number ⌊m · pick⌋ of these, picks (batch, n-3) in [0, 1). O(n² · patterns) a tree.
    """
    batch, leaf_count = orders.shape
    nodes = 2 * leaf_count - 2
    below, short_weights = padded(states, weights, nodes)
    above, edge = np.empty_like(below), np.empty_like(below)
    parents = np.empty((batch, nodes), np.int32)
    children = np.empty((nodes, 2), np.int32)
    best = np.empty(nodes, np.int32)
    waiting = np.empty(nodes, np.int32)
    for tree in range(batch):
        order, parent = orders[tree], parents[tree]
        _start(order, parent, children, below, above, edge)
        for place in range(3, leaf_count):
            ties = _best_branches(order, place, below, edge, short_weights, best)
            branch = best[int(picks[tree, place - 3] * ties)]
            added = leaf_count + place - 2
            parent[order[place]] = added
            graft(parent, children, order[place], branch)
            _update(order[0], order[place], branch, added, parent, children, below, above, edge, waiting)
        # While it grows a tree hangs on its first taxon.
        for node in range(leaf_count, nodes):
            if parent[node] == order[0]:
                parent[node] = -1
                parent[order[0]] = node
    return parents


@kernel
def padded(states, weights, nodes):
    """The taxa's rows, with room for `nodes` of them, and weights, in whole vectors: what is added costs nothing."""
    leaf_count, patterns = states.shape
    width = (patterns + LANES - 1) // LANES * LANES
    rows = np.full((nodes, width), UNKNOWN)
    rows[:leaf_count, :patterns] = states
    short_weights = np.zeros(width, np.int32)
    short_weights[:patterns] = weights
    return rows, short_weights


@kernel
def join(row, one, other, width):
    """The join of two rows of sets; whether that is not what the row was before."""
    wide_vectors()
    changed = NONE
    for i in range(width):
        both = np.uint8(one[i] & other[i])
        joined = both if both else np.uint8(one[i] | other[i])
        changed = np.uint8(changed | (joined ^ row[i]))
        row[i] = joined
    return changed != 0


@kernel
def cost(one, other, weights, width):
    """The weight of the patterns in which two rows have no state in common."""
    wide_vectors()
    total = np.int32(0)
    for i in range(width):
        apart = np.uint8(one[i] & other[i]) == 0
        total = np.int32(total + (weights[i] if apart else np.int32(0)))
    return total


@kernel
def _score(neighbors, leaf_count, rows, weights):
    """One tree's score; the rows of its interior nodes are filled on the way to the root and to taxon 0 above it."""
    nodes, width = rows.shape
    score = 0
    for node in range(leaf_count, nodes):
        left, right = at(rows, neighbors[node, 1] * width), at(rows, neighbors[node, 2] * width)
        score += cost(left, right, at(weights, 0), width)
        join(at(rows, node * width), left, right, width)
    return score + cost(at(rows, (nodes - 1) * width), at(rows, 0), at(weights, 0), width)


@kernel
def _look_away(branch, above, sibling, rows_below, rows_above, rows_edge):
    """A branch's `above`, the join of what its parent sees above and of its sibling; whether it changed."""
    width = rows_below.shape[1]
    changed = join(at(rows_above, branch * width), above, sibling, width)
    if changed:
        _look_along(branch, rows_below, rows_above, rows_edge)
    return changed


@kernel
def _look_along(branch, below, above, edge):
    """A branch's `edge`."""
    width = below.shape[1]
    place = branch * width
    join(at(edge, place), at(below, place), at(above, place), width)


@kernel
def _start(order, parent, children, below, above, edge):
    """The tree of the first three taxa, hung on the first, with all its rows."""
    first, second, third = order[0], order[1], order[2]
    center = len(order)
    width = below.shape[1]
    children[first, 0] = center
    parent[center] = first
    parent[second] = center
    parent[third] = center
    children[center, 0] = second
    children[center, 1] = third
    join(at(below, center * width), at(below, second * width), at(below, third * width), width)
    above[center] = below[first]
    join(at(above, second * width), at(below, first * width), at(below, third * width), width)
    join(at(above, third * width), at(below, first * width), at(below, second * width), width)
    _look_along(second, below, above, edge)
    _look_along(third, below, above, edge)
    _look_along(center, below, above, edge)


@kernel
def _best_branches(order, place, below, edge, weights, best):
    """Fill `best` with the branches on which taxon order[place] costs least, and return how many there are."""
    leaf_count = len(order)
    width = below.shape[1]
    least = np.int32(2**31 - 1)
    ties = 0
    for number in range(1, 2 * place - 2):
        branch = order[number] if number < place else leaf_count + number - place
        change = cost(at(edge, branch * width), at(below, order[place] * width), at(weights, 0), width)
        if change < least:
            least = change
            ties = 0
        if change == least:
            best[ties] = branch
            ties += 1
    return ties


@kernel
def _update(first, taxon, branch, added, parent, children, below, above, edge, waiting):
    """The rows of the new branches, and of all whose rows look towards the new taxon and change."""
    width = below.shape[1]
    leaf_count = len(parent) // 2 + 1
    above[added] = above[branch]
    above[taxon] = edge[branch]
    _look_along(taxon, below, above, edge)
    below[added] = below[branch]
    changed = join(at(below, added * width), at(below, branch * width), at(below, taxon * width), width)
    _look_along(added, below, above, edge)
    count = 0  # of the nodes that wait for their children to get new rows
    if _look_away(branch, at(above, added * width), at(below, taxon * width), below, above, edge):
        waiting[count] = branch
        count += 1
    node = added
    while changed and parent[node] != first:
        top, other = parent[node], sibling_of(parent, children, node)
        if _look_away(other, at(above, top * width), at(below, node * width), below, above, edge):
            waiting[count] = other
            count += 1
        changed = join(at(below, top * width), at(below, node * width), at(below, other * width), width)
        if changed:
            _look_along(top, below, above, edge)
        node = top
    while count:
        count -= 1
        node = waiting[count]
        if node >= leaf_count:
            for column in range(2):
                child, other = children[node, column], children[node, 1 - column]
                if _look_away(child, at(above, node * width), at(below, other * width), below, above, edge):
                    waiting[count] = child
                    count += 1


@kernel
def regraft_subtrees(states: ByteArray, weights: LongArray, parent: IntArray, most_rounds: int) -> IntArray:
    """Parents (2n-2,) of a tree that no move of a subtree improves, from one with taxon 0's neighbour as the root.

    Subtrees are those without taxon 0. Of branches that are equally good the first from the top is taken. It ends after
    `most_rounds` at the latest.
    """
    nodes = len(parent)
    below, short_weights = padded(states, weights, nodes)
    above, edge = np.empty_like(below), np.empty_like(below)
    order = np.empty(nodes, np.int32)
    own = parent.copy()
    children = root_on_taxon_0(own)
    for _ in range(most_rounds):
        improved = False
        for node in range(1, nodes):
            if own[node] == 0:
                continue
            _fill_below(children, order, below)
            sibling = cut(own, children, node)
            _fill_rest(own[sibling], own, children, order, below, above, edge)
            place = _best_place(node, sibling, children, order, below, edge, short_weights)
            graft(own, children, node, place)
            improved = improved or place != sibling
        if not improved:
            break
    top = children[0, 0]
    own[0], own[top] = top, -1
    return own


@kernel
def _fill_below(children, order, below):
    """The set at every interior node, from its subtree."""
    width = below.shape[1]
    for place in range(list_from_top(children, order) - 1, -1, -1):
        node = order[place]
        if children[node, 0] >= 0:
            _fill_one(node, children, below, width)


@kernel
def _fill_one(node, children, below, width):
    left, right = at(below, children[node, 0] * width), at(below, children[node, 1] * width)
    join(at(below, node * width), left, right, width)


@kernel
def _fill_rest(changed, parent, children, order, below, above, edge):
    """All rows of the tree without the subtree; `below` has changed from one node upwards."""
    width = below.shape[1]
    while changed > 0:
        _fill_one(changed, children, below, width)
        changed = parent[changed]
    count = list_from_top(children, order)
    for place in range(count):
        node = order[place]
        top = parent[node]
        if top == 0:
            above[node] = below[0]
        else:
            sibling = sibling_of(parent, children, node)
            join(at(above, node * width), at(above, top * width), at(below, sibling * width), width)
        join(at(edge, node * width), at(below, node * width), at(above, node * width), width)
    return count


@kernel
def _best_place(node, sibling, children, order, below, edge, weights):
    """Where the subtree costs least; where it was if no branch is better."""
    width = below.shape[1]
    own, counts = at(below, node * width), at(weights, 0)
    best = sibling
    least = cost(at(edge, sibling * width), own, counts, width)
    for place in range(list_from_top(children, order)):
        other = cost(at(edge, order[place] * width), own, counts, width)
        if other < least:
            least = other
            best = order[place]
    return best
