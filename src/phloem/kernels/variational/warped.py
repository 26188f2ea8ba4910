"""Branch lengths that are skewed and tied to their neighbours, with their gradients.

From independent noise ε, with μ, ℓ, α and β of every branch,

    u = ε + tanh(α)·u_parent + tanh(β)·u_sibling        a Gaussian Markov field along the tree
    log q = μ + σ·T(u),  T(u) = sinh(d·asinh u) / d,  σ = exp(ℓ)

The sibling term is the second child's alone, and the three branches at the root are a chain, so each u is made of
earlier ones and the Jacobian is 1. As the branches that meet at a node are all tied to one another, this is every
Gaussian field in which a branch depends on its neighbours only.

d says how heavy a tail is: 1 leaves it normal. The posterior of a log length is like that of a log gamma variable,
skewed to the left the more the wider it is, so d follows from σ. A log gamma's own constant would be about 0.53. It is
larger here: near zero a length's posterior is flat, as no likelihood vanishes there, so it falls off more slowly than
any gamma density, and importance weights have lighter tails if Q does too.

Parameters (batch, branches, 4) are μ, ℓ, α and β, in single or double precision; all arithmetic is in double.
"""

import math

import numpy as np

from phloem.arrays import FloatArray, IntArray, RealArray
from phloem.kernels.jit import kernel
from phloem.kernels.variational.branches import HALF_LOG_TWO_PI, LARGEST_LOG_LENGTH

SKEW = 0.75  # log d = ±σ times this, plus below the median and minus above it, while σ is small
STEEPEST = 1.5  # |log d|, where σ is large
KEPT = 5  # numbers of each branch that the backward pass needs


@kernel
def _fill_field(parameters, neighbors, noise, values, coefficients):
    """u of every branch of one tree, (branches,), and its coefficients, (branches, 2), zero where there is no term."""
    nodes = len(neighbors)
    leaf_count = nodes // 2 + 1
    for branch in range(nodes - 1):
        coefficients[branch, 0] = math.tanh(parameters[branch, 2]) if branch else 0.0
        coefficients[branch, 1] = 0.0
    values[0] = noise[0]
    for node in range(nodes - 1, leaf_count - 1, -1):
        above = node if node < nodes - 1 else 0
        first, second = neighbors[node, 1], neighbors[node, 2]
        coefficients[second, 1] = math.tanh(parameters[second, 3])
        values[first] = noise[first] + coefficients[first, 0] * values[above]
        values[second] = (
            noise[second] + coefficients[second, 0] * values[above] + coefficients[second, 1] * values[first]
        )


@kernel
def sample_warped(
    parameters: RealArray,
    offset: float,
    neighbors: IntArray,
    noise: FloatArray,
    lengths: FloatArray,
    log_densities: FloatArray,
    kept: FloatArray,
    coefficients: FloatArray,
) -> None:
    """lengths (batch, branches) from noise of the same shape, and the log-density of each tree's, (batch,).

    kept (batch, branches, KEPT) and coefficients (batch, branches, 2) are for the backward pass.
    """
    batch, branches, _ = parameters.shape
    values = np.empty(branches)
    for tree in range(batch):
        _fill_field(parameters[tree], neighbors[tree], noise[tree], values, coefficients[tree])
        total = 0.0
        for branch in range(branches):
            value, log_scale = values[branch], np.float64(parameters[tree, branch, 1])
            scale = math.exp(log_scale)
            side = SKEW if value < 0.0 else -SKEW
            bent = math.tanh(side * scale / STEEPEST)
            weight = math.exp(STEEPEST * bent)
            angle = math.asinh(value)
            turned = weight * angle
            height, width = math.cosh(turned), math.sqrt(1.0 + value * value)
            warped = math.sinh(turned) / weight
            slope = height / width
            tangent = math.tanh(turned)
            log_length = parameters[tree, branch, 0] + offset + scale * warped
            lengths[tree, branch] = math.exp(max(min(log_length, LARGEST_LOG_LENGTH), -LARGEST_LOG_LENGTH))
            deviation = noise[tree, branch]
            total -= log_length + log_scale + math.log(slope) + 0.5 * deviation * deviation + HALF_LOG_TWO_PI
            by_log_scale = (1.0 - bent * bent) * side * scale  # of log d
            own = kept[tree, branch]
            own[0] = value
            own[1] = scale * slope  # ∂ log q / ∂u
            own[2] = weight * tangent / width - value / (width * width)  # ∂ log T' / ∂u
            own[3] = scale * warped + scale * (angle * height - warped) * by_log_scale  # ∂ log q / ∂ℓ
            own[4] = turned * tangent * by_log_scale  # ∂ log T' / ∂ℓ
        log_densities[tree] = total


