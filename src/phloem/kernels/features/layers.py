"""The layers of graph networks: activations and messages between neighbours, with their gradients, as vector code.

`neighbors` (nodes, width) lists each node's neighbours, -1 after the last. Rows are contiguous, in single or double
precision; constants have the arrays' own type, as numba would compute in doubles otherwise. `values` holds for every
node what it keeps for itself, `own`, beside what it sends, `other`: (nodes, 2·channels), or (nodes, channels) where
both are the same. Outputs are written to arrays that the caller provides.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phloem.arrays import ByteArray, IntArray, RealArray
from phloem.kernels.elementary import exp_below_zero, same_type
from phloem.kernels.jit import at, kernel, vector_kernel, wide_vectors


@vector_kernel
def elu(x):
    """ELU(x) = x where x > 0, else exp(x) - 1 (Clevert et al. 2016), in the type of x; NaN stays NaN."""
    zero = same_type(0.0, x)
    below = exp_below_zero(zero if x > zero else x) - same_type(1.0, x)
    return below if x <= zero else x


@vector_kernel
def elu_slope(output):
    """The derivative of ELU where its value is `output`: 1 or ELU(x) + 1, without an exponential."""
    zero = same_type(0.0, output)
    return same_type(1.0, output) + (output if output < zero else zero)


@vector_kernel
def bias_elu(values: RealArray, bias: RealArray) -> None:
    """values = ELU(values + bias), row by row, in place."""
    wide_vectors()
    rows, channels = values.shape
    added = at(bias, 0)
    for row in range(rows):
        target = at(values, row * channels)
        for channel in range(channels):
            target[channel] = elu(target[channel] + added[channel])


@vector_kernel
def elu_backward(gradient: RealArray, outputs: RealArray, inner: RealArray, bias_gradient: RealArray) -> None:
    """inner = gradient · ELU', from ELU's outputs, and the sums of its columns, (channels,)."""
    wide_vectors()
    rows, channels = outputs.shape
    bias_gradient[:] = outputs.dtype.type(0)
    total = at(bias_gradient, 0)
    for row in range(rows):
        source, output, target = at(gradient, row * channels), at(outputs, row * channels), at(inner, row * channels)
        for channel in range(channels):
            passed = source[channel] * elu_slope(output[channel])
            target[channel] = passed
            total[channel] += passed


@vector_kernel
def logistic(x):
    """1 / (1 + exp(-x)) of one number, in its own type."""
    zero, one = same_type(0.0, x), same_type(1.0, x)
    small = exp_below_zero(-x if x > zero else x)
    return (one if x > zero else small) / (one + small)


@vector_kernel
def hyperbolic_tangent(x):
    """tanh of one number, in its own type."""
    zero, one = same_type(0.0, x), same_type(1.0, x)
    small = exp_below_zero((-x if x > zero else x) * same_type(2.0, x))
    size = (one - small) / (one + small)
    return -size if x < zero else size


@vector_kernel
def gru(gates: RealArray, states: RealArray, bias: RealArray, outputs: RealArray) -> None:
    """A gated recurrent unit (Cho et al. 2014), from W·input and U·state, which become its gates in place.

    reset = σ(W_r + U_r + b_r), update = σ(W_z + U_z + b_z), new = tanh(W_n + b_n + reset · (U_n + c_n)),
    outputs = new + update · (states - new). gates (nodes, 4·channels) holds W_r + U_r, W_z + U_z, W_n, U_n, and then
    reset, update, new and U_n + c_n for the backward pass. The bias is b_r, b_z, b_n, c_n.

    Loops are short and write to one array each: the compiler does not vectorise longer ones.
    """
    wide_vectors()
    nodes, channels = states.shape
    by_reset, by_new, by_inside = at(bias, 0), at(bias, 2 * channels), at(bias, 3 * channels)
    for node in range(nodes):
        reset, update = at(gates, 4 * node * channels), at(gates, (4 * node + 1) * channels)
        new, inside = at(gates, (4 * node + 2) * channels), at(gates, (4 * node + 3) * channels)
        for channel in range(2 * channels):  # update lies behind reset
            reset[channel] = logistic(reset[channel] + by_reset[channel])
        for channel in range(channels):
            inside[channel] += by_inside[channel]
        for channel in range(channels):
            new[channel] += by_new[channel] + reset[channel] * inside[channel]
        for channel in range(channels):
            new[channel] = hyperbolic_tangent(new[channel])
        state, target = at(states, node * channels), at(outputs, node * channels)
        for channel in range(channels):
            target[channel] = new[channel] + update[channel] * (state[channel] - new[channel])


@vector_kernel
def gru_backward(
    gradient: RealArray,
    states: RealArray,
    gates: RealArray,
    gates_gradient: RealArray,
    states_gradient: RealArray,
    bias_gradient: RealArray,
) -> None:
    """The gradients of `gru` for what gates held before, for states (as far as they pass the update gate) and bias."""
    wide_vectors()
    nodes, channels = states.shape
    one = states.dtype.type(1)
    bias_gradient[:] = states.dtype.type(0)
    total = at(bias_gradient, 0)
    for node in range(nodes):
        source, state = at(gradient, node * channels), at(states, node * channels)
        reset, update = at(gates, 4 * node * channels), at(gates, (4 * node + 1) * channels)
        new, inside = at(gates, (4 * node + 2) * channels), at(gates, (4 * node + 3) * channels)
        by_reset, by_update = at(gates_gradient, 4 * node * channels), at(gates_gradient, (4 * node + 1) * channels)
        by_new, by_inside = at(gates_gradient, (4 * node + 2) * channels), at(gates_gradient, (4 * node + 3) * channels)
        for channel in range(channels):
            by_new[channel] = source[channel] * (one - update[channel]) * (one - new[channel] * new[channel])
        for channel in range(channels):
            by_reset[channel] = by_new[channel] * inside[channel] * reset[channel] * (one - reset[channel])
        for channel in range(channels):
            change = source[channel] * (state[channel] - new[channel])
            by_update[channel] = change * update[channel] * (one - update[channel])
        for channel in range(channels):
            by_inside[channel] = by_new[channel] * reset[channel]
        for channel in range(4 * channels):
            total[channel] += by_reset[channel]  # and what lies behind it
        passed = at(states_gradient, node * channels)
        for channel in range(channels):
            passed[channel] = source[channel] * update[channel]


@vector_kernel
def sum_messages(
    values: RealArray,
    neighbors: IntArray,
    own_scale: RealArray,
    target_scale: RealArray,
    source_scale: RealArray,
    bias: RealArray,
    outputs: RealArray,
) -> None:
    """outputs[v] = ELU(own_scale[v] · own[v] + target_scale[v] · Σ_u source_scale[u] · other[u] + bias)."""
    wide_vectors()
    nodes, width = neighbors.shape
    channels, stride = outputs.shape[1], values.shape[1]
    added = at(bias, 0)
    for node in range(nodes):
        target, source, scale = at(outputs, node * channels), at(values, node * stride), own_scale[node]
        for channel in range(channels):
            target[channel] = scale * source[channel] + added[channel]
        for slot in range(width):
            neighbor = neighbors[node, slot]
            if neighbor < 0:
                break
            source = at(values, (neighbor + 1) * stride - channels)
            scale = target_scale[node] * source_scale[neighbor]
            for channel in range(channels):
                target[channel] += scale * source[channel]
        for channel in range(channels):
            target[channel] = elu(target[channel])


@vector_kernel
def sum_messages_backward(
    inner: RealArray,
    neighbors: IntArray,
    own_scale: RealArray,
    target_scale: RealArray,
    source_scale: RealArray,
    values_gradient: RealArray,
) -> None:
    """The gradient of `values` from that of the ELU's argument, `inner`, (nodes, channels).

    Neighbours are mutual, so what a node sent to them comes back as a sum over them: nothing is scattered.
    """
    wide_vectors()
    nodes, width = neighbors.shape
    channels, stride = inner.shape[1], values_gradient.shape[1]
    zero = inner.dtype.type(0)
    for node in range(nodes):
        own, source, scale = at(values_gradient, node * stride), at(inner, node * channels), own_scale[node]
        for channel in range(channels):
            own[channel] = scale * source[channel]
        sent = at(values_gradient, (node + 1) * stride - channels)
        if stride > channels:
            for channel in range(channels):
                sent[channel] = zero
        for slot in range(width):
            neighbor = neighbors[node, slot]
            if neighbor < 0:
                break
            source, scale = at(inner, neighbor * channels), source_scale[node] * target_scale[neighbor]
            for channel in range(channels):
                sent[channel] += scale * source[channel]


@vector_kernel
def max_messages(
    values: RealArray, neighbors: IntArray, bias: RealArray, outputs: RealArray, slots: NDArray[Any]
) -> None:
    """outputs[v] = ELU(max_k ELU(own[v] + other[neighbors[v, k]] + bias)): the maximum goes inside, as ELU is monotone.

    For the backward pass, `slots` (nodes, channels) gets the k of the maximum, the first of equal ones, and the slope
    of both ELUs replaces `own`, which is no longer needed.
    """
    wide_vectors()
    nodes, width = neighbors.shape
    channels = outputs.shape[1]
    added = at(bias, 0)
    for node in range(nodes):
        target, chosen = at(outputs, node * channels), at(slots, node * channels)
        source = at(values, (2 * neighbors[node, 0] + 1) * channels)
        for channel in range(channels):
            target[channel] = source[channel]
            chosen[channel] = 0
        for slot in range(1, width):
            if neighbors[node, slot] < 0:
                break
            source, number = at(values, (2 * neighbors[node, slot] + 1) * channels), slots.dtype.type(slot)
            for channel in range(channels):
                received, largest = source[channel], target[channel]
                # NaN wins, so that it shows in the result.
                larger = (received > largest) | (received != received)
                # A choice between two numbers would become a store under a condition, which is no vector code.
                chosen[channel] = max(chosen[channel], number * slots.dtype.type(larger))
                target[channel] = received if larger else largest
        own = at(values, 2 * node * channels)
        for channel in range(channels):
            once = elu(target[channel] + own[channel] + added[channel])
            twice = elu(once)
            target[channel] = twice
            own[channel] = elu_slope(once) * elu_slope(twice)


@vector_kernel
def max_messages_backward(
    gradient: RealArray,
    neighbors: IntArray,
    values: RealArray,
    slots: NDArray[Any],
    values_gradient: RealArray,
    bias_gradient: RealArray,
) -> None:
    """The gradients of values and bias, from what `max_messages` left in `values` and `slots`.

    A node collects from the neighbours whose maximum it was: nothing is scattered.
    """
    wide_vectors()
    nodes, width = neighbors.shape
    channels = gradient.shape[1]
    zero = gradient.dtype.type(0)
    bias_gradient[:] = zero
    total = at(bias_gradient, 0)
    for node in range(nodes):
        source, slope = at(gradient, node * channels), at(values, 2 * node * channels)
        own, sent = at(values_gradient, 2 * node * channels), at(values_gradient, (2 * node + 1) * channels)
        for channel in range(channels):
            inner = source[channel] * slope[channel]
            own[channel] = inner
            total[channel] += inner
            sent[channel] = zero
        for slot in range(width):
            neighbor = neighbors[node, slot]
            if neighbor < 0:
                break
            back = 0
            while neighbors[neighbor, back] != node:
                back += 1
            number = slots.dtype.type(back)
            source, slope = at(gradient, neighbor * channels), at(values, 2 * neighbor * channels)
            chosen = at(slots, neighbor * channels)
            for channel in range(channels):
                inner = source[channel] * slope[channel]
                sent[channel] += inner if chosen[channel] == number else zero


@vector_kernel
def neighbor_sums(states: RealArray, neighbors: IntArray, sums: RealArray) -> None:
    """sums[v] = Σ_u states[u] over v's neighbours; its own adjoint."""
    wide_vectors()
    nodes, width = neighbors.shape
    channels = states.shape[1]
    for node in range(nodes):
        target, source = at(sums, node * channels), at(states, neighbors[node, 0] * channels)
        for channel in range(channels):
            target[channel] = source[channel]
        for slot in range(1, width):
            if neighbors[node, slot] < 0:
                break
            source = at(states, neighbors[node, slot] * channels)
            for channel in range(channels):
                target[channel] += source[channel]


