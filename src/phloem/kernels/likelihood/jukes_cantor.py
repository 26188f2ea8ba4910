"""Log-likelihoods and all branch gradients under Jukes–Cantor, in one pass up and one down each tree.

With P = a·J + b·I (b = exp(-4t/3), a = (1-b)/4), the message of a subtree with partials p to its parent
is m = a·S + b·p, S = sum of p. Let O be the derivative of the site's log-likelihood, times the site's
weight w, with respect to m. Then sum O·m = w, and because a + b/4 = 1/4 the gradient needs neither p nor P:

    d log L / dt = -4/3 · (w - S · sum(O) / 4)

Patterns go through in blocks (see blocks.py). Messages are formed where they are used: a tip and an interior node
look the same, a row of p and S.
"""

import math

import numpy as np

from phloem.arrays import FloatArray, IntArray
from phloem.kernels.jit import at, shift, vector_kernel, wide_vectors
from phloem.kernels.likelihood.blocks import BLOCK, FOURTH, SECOND, STATES, THIRD, clear, rescale, undo_scaling

# A row is p and then S: kept together, the compiler has fewer addresses to compare before it vectorises a loop.
LAST = 4 * BLOCK
ROW = 5 * BLOCK
RATE = 4.0 / 3.0


@vector_kernel
def _join(row, left, left_change, left_stay, right, right_change, right_stay, small):
    """p = the product of two messages, and S = sum of p; returns how many sums are below `small`."""
    wide_vectors()
    tiny = 0
    for i in range(BLOCK):
        left_base = left_change * left[LAST + i]
        right_base = right_change * right[LAST + i]
        p0 = (left_base + left_stay * left[i]) * (right_base + right_stay * right[i])
        p1 = (left_base + left_stay * left[SECOND + i]) * (right_base + right_stay * right[SECOND + i])
        p2 = (left_base + left_stay * left[THIRD + i]) * (right_base + right_stay * right[THIRD + i])
        p3 = (left_base + left_stay * left[FOURTH + i]) * (right_base + right_stay * right[FOURTH + i])
        s = (p0 + p1) + (p2 + p3)
        row[i] = p0
        row[SECOND + i] = p1
        row[THIRD + i] = p2
        row[FOURTH + i] = p3
        row[LAST + i] = s
        tiny += s < small
    return tiny


@vector_kernel
def _message(message, row, change, stay):
    """m = a·S + b·p."""
    wide_vectors()
    for i in range(BLOCK):
        base = change * row[LAST + i]
        message[i] = base + stay * row[i]
        message[SECOND + i] = base + stay * row[SECOND + i]
        message[THIRD + i] = base + stay * row[THIRD + i]
        message[FOURTH + i] = base + stay * row[FOURTH + i]


@vector_kernel
def _root_sum(site, first, second, third):
    """Four times the likelihood of each pattern, from the messages of the root's children."""
    wide_vectors()
    for i in range(BLOCK):
        p0 = first[i] * second[i] * third[i]
        p1 = first[SECOND + i] * second[SECOND + i] * third[SECOND + i]
        p2 = first[THIRD + i] * second[THIRD + i] * third[THIRD + i]
        p3 = first[FOURTH + i] * second[FOURTH + i] * third[FOURTH + i]
        site[i] = (p0 + p1) + (p2 + p3)


@vector_kernel
def _weigh(down, scale, message):
    """D at the root, as one of its children sees it past another: scale · that one's message."""
    wide_vectors()
    for i in range(BLOCK):
        down[i] = scale[i] * message[i]
        down[SECOND + i] = scale[i] * message[SECOND + i]
        down[THIRD + i] = scale[i] * message[THIRD + i]
        down[FOURTH + i] = scale[i] * message[FOURTH + i]


@vector_kernel
def _descend(down, change, stay, outside):
    """D = a · sum O + b · O: the derivative with respect to the node's own partials."""
    wide_vectors()
    for i in range(BLOCK):
        o0 = outside[i]
        o1 = outside[SECOND + i]
        o2 = outside[THIRD + i]
        o3 = outside[FOURTH + i]
        base = change * ((o0 + o1) + (o2 + o3))
        down[i] = base + stay * o0
        down[SECOND + i] = base + stay * o1
        down[THIRD + i] = base + stay * o2
        down[FOURTH + i] = base + stay * o3