@kernel
def sample_warped_backward(
    neighbors: IntArray,
    noise: FloatArray,
    lengths: FloatArray,
    kept: FloatArray,
    coefficients: FloatArray,
    length_gradient: FloatArray,
    density_gradient: FloatArray,
    path_only: bool,
    parameters_gradient: RealArray,
) -> None:
    """The gradient for the parameters, from those for lengths and log-densities; the noise is fixed.

    path_only: the density's parameters are held constant, so that it depends on them through the lengths alone.
    """
    batch, nodes, _ = neighbors.shape
    leaf_count = nodes // 2 + 1
    by_value, by_density = np.empty(nodes - 1), np.empty(nodes - 1)
    for tree in range(batch):
        tied, own, of_density = coefficients[tree], kept[tree], density_gradient[tree]
        if path_only:  # of -½ Σ ε², where ε = u - tanh(α)·u_parent - tanh(β)·u_sibling
            for branch in range(nodes - 1):
                by_density[branch] = -noise[tree, branch]
            for node in range(leaf_count, nodes):
                above = node if node < nodes - 1 else 0
                first, second = neighbors[tree, node, 1], neighbors[tree, node, 2]
                by_density[above] += tied[first, 0] * noise[tree, first] + tied[second, 0] * noise[tree, second]
                by_density[first] += tied[second, 1] * noise[tree, second]
        for branch in range(nodes - 1):
            by_log_length = length_gradient[tree, branch] * lengths[tree, branch] - of_density
            if path_only:
                by_log_length += of_density * (by_density[branch] - own[branch, 2]) / own[branch, 1]
            by_log_scale = by_log_length * own[branch, 3]
            by_value[branch] = by_log_length * own[branch, 1]
            if not path_only:
                by_log_scale -= of_density * (1.0 + own[branch, 4])
                by_value[branch] -= of_density * own[branch, 2]
            parameters_gradient[tree, branch, 0] = by_log_length
            parameters_gradient[tree, branch, 1] = by_log_scale
            parameters_gradient[tree, branch, 2] = parameters_gradient[tree, branch, 3] = 0
        for node in range(leaf_count, nodes):  # what depends on a branch comes before it
            above = node if node < nodes - 1 else 0
            first, second = neighbors[tree, node, 1], neighbors[tree, node, 2]
            _tie_backward(second, 0, above, tied, own, by_value, parameters_gradient[tree])
            _tie_backward(second, 1, first, tied, own, by_value, parameters_gradient[tree])
            _tie_backward(first, 0, above, tied, own, by_value, parameters_gradient[tree])


@kernel
def warped_noise_gradient(
    neighbors: IntArray,
    noise: FloatArray,
    lengths: FloatArray,
    kept: FloatArray,
    coefficients: FloatArray,
    length_gradient: FloatArray,
    density_gradient: FloatArray,
    noise_gradient: FloatArray,
) -> None:
    """The gradient for the noise, from those for lengths and log-densities; the parameters are fixed."""
    batch, nodes, _ = neighbors.shape
    leaf_count = nodes // 2 + 1
    for tree in range(batch):
        tied, own, by_value = coefficients[tree], kept[tree], noise_gradient[tree]
        of_density = density_gradient[tree]
        for branch in range(nodes - 1):
            by_log_length = length_gradient[tree, branch] * lengths[tree, branch] - of_density
            by_value[branch] = by_log_length * own[branch, 1] - of_density * own[branch, 2]
        for node in range(leaf_count, nodes):
            above = node if node < nodes - 1 else 0
            first, second = neighbors[tree, node, 1], neighbors[tree, node, 2]
            by_value[above] += tied[second, 0] * by_value[second]
            by_value[first] += tied[second, 1] * by_value[second]
            by_value[above] += tied[first, 0] * by_value[first]
        for branch in range(nodes - 1):
            by_value[branch] -= of_density * noise[tree, branch]


@kernel
def _tie_backward(branch, column, other, tied, own, by_value, parameters_gradient):
    """Back through u_branch += tanh(parameter) · u_other."""
    coefficient = tied[branch, column]
    slope = 1.0 - coefficient * coefficient
    parameters_gradient[branch, 2 + column] = by_value[branch] * own[other, 0] * slope
    by_value[other] += coefficient * by_value[branch]
