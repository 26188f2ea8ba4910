"""Log-likelihoods and all branch gradients under Jukes–Cantor, in one pass up and one down each tree.

With P = a·J + b·I (b = exp(-4t/3), a = (1-b)/4), the message of a subtree with partials p to its parent
is m = a·S + b·p, S = sum of p. Let O be the derivative of the site's log-likelihood, times the site's
weight w, with respect to m. Then sum O·m = w, and because a + b/4 = 1/4 the gradient needs neither p nor P:

    d log L / dt = -4/3 · (w - S · sum(O) / 4)

Patterns go through in blocks of `BLOCK`, laid out (node, state, pattern), so that a block's messages stay
in cache and every loop is vector code. Tips are normalised (S = 1); what that takes from the likelihood
is the caller's to add. Where a sum becomes small the pattern is multiplied by a power of two, node by node,
so that no number of taxa underflows.
"""

import math

import numpy as np

from phloem.kernels.arrays import FloatArray, IntArray
from phloem.kernels.jit import vector_kernel
from phloem.kernels.pointers import at

BLOCK = 32  # patterns
ROW = 4 * BLOCK
SECOND, THIRD, FOURTH = BLOCK, 2 * BLOCK, 3 * BLOCK
RATE = 4.0 / 3.0


@vector_kernel
def _tip_message(message, change, stay, tip):
    """m = a + b·p, as a tip's partials sum to one."""
    for place in range(ROW):
        message[place] = change + stay * tip[place]


@vector_kernel
def _join(message, total, change, stay, left, right, small):
    """p = left · right, S = sum of p, m = a·S + b·p; returns how many sums are below `small`."""
    tiny = 0
    for i in range(BLOCK):
        p0 = left[i] * right[i]
        p1 = left[SECOND + i] * right[SECOND + i]
        p2 = left[THIRD + i] * right[THIRD + i]
        p3 = left[FOURTH + i] * right[FOURTH + i]
        s = (p0 + p1) + (p2 + p3)
        base = change * s
        total[i] = s
        message[i] = base + stay * p0
        message[SECOND + i] = base + stay * p1
        message[THIRD + i] = base + stay * p2
        message[FOURTH + i] = base + stay * p3
        tiny += s < small
    return tiny


@vector_kernel
def _rescale(message, total, steps, small, factor):
    """Multiply each pattern whose sum is small, but not zero, until it is not; count the steps."""
    for i in range(BLOCK):
        steps[i] = 0
        while total[i] > 0 and total[i] < small:
            total[i] *= factor
            message[i] *= factor
            message[SECOND + i] *= factor
            message[THIRD + i] *= factor
            message[FOURTH + i] *= factor
            steps[i] += 1


@vector_kernel
def _root_sum(site, first, second, third):
    """Four times the likelihood of each pattern."""
    for i in range(BLOCK):
        p0 = first[i] * second[i] * third[i]
        p1 = first[SECOND + i] * second[SECOND + i] * third[SECOND + i]
        p2 = first[THIRD + i] * second[THIRD + i] * third[THIRD + i]
        p3 = first[FOURTH + i] * second[FOURTH + i] * third[FOURTH + i]
        site[i] = (p0 + p1) + (p2 + p3)


@vector_kernel
def _weigh(down, scale, message):
    """D at the root, as one of its children sees it past another: scale · that one's message."""
    for i in range(BLOCK):
        down[i] = scale[i] * message[i]
        down[SECOND + i] = scale[i] * message[SECOND + i]
        down[THIRD + i] = scale[i] * message[THIRD + i]
        down[FOURTH + i] = scale[i] * message[FOURTH + i]


@vector_kernel
def _descend(down, change, stay, outside):
    """D = a · sum O + b · O: the derivative with respect to the node's own partials."""
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
def _child_outside(outside, product, total, down, sibling):
    """O = D · sibling's message, and S · sum O, which the gradient needs."""
    for i in range(BLOCK):
        o0 = down[i] * sibling[i]
        o1 = down[SECOND + i] * sibling[SECOND + i]
        o2 = down[THIRD + i] * sibling[THIRD + i]
        o3 = down[FOURTH + i] * sibling[FOURTH + i]
        outside[i] = o0
        outside[SECOND + i] = o1
        outside[THIRD + i] = o2
        outside[FOURTH + i] = o3
        product[i] = total[i] * ((o0 + o1) + (o2 + o3))


@vector_kernel
def _tip_outside(product, down, sibling):
    """sum O of a tip, whose O itself nobody needs."""
    for i in range(BLOCK):
        product[i] = (down[i] * sibling[i] + down[SECOND + i] * sibling[SECOND + i]) + (
            down[THIRD + i] * sibling[THIRD + i] + down[FOURTH + i] * sibling[FOURTH + i]
        )


@vector_kernel
def _undo_scaling(outside, steps, factor):
    """What was multiplied on the way up is multiplied on the way down."""
    for i in range(BLOCK):
        for _ in range(steps[i]):
            outside[i] *= factor
            outside[SECOND + i] *= factor
            outside[THIRD + i] *= factor
            outside[FOURTH + i] *= factor