@vector_kernel
def _child_outside(outside, products, row, down, sibling, change, stay):
    """O = D · sibling's message, and products += S · sum O, which the gradient needs."""
    wide_vectors()
    for i in range(BLOCK):
        base = change * sibling[LAST + i]
        o0 = down[i] * (base + stay * sibling[i])
        o1 = down[SECOND + i] * (base + stay * sibling[SECOND + i])
        o2 = down[THIRD + i] * (base + stay * sibling[THIRD + i])
        o3 = down[FOURTH + i] * (base + stay * sibling[FOURTH + i])
        outside[i] = o0
        outside[SECOND + i] = o1
        outside[THIRD + i] = o2
        outside[FOURTH + i] = o3
        products[i] += row[LAST + i] * ((o0 + o1) + (o2 + o3))


@vector_kernel
def _tip_outside(products, row, down, sibling, change, stay):
    """products += S · sum O of a tip, whose O itself nobody needs."""
    wide_vectors()
    for i in range(BLOCK):
        base = change * sibling[LAST + i]
        o0 = down[i] * (base + stay * sibling[i])
        o1 = down[SECOND + i] * (base + stay * sibling[SECOND + i])
        o2 = down[THIRD + i] * (base + stay * sibling[THIRD + i])
        o3 = down[FOURTH + i] * (base + stay * sibling[FOURTH + i])
        products[i] += row[LAST + i] * ((o0 + o1) + (o2 + o3))


@vector_kernel
def _sum_block(values):
    """The sum over a block in one fixed order, with four partial sums."""
    s0, s1, s2, s3 = values[0], values[1], values[2], values[3]
    for i in range(4, BLOCK, 4):
        s0 += values[i]
        s1 += values[i + 1]
        s2 += values[i + 2]
        s3 += values[i + 3]
    return (s0 + s1) + (s2 + s3)


@vector_kernel
def _row(tips, partials, node, leaf_count):
    """A pointer to a node's p and S."""
    if node < leaf_count:
        return shift(tips, node * ROW)
    return shift(partials, (node - leaf_count) * ROW)


@vector_kernel
def _go_up(neighbors, change, stay, tips, partials, steps, scaled, small, factor):
    """Partials and sums of all interior nodes but the root for one block; whether any was rescaled."""
    nodes = len(neighbors)
    leaf_count = nodes // 2 + 1
    rescaled = False
    for node in range(leaf_count, nodes - 1):
        left, right = neighbors[node, 1], neighbors[node, 2]
        row = _row(tips, partials, node, leaf_count)
        scaled[node] = _join(
            row,
            _row(tips, partials, left, leaf_count),
            change[left],
            stay[left],
            _row(tips, partials, right, leaf_count),
            change[right],
            stay[right],
            small,
        )
        if scaled[node]:
            own_steps = at(steps, node * BLOCK)
            clear(own_steps)
            rescale(row, 4, shift(row, LAST), own_steps, small, factor)
            rescaled = True
    return rescaled


@vector_kernel
def _go_down(neighbors, change, stay, tips, partials, outside, products, down, steps, scaled, factor):
    """O of all nodes but the root's children, which have theirs, parents first."""
    nodes = len(neighbors)
    leaf_count = nodes // 2 + 1
    for node in range(nodes - 2, leaf_count - 1, -1):
        own = at(outside, node * STATES)
        if scaled[node]:
            undo_scaling(own, at(steps, node * BLOCK), factor)
        _descend(at(down, 0), change[node], stay[node], own)
        for column in range(1, 3):
            child, sibling = neighbors[node, column], neighbors[node, 3 - column]
            sums = at(products, child * BLOCK)
            row = _row(tips, partials, child, leaf_count)
            other = _row(tips, partials, sibling, leaf_count)
            if child < leaf_count:
                _tip_outside(sums, row, at(down, 0), other, change[sibling], stay[sibling])
            else:
                place = at(outside, child * STATES)
                _child_outside(place, sums, row, at(down, 0), other, change[sibling], stay[sibling])


