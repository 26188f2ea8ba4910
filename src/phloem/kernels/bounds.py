"""Bounds of a few particles: small loops, where numpy's calls would take longer than the arithmetic."""

import math

import numpy as np

from phloem.kernels.arrays import FloatArray
from phloem.kernels.jit import kernel


@kernel
def log_mean_exp(values: FloatArray) -> float:
    """log (1/K) Σ_i exp(values_i), safe from overflow; -inf where all are."""
    greatest = values.max()
    if greatest == -math.inf:
        return -math.inf
    total = 0.0
    for value in values:
        total += math.exp(value - greatest)
    return greatest + math.log(total / len(values))


@kernel
def leave_one_out_bounds(log_weights: FloatArray) -> FloatArray:
    """For each of K particles the bound with the geometric mean of the others' weights in place of its own, (K,)."""
    count = len(log_weights)
    bounds = np.empty(count)
    replaced = log_weights.copy()
    for particle in range(count):
        others = 0.0
        for other in range(count):
            if other != particle:
                others += log_weights[other]
        replaced[particle] = others / (count - 1)
        bounds[particle] = log_mean_exp(replaced)
        replaced[particle] = log_weights[particle]
    return bounds
