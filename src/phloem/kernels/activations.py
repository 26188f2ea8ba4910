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
def gru(
    inputs: RealArray, states: RealArray, recurrent: RealArray, bias: RealArray, gates: RealArray, outputs: RealArray
) -> None:
    """A gated recurrent unit (Cho et al. 2014): inputs and recurrent are W·input and U·state, (nodes, 3·channels).

    reset = σ(W_r + U_r + b_r), update = σ(W_z + U_z + b_z), new = tanh(W_n + b_n + reset · (U_n + c_n)),
    outputs = new + update · (states - new). The bias is b_r, b_z, b_n, c_n; gates (nodes, 4·channels) keeps reset,
    update, new and U_n + c_n for the way back.
    """
    wide_vectors()
    nodes, channels = states.shape
    added = at(bias, 0)
    for node in range(nodes):
        sent, kept = at(inputs, 3 * node * channels), at(recurrent, 3 * node * channels)
        state, gate, target = at(states, node * channels), at(gates, 4 * node * channels), at(outputs, node * channels)
        for channel in range(2 * channels):
            gate[channel] = logistic(sent[channel] + kept[channel] + added[channel])
        for channel in range(channels):
            inside = kept[2 * channels + channel] + added[3 * channels + channel]
            reset, update = gate[channel], gate[channels + channel]
            new = hyperbolic_tangent(sent[2 * channels + channel] + added[2 * channels + channel] + reset * inside)
            gate[2 * channels + channel] = new
            gate[3 * channels + channel] = inside
            target[channel] = new + update * (state[channel] - new)


@vector_kernel
def gru_backward(
    gradient: RealArray,
    states: RealArray,
    gates: RealArray,
    inputs_gradient: RealArray,
    recurrent_gradient: RealArray,
    states_gradient: RealArray,
    bias_gradient: RealArray,
) -> None:
    """The gradients of `gru` for inputs, recurrent, states (as far as they pass the update gate) and bias."""
    wide_vectors()
    nodes, channels = states.shape
    one = states.dtype.type(1)
    bias_gradient[:] = states.dtype.type(0)
    total = at(bias_gradient, 0)
    for node in range(nodes):
        source, state, gate = at(gradient, node * channels), at(states, node * channels), at(gates, 4 * node * channels)
        sent, kept = at(inputs_gradient, 3 * node * channels), at(recurrent_gradient, 3 * node * channels)
        passed = at(states_gradient, node * channels)
        for channel in range(channels):
            reset, update, new = gate[channel], gate[channels + channel], gate[2 * channels + channel]
            inner_new = source[channel] * (one - update) * (one - new * new)
            inner_update = source[channel] * (state[channel] - new) * update * (one - update)
            inner_reset = inner_new * gate[3 * channels + channel] * reset * (one - reset)
            sent[channel] = inner_reset
            kept[channel] = inner_reset
            sent[channels + channel] = inner_update
            kept[channels + channel] = inner_update
            sent[2 * channels + channel] = inner_new
            kept[2 * channels + channel] = inner_new * reset
            passed[channel] = source[channel] * update
            total[channel] += inner_reset
            total[channels + channel] += inner_update
            total[2 * channels + channel] += inner_new
            total[3 * channels + channel] += inner_new * reset
