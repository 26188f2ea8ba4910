"""Log-likelihoods under any nucleotide model, with derivatives for every transition matrix.

For category c and the branch above node v the caller gives P[v, c]; the message to the parent is m = P·p.
Going down, O is the derivative of the site's log-likelihood, times the site's weight, with respect to m, and

    d log L / dP[v, c] = sum over patterns of  O ⊗ p

which torch carries on into branch lengths and model parameters. Patterns go through in blocks (see blocks.py).
"""

import math

import numpy as np

from phloem.arrays import FloatArray, IntArray
from phloem.kernels.jit import at, vector_kernel
from phloem.kernels.likelihood.blocks import BLOCK, FOURTH, MATRIX, SECOND, STATES, THIRD, clear, rescale, undo_scaling


@vector_kernel
def _multiply(result, matrix, row, column, vector):
    """P·p or Pᵀ·O for each pattern, by the strides of the matrix's rows and columns: (4, 1) or (1, 4)."""
    for state in range(4):
        first = row * state
        w0, w1 = matrix[first], matrix[first + column]
        w2, w3 = matrix[first + 2 * column], matrix[first + 3 * column]
        shift = state * BLOCK
        for i in range(BLOCK):
            result[shift + i] = (w0 * vector[i] + w1 * vector[SECOND + i]) + (
                w2 * vector[THIRD + i] + w3 * vector[FOURTH + i]
            )


@vector_kernel
def _product(result, left, right):
    for place in range(STATES):
        result[place] = left[place] * right[place]


@vector_kernel
def _sum_states(sums, partial, small):
    """The sum of each pattern's partials; returns how many are below `small`."""
    tiny = 0
    for i in range(BLOCK):
        sums[i] = (partial[i] + partial[SECOND + i]) + (partial[THIRD + i] + partial[FOURTH + i])
        tiny += sums[i] < small
    return tiny


@vector_kernel
def _outer(derivative, outside, partial):
    """derivative += sum over patterns of O ⊗ p, each entry in four partial sums."""
    for row in range(4):
        for column in range(4):
            s0 = s1 = s2 = s3 = outside[0] * 0
            for i in range(0, BLOCK, 4):
                s0 += outside[row * BLOCK + i] * partial[column * BLOCK + i]
                s1 += outside[row * BLOCK + i + 1] * partial[column * BLOCK + i + 1]
                s2 += outside[row * BLOCK + i + 2] * partial[column * BLOCK + i + 2]
                s3 += outside[row * BLOCK + i + 3] * partial[column * BLOCK + i + 3]
            derivative[4 * row + column] += (s0 + s1) + (s2 + s3)


@vector_kernel
def _go_up(neighbors, matrices, category, tips, partial, message, sums, steps, scaled, small, factor):
    """Partials and messages of all nodes below the root for one category of one block, children first."""
    nodes = len(neighbors)
    leaf_count = nodes // 2 + 1
    categories = matrices.shape[1]
    for node in range(leaf_count):
        matrix = at(matrices, (node * categories + category) * MATRIX)
        _multiply(at(message, node * STATES), matrix, 4, 1, at(tips, node * STATES))
    for node in range(leaf_count, nodes - 1):
        own = at(partial, node * STATES)
        _product(own, at(message, neighbors[node, 1] * STATES), at(message, neighbors[node, 2] * STATES))
        scaled[node] = _sum_states(at(sums, 0), own, small)
        if scaled[node]:
            own_steps = at(steps, node * BLOCK)
            clear(own_steps)
            rescale(own, 4, at(sums, 0), own_steps, small, factor)
        _multiply(at(message, node * STATES), at(matrices, (node * categories + category) * MATRIX), 4, 1, own)


@vector_kernel
def _go_down(neighbors, matrices, category, tips, partial, message, outside, down, steps, scaled, factor, derivatives):
    """O of every node, parents first, and its product with the node's partials; the root's children have theirs."""
    nodes = len(neighbors)
    leaf_count = nodes // 2 + 1
    categories = matrices.shape[1]
    for node in range(nodes - 2, -1, -1):
        own = at(outside, node * STATES)
        entry = (node * categories + category) * MATRIX
        if node < leaf_count:
            _outer(at(derivatives, entry), own, at(tips, node * STATES))
            continue
        _outer(at(derivatives, entry), own, at(partial, node * STATES))
        _multiply(at(down, 0), at(matrices, entry), 1, 4, own)
        if scaled[node]:
            undo_scaling(at(down, 0), at(steps, node * BLOCK), factor)
        left, right = neighbors[node, 1], neighbors[node, 2]
        _product(at(outside, left * STATES), at(down, 0), at(message, right * STATES))
        _product(at(outside, right * STATES), at(down, 0), at(message, left * STATES))


@vector_kernel
def _site_likelihoods(
    message, left, right, frequencies, category_weights, unchanging, powers, factor, relative, shares, likelihood
):
    """Each pattern's likelihood in units of its least power of the factor, which is returned in powers[0].

    relative (categories, BLOCK) brings each category to that power, shares (categories, BLOCK) is the
    categories' likelihoods in it. Where invariant sites contribute, the power is zero.
    """
    categories = len(category_weights)
    for i in range(BLOCK):
        least = powers[0, i]
        for category in range(1, categories):
            least = min(least, powers[category, i])
        if unchanging[i] > 0:
            least = 0
        likelihood[i] = unchanging[i]
        for category in range(categories):
            extra = powers[category, i] - least
            relative[category, i] = 1.0 if extra == 0 else factor ** float(-extra)
            share = 0.0
            for state in range(4):
                place = state * BLOCK + i
                product = np.float64(message[category, 0, place]) * message[category, left, place]
                share += frequencies[state] * product * message[category, right, place]
            shares[category, i] = share * relative[category, i]
            likelihood[i] += category_weights[category] * shares[category, i]
        powers[0, i] = least