@vector_kernel
def end_maxima(states: RealArray, ends: IntArray, maxima: RealArray, chosen_first: ByteArray) -> None:
    """maxima[b] = max(states[ends[b, 0]], states[ends[b, 1]]) for every branch, and 1 where the first was no less."""
    wide_vectors()
    channels = states.shape[1]
    for branch in range(len(ends)):
        first, second = at(states, ends[branch, 0] * channels), at(states, ends[branch, 1] * channels)
        target, chosen = at(maxima, branch * channels), at(chosen_first, branch * channels)
        for channel in range(channels):
            larger = first[channel] >= second[channel] or first[channel] != first[channel]
            target[channel] = first[channel] if larger else second[channel]
            chosen[channel] = np.uint8(larger)


@vector_kernel
def end_maxima_backward(
    gradient: RealArray, ends: IntArray, chosen_first: ByteArray, states_gradient: RealArray
) -> None:
    """The states' gradient of `end_maxima`."""
    wide_vectors()
    channels = gradient.shape[1]
    zero = gradient.dtype.type(0)
    states_gradient[:] = zero
    for branch in range(len(ends)):
        first = at(states_gradient, ends[branch, 0] * channels)
        second = at(states_gradient, ends[branch, 1] * channels)
        source, chosen = at(gradient, branch * channels), at(chosen_first, branch * channels)
        for channel in range(channels):
            passed = source[channel] if chosen[channel] == 1 else zero
            first[channel] += passed
            second[channel] += source[channel] - passed


