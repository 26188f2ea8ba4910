"""Fitch parsimony (Fitch 1971) on sets of states: scores, trees by stepwise addition, and subtrees moved in them.

A set has a bit for each state. Two subtrees with sets a and b are joined with the set a ∩ b or, where that is
empty, with a ∪ b and one more change. Every branch keeps three rows of sets: `below` and `above` are those of the two
subtrees that it joins, `edge` is the join of both, the set that a node in its middle would have. Attaching a taxon or
subtree with set t to the branch costs one change where edge ∩ t is empty, so testing a branch is one loop over the
patterns. An addition changes only the sets that look towards it, and the walk that updates them ends where a row
stays as it was.
"""

import numpy as np

from phloem.arrays import ByteArray, FloatArray, IntArray, LongArray
from phloem.kernels.jit import at, kernel, wide_vectors
from phloem.kernels.trees.surgery import cut, graft, list_from_top, root_on_taxon_0, sibling_of

LANES = 64  # patterns in the widest vectors
UNKNOWN = np.uint8(15)  # any of the four states
NONE = np.uint8(0)


@kernel
def padded(states, weights, nodes):
    """The taxa's rows, with room for `nodes` of them, and weights, padded to whole vectors at no cost in the score."""
    leaf_count, patterns = states.shape
    width = (patterns + LANES - 1) // LANES * LANES
    rows = np.full((nodes, width), UNKNOWN)
    rows[:leaf_count, :patterns] = states
    short_weights = np.zeros(width, np.int32)
    short_weights[:patterns] = weights
    return rows, short_weights


@kernel
def join(row, one, other, width):
    """Write the join of two rows of sets; returns whether the row changed."""
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
def stepwise_addition(states: ByteArray, weights: LongArray, orders: IntArray, picks: FloatArray) -> IntArray:
    """Parents (batch, 2n-2) of trees grown by adding each taxon where the score grows least, not yet canonical.

    Tree b starts with the first three taxa of orders[b] (batch, n). Every further taxon goes onto the best branch; of m
    equally good ones onto number ⌊m · pick⌋, picks (batch, n-3) in [0, 1). O(n² · patterns) a tree.
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
        # A growing tree is rooted on its first taxon.
        for node in range(leaf_count, nodes):
            if parent[node] == order[0]:
                parent[node] = -1
                parent[order[0]] = node
    return parents


@kernel
def _start(order, parent, children, below, above, edge):
    """The tree of the first three taxa, rooted on the first, with all its rows."""
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
    """Fill `best` with the branches where taxon order[place] costs least, and return how many there are."""
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
    count = 0  # nodes whose children have yet to be updated
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
def _look_away(branch, above, sibling, rows_below, rows_above, rows_edge):
    """Update a branch's `above`, the join of its parent's and its sibling's sets; returns whether it changed."""
    width = rows_below.shape[1]
    changed = join(at(rows_above, branch * width), above, sibling, width)
    if changed:
        _look_along(branch, rows_below, rows_above, rows_edge)
    return changed


@kernel
def _look_along(branch, below, above, edge):
    """Update a branch's `edge`."""
    width = below.shape[1]
    place = branch * width
    join(at(edge, place), at(below, place), at(above, place), width)


@kernel
def regraft_subtrees(states: ByteArray, weights: LongArray, parent: IntArray, most_rounds: int) -> IntArray:
    """Parents (2n-2,) of a tree that no move of a subtree improves, from a tree whose root is taxon 0's neighbour.

    Every subtree without taxon 0 is cut off in turn and goes back where it costs least, to the first such branch from
    the top, in at most `most_rounds` rounds over all subtrees. O(n² · patterns) a round.
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
    """`below` of every interior node."""
    width = below.shape[1]
    for place in range(list_from_top(children, order) - 1, -1, -1):
        node = order[place]
        if children[node, 0] >= 0:
            _fill_one(node, children, below, width)


@kernel
def _fill_one(node, children, below, width):
    """`below` of one node from its children."""
    left, right = at(below, children[node, 0] * width), at(below, children[node, 1] * width)
    join(at(below, node * width), left, right, width)


@kernel
def _fill_rest(changed, parent, children, order, below, above, edge):
    """All rows of the tree without the subtree, whose removal changes `below` from node `changed` upwards."""
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
    """The branch where the subtree costs least; its old place if none is better."""
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