@vector_kernel
def _down_from_root(
    neighbors, change, stay, tips, partials, messages, scale, outside, products, down, steps, scaled, factor
):
    """O of the root's children, scale · the messages of the two others, and then of all nodes."""
    root = len(neighbors) - 1
    leaf_count = len(neighbors) // 2 + 1
    for column in range(3):
        child, second, third = neighbors[root, column], (column + 1) % 3, neighbors[root, (column + 2) % 3]
        _weigh(at(down, 0), at(scale, 0), at(messages, second * STATES))
        _child_outside(
            at(outside, child * STATES),
            at(products, child * BLOCK),
            _row(tips, partials, child, leaf_count),
            at(down, 0),
            _row(tips, partials, third, leaf_count),
            change[third],
            stay[third],
        )
    _go_down(neighbors, change, stay, tips, partials, outside, products, down, steps, scaled, factor)


@vector_kernel
def evaluate_chunks(
    first_task: int,
    last_task: int,
    neighbors: IntArray,
    lengths: FloatArray,
    tips: FloatArray,
    weights: FloatArray,
    rescaling: FloatArray,
    blocks_per_chunk: int,
    site_values: FloatArray,
    gradients: FloatArray,
) -> None:
    """Site log-likelihoods (trees, blocks, BLOCK) and gradients (trees, chunks, 2n-3), each chunk of blocks its share.

    tips (blocks, n, 5, BLOCK), each tip's p and S, in the precision in which to work; weights (blocks, BLOCK);
    rescaling is (small, factor). No gradients are computed where `gradients` has no columns. Task
    tree · chunks + chunk writes to places that no other task writes to, so tasks can run in parallel. The size of
    a chunk does not depend on the number of threads, so that sums have one order.
    """
    wide_vectors()
    nodes = neighbors.shape[1]
    blocks = len(tips)
    chunks = (blocks + blocks_per_chunk - 1) // blocks_per_chunk
    leaf_count = nodes // 2 + 1
    small, factor = rescaling[0], rescaling[1]
    log_factor = math.log(factor)
    change = np.empty(nodes, tips.dtype)
    stay = np.empty(nodes, tips.dtype)
    interior = np.empty((nodes - leaf_count, ROW), tips.dtype)
    outside = np.empty((nodes, STATES), tips.dtype)
    products = np.empty((nodes, BLOCK), tips.dtype)
    messages = np.empty((3, STATES), tips.dtype)
    down = np.empty(STATES, tips.dtype)
    site = np.empty(BLOCK, tips.dtype)
    scale = np.empty(BLOCK, tips.dtype)
    steps = np.zeros((nodes, BLOCK), np.int64)
    scaled = np.zeros(nodes, np.int64)
    for task in range(first_task, last_task):
        tree, chunk = task // chunks, task % chunks
        table = neighbors[tree]
        for node in range(nodes - 1):
            exponent = -RATE * lengths[tree, node]
            stay[node] = math.exp(exponent)
            change[node] = -0.25 * math.expm1(exponent)
        products[:] = 0.0
        used = 0.0
        for block in range(chunk * blocks_per_chunk, min((chunk + 1) * blocks_per_chunk, blocks)):
            # Pointers are taken anew for each block: numba frees an array after the last use of its name.
            own_tips, partials = at(tips, block * leaf_count * ROW), at(interior, 0)
            rescaled = _go_up(table, change, stay, own_tips, partials, steps, scaled, small, factor)
            for column in range(3):
                child = table[nodes - 1, column]
                row = _row(own_tips, partials, child, leaf_count)
                _message(at(messages, column * STATES), row, change[child], stay[child])
            _root_sum(at(site, 0), at(messages, 0), at(messages, STATES), at(messages, 2 * STATES))
            for i in range(BLOCK):
                likelihood = 0.25 * np.float64(site[i])
                site_values[tree, block, i] = math.log(likelihood)
                scale[i] = 0.0
                if likelihood > 0.0:
                    scale[i] = 0.25 * weights[block, i] / likelihood
                    used += weights[block, i]
            if rescaled:
                for node in range(leaf_count, nodes - 1):
                    if scaled[node]:
                        for i in range(BLOCK):
                            site_values[tree, block, i] -= steps[node, i] * log_factor
            if gradients.shape[2] > 0:
                _down_from_root(
                    table,
                    change,
                    stay,
                    own_tips,
                    partials,
                    messages,
                    scale,
                    outside,
                    products,
                    down,
                    steps,
                    scaled,
                    factor,
                )
        for node in range(gradients.shape[2]):
            gradients[tree, chunk, node] = -RATE * (used - 0.25 * _sum_block(at(products, node * BLOCK)))
