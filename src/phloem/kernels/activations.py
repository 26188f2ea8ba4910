"""Activations and their gradients, without a call of a library, so that loops over them become vector code.

ELU(x) = x where x > 0, else exp(x) - 1 (Clevert et al. 2016). Its derivative is 1 or ELU(x) + 1: no exponential.
"""

from phloem.kernels.arrays import RealArray
from phloem.kernels.exponential import exp_below_zero, same_type
from phloem.kernels.jit import vector_kernel, wide_vectors
from phloem.kernels.pointers import at


@vector_kernel
def elu(x):
    """ELU of one number, of its type; what is not a number stays so."""
    zero = same_type(0.0, x)
    below = exp_below_zero(zero if x > zero else x) - same_type(1.0, x)
    return below if x <= zero else x


@vector_kernel
def elu_slope(output):
    """The derivative of ELU where its value is `output`."""
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
    """1 / (1 + exp(-x)) of one number, of its type."""
    zero, one = same_type(0.0, x), same_type(1.0, x)
    small = exp_below_zero(-x if x > zero else x)
    return (one if x > zero else small) / (one + small)


@vector_kernel
def hyperbolic_tangent(x):
    """tanh of one number, of its type."""
    zero, one = same_type(0.0, x), same_type(1.0, x)
    small = exp_below_zero((-x if x > zero else x) * same_type(2.0, x))
    size = (one - small) / (one + small)
    return -size if x < zero else size


@vector_kernel
def gru(gates: RealArray, states: RealArray, bias: RealArray, outputs: RealArray) -> None:
    """A gated recurrent unit (Cho et al. 2014), from W·input and U·state, which become its gates in place.

    reset = σ(W_r + U_r + b_r), update = σ(W_z + U_z + b_z), new = tanh(W_n + b_n + reset · (U_n + c_n)),
    outputs = new + update · (states - new). gates (nodes, 4·channels) holds W_r + U_r, W_z + U_z, W_n, U_n, and then
    reset, update, new and U_n + c_n for the way back. The bias is b_r, b_z, b_n, c_n.

    Loops are short and write to one place each: from longer ones the compiler makes no vectors.
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