@vector_kernel
def _start_down(first, second, third, scale, frequencies, outside_first, outside_second, outside_third):
    """O of the root's three children, and the derivative for each frequency."""
    derivatives = np.zeros(4)
    for state in range(4):
        for i in range(BLOCK):
            place = state * BLOCK + i
            derivatives[state] += scale[i] * np.float64(first[place]) * second[place] * third[place]
            weight = scale[i] * frequencies[state]
            outside_first[place] = weight * second[place] * third[place]
            outside_second[place] = weight * first[place] * third[place]
            outside_third[place] = weight * first[place] * second[place]
    return derivatives


@vector_kernel
def evaluate_chunks(
    first_task: int,
    last_task: int,
    neighbors: IntArray,
    matrices: FloatArray,
    frequencies: FloatArray,
    category_weights: FloatArray,
    invariant: FloatArray,
    tips: FloatArray,
    constant: FloatArray,
    weights: FloatArray,
    rescaling: FloatArray,
    blocks_per_chunk: int,
    site_values: FloatArray,
    matrix_derivatives: FloatArray,
    frequency_derivatives: FloatArray,
    weight_derivatives: FloatArray,
    invariant_derivatives: FloatArray,
) -> None:
    """Site log-likelihoods (trees, blocks, BLOCK) and derivatives, each chunk of blocks its own share.

    matrices (trees, 2n-3, categories, 4, 4), invariant (4,) the proportion of invariant sites times the
    frequencies, constant (blocks, 4, BLOCK) 1 where all tips may have the state. Derivatives have shapes
    (trees, chunks, …) and start at zero; none are computed where matrix_derivatives has no chunks. Task
    tree · chunks + chunk writes to places that no other task writes to, so tasks can run in parallel. The size of
    a chunk does not depend on the number of threads, so that sums have one order.
    """
    nodes = neighbors.shape[1]
    blocks, categories = len(tips), len(category_weights)
    leaf_count = nodes // 2 + 1
    chunks = (blocks + blocks_per_chunk - 1) // blocks_per_chunk
    small, factor = rescaling[0], rescaling[1]
    log_factor = math.log(factor)
    partial = np.empty((categories, nodes, STATES), tips.dtype)
    message = np.empty((categories, nodes, STATES), tips.dtype)
    outside = np.empty((nodes, STATES), tips.dtype)
    down = np.empty(STATES, tips.dtype)
    sums = np.empty(BLOCK, tips.dtype)
    steps = np.zeros((categories, nodes, BLOCK), np.int64)
    scaled = np.zeros((categories, nodes), np.int64)
    powers = np.empty((categories, BLOCK), np.int64)
    relative = np.empty((categories, BLOCK))
    shares = np.empty((categories, BLOCK))
    unchanging = np.empty(BLOCK)
    likelihood = np.empty(BLOCK)
    site_scale = np.empty(BLOCK)
    for task in range(first_task, last_task):
        tree, chunk = task // chunks, task % chunks
        table = neighbors[tree]
        left, right = table[nodes - 1, 1], table[nodes - 1, 2]
        for block in range(chunk * blocks_per_chunk, min((chunk + 1) * blocks_per_chunk, blocks)):
            powers[:] = 0
            for category in range(categories):
                _go_up(
                    table,
                    matrices[tree],
                    category,
                    tips[block],
                    partial[category],
                    message[category],
                    sums,
                    steps[category],
                    scaled[category],
                    small,
                    factor,
                )
                for node in range(leaf_count, nodes - 1):
                    if scaled[category, node]:
                        powers[category] += steps[category, node]
            unchanging[:] = 0.0
            for state in range(4):
                unchanging += invariant[state] * constant[block, state]
            _site_likelihoods(
                message,
                left,
                right,
                frequencies,
                category_weights,
                unchanging,
                powers,
                factor,
                relative,
                shares,
                likelihood,
            )
            for i in range(BLOCK):
                site_values[tree, block, i] = math.log(likelihood[i]) - powers[0, i] * log_factor
                site_scale[i] = weights[block, i] / likelihood[i] if likelihood[i] > 0 else 0.0
            if matrix_derivatives.shape[1] == 0:
                continue
            for state in range(4):
                if invariant[state] > 0:
                    invariant_derivatives[tree, chunk, state] += (site_scale * constant[block, state]).sum()
            for category in range(categories):
                weight_derivatives[tree, chunk, category] += (site_scale * shares[category]).sum()
                frequency_derivatives[tree, chunk] += _start_down(
                    message[category, 0],
                    message[category, left],
                    message[category, right],
                    site_scale * relative[category] * category_weights[category],
                    frequencies,
                    outside[0],
                    outside[left],
                    outside[right],
                )
                _go_down(
                    table,
                    matrices[tree],
                    category,
                    tips[block],
                    partial[category],
                    message[category],
                    outside,
                    down,
                    steps[category],
                    scaled[category],
                    factor,
                    matrix_derivatives[tree, chunk],
                )
