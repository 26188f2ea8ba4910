"""Branch lengths: independent lognormals with their gradients, and parameters as sums of table rows.

Lognormals: log q = location + offset + scale · noise. Parameters (batch, branches, 2) are location and log scale, in
single or double precision; all arithmetic is in double.
"""

import math

import numpy as np

from phloem.arrays import FloatArray, IntArray, RealArray
from phloem.kernels.jit import kernel

LARGEST_LOG_LENGTH = 690.0  # a diverging network may give absurd lengths, but none that is infinite or zero
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@kernel
def sample_lognormal(
    parameters: RealArray, offset: float, noise: FloatArray, lengths: FloatArray, log_densities: FloatArray
) -> None:
    """lengths (batch, branches) from noise of the same shape, and the log-density of each tree's, (batch,)."""
    batch, branches, _ = parameters.shape
    for tree in range(batch):
        total = 0.0
        for branch in range(branches):
            log_scale, deviation = np.float64(parameters[tree, branch, 1]), noise[tree, branch]
            log_length = parameters[tree, branch, 0] + offset + math.exp(log_scale) * deviation
            lengths[tree, branch] = math.exp(max(min(log_length, LARGEST_LOG_LENGTH), -LARGEST_LOG_LENGTH))
            total -= log_length + log_scale + 0.5 * deviation * deviation + HALF_LOG_TWO_PI
        log_densities[tree] = total


@kernel
def sample_lognormal_backward(
    parameters: RealArray,
    noise: FloatArray,
    lengths: FloatArray,
    length_gradient: FloatArray,
    density_gradient: FloatArray,
    path_only: bool,
    parameters_gradient: RealArray,
) -> None:
    """The gradient for location and log scale, from those for lengths and log-densities; the noise is fixed.

    path_only: the density's parameters are held constant, so that it depends on them through the lengths alone.
    """
    batch, branches, _ = parameters.shape
    for tree in range(batch):
        for branch in range(branches):
            scale = math.exp(np.float64(parameters[tree, branch, 1]))
            by_log_length = -density_gradient[tree]
            if path_only:  # the density does not move along, so it falls as the length moves out
                by_log_length *= 1.0 + noise[tree, branch] / scale
            by_log_length += length_gradient[tree, branch] * lengths[tree, branch]
            by_log_scale = by_log_length * scale * noise[tree, branch]
            if not path_only:
                by_log_scale -= density_gradient[tree]
            parameters_gradient[tree, branch, 0] = by_log_length
            parameters_gradient[tree, branch, 1] = by_log_scale


@kernel
def sum_rows(table: FloatArray, rows: IntArray, sums: FloatArray) -> None:
    """sums[i] = Σ_k table[rows[i, k]], skipping rows of -1."""
    for place in range(len(rows)):
        for column in range(sums.shape[1]):
            total = 0.0
            for term in range(rows.shape[1]):
                if rows[place, term] >= 0:
                    total += table[rows[place, term], column]
            sums[place, column] = total


@kernel
def sum_rows_backward(gradient: FloatArray, rows: IntArray, table_gradient: FloatArray) -> None:
    """Add the gradient of `sum_rows` to that of the table."""
    for place in range(len(rows)):
        for term in range(rows.shape[1]):
            if rows[place, term] >= 0:
                for column in range(gradient.shape[1]):
                    table_gradient[rows[place, term], column] += gradient[place, column]