@vector_kernel
def tree_sums(states: RealArray, starts: IntArray, sums: RealArray) -> None:
    """sums[t] = Σ_v states[v] over the nodes starts[t] ≤ v < starts[t + 1] of every tree."""
    wide_vectors()
    trees, channels = sums.shape
    zero = sums.dtype.type(0)
    for tree in range(trees):
        target = at(sums, tree * channels)
        for channel in range(channels):
            target[channel] = zero
        for node in range(starts[tree], starts[tree + 1]):
            source = at(states, node * channels)
            for channel in range(channels):
                target[channel] += source[channel]


@vector_kernel
def tree_sums_backward(gradient: RealArray, starts: IntArray, states_gradient: RealArray) -> None:
    """The states' gradient of `tree_sums`."""
    wide_vectors()
    trees, channels = gradient.shape
    for tree in range(trees):
        source = at(gradient, tree * channels)
        for node in range(starts[tree], starts[tree + 1]):
            target = at(states_gradient, node * channels)
            for channel in range(channels):
                target[channel] = source[channel]


@kernel
def join_trees(neighbors: IntArray) -> tuple[IntArray, IntArray]:
    """Trees (batch, nodes, 3) as one graph: neighbours (batch · nodes, 3), and both ends of every branch.

    Branches (batch · (nodes - 1), 2) have the lower end first. Column 0 of a node's neighbours is its parent, except at
    the root, which is the last node.
    """
    batch, nodes, _ = neighbors.shape
    joined = np.empty((batch * nodes, 3), np.int32)
    branches = np.empty((batch * (nodes - 1), 2), np.int32)
    for tree in range(batch):
        start = tree * nodes
        for node in range(nodes):
            for slot in range(3):
                other = neighbors[tree, node, slot]
                joined[start + node, slot] = other + start if other >= 0 else -1
        for node in range(nodes - 1):
            branches[tree * (nodes - 1) + node, 0] = start + node
            branches[tree * (nodes - 1) + node, 1] = start + neighbors[tree, node, 0]
    return joined, branches