@vector_kernel
def _sum_block(values):
    """The sum of a row in one fixed order, with four partial sums."""
    s0, s1, s2, s3 = values[0], values[1], values[2], values[3]
    for i in range(4, BLOCK, 4):
        s0 += values[i]
        s1 += values[i + 1]
        s2 += values[i + 2]
        s3 += values[i + 3]
    return (s0 + s1) + (s2 + s3)


@vector_kernel
def _climb(neighbors, change, stay, tips, message, total, steps, scaled, small, factor):
    """Messages and sums of all nodes below the root for one block, children first; whether any was rescaled."""
    nodes = len(neighbors)
    leaf_count = nodes // 2 + 1
    rescaled = False
    for node in range(leaf_count):
        _tip_message(at(message, node * ROW), change[node], stay[node], at(tips, node * ROW))
    for node in range(leaf_count, nodes - 1):
        left, right = at(message, neighbors[node, 1] * ROW), at(message, neighbors[node, 2] * ROW)
        own, own_total = at(message, node * ROW), at(total, node * BLOCK)
        scaled[node] = _join(own, own_total, change[node], stay[node], left, right, small)
        if scaled[node]:
            _rescale(own, own_total, at(steps, node * BLOCK), small, factor)
            rescaled = True
    return rescaled


@vector_kernel
def _go_down(neighbors, change, stay, message, total, outside, down, product, steps, scaled, factor):
    """O of all nodes but the root's children, parents first, and the products that the gradients need."""
    nodes = len(neighbors)
    leaf_count = nodes // 2 + 1
    for node in range(nodes - 2, leaf_count - 1, -1):
        own = at(outside, node * ROW)
        if scaled[node]:
            _undo_scaling(own, at(steps, node * BLOCK), factor)
        _descend(at(down, 0), change[node], stay[node], own)
        for column in range(1, 3):
            child, sibling = neighbors[node, column], neighbors[node, 3 - column]
            if child < leaf_count:
                _tip_outside(at(product, child * BLOCK), at(down, 0), at(message, sibling * ROW))
            else:
                _child_outside(
                    at(outside, child * ROW),
                    at(product, child * BLOCK),
                    at(total, child * BLOCK),
                    at(down, 0),
                    at(message, sibling * ROW),
                )


@vector_kernel
def evaluate_blocks(
    first_task: int,
    last_task: int,
    neighbors: IntArray,
    lengths: FloatArray,
    tips: FloatArray,
    weights: FloatArray,
    rescaling: FloatArray,
    site_values: FloatArray,
    gradients: FloatArray,
) -> None:
    """Site log-likelihoods (trees, blocks, BLOCK) and each block's share of the gradients (trees, blocks, 2n-3).

    tips (blocks, n, 4, BLOCK) and weights (blocks, BLOCK), in the precision in which to work; rescaling is
    (small, factor). No gradients are computed where `gradients` has no columns. Task tree · blocks + block has
    places of its own: calls for different tasks can run at once, and the result does not depend on how many do.
    """
    nodes = neighbors.shape[1]
    blocks = len(tips)
    leaf_count = nodes // 2 + 1
    small, factor = rescaling[0], rescaling[1]
    log_factor = math.log(factor)
    change = np.empty(nodes, tips.dtype)
    stay = np.empty(nodes, tips.dtype)
    message = np.empty((nodes, ROW), tips.dtype)
    total = np.ones((nodes, BLOCK), tips.dtype)  # stays one at the tips
    outside = np.empty((nodes, ROW), tips.dtype)
    down = np.empty(ROW, tips.dtype)
    product = np.empty((nodes, BLOCK), tips.dtype)
    site = np.empty(BLOCK, tips.dtype)
    scale = np.empty(BLOCK, tips.dtype)
    steps = np.zeros((nodes, BLOCK), np.int64)
    scaled = np.zeros(nodes, np.int64)
    previous = -1
    for task in range(first_task, last_task):
        tree, block = task // blocks, task % blocks
        table = neighbors[tree]
        if tree != previous:
            previous = tree
            for node in range(nodes - 1):
                exponent = -RATE * lengths[tree, node]
                stay[node] = math.exp(exponent)
                change[node] = -0.25 * math.expm1(exponent)
        rescaled = _climb(table, change, stay, tips[block], message, total, steps, scaled, small, factor)
        left, right = table[nodes - 1, 1], table[nodes - 1, 2]
        first, second, third = at(message, 0), at(message, left * ROW), at(message, right * ROW)
        _root_sum(at(site, 0), first, second, third)
        used = 0.0
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
        if gradients.shape[2] == 0:
            continue
        shared = at(down, 0)
        _weigh(shared, at(scale, 0), second)
        _child_outside(at(outside, 0), at(product, 0), at(total, 0), shared, third)
        _weigh(shared, at(scale, 0), first)
        _child_outside(at(outside, left * ROW), at(product, left * BLOCK), at(total, left * BLOCK), shared, third)
        _child_outside(at(outside, right * ROW), at(product, right * BLOCK), at(total, right * BLOCK), shared, second)
        _go_down(table, change, stay, message, total, outside, down, product, steps, scaled, factor)
        for node in range(nodes - 1):
            gradients[tree, block, node] = -RATE * (used - 0.25 * _sum_block(at(product, node * BLOCK)))
