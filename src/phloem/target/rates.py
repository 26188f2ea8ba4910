"""A substitution model's parameters as the numbers that the likelihood's kernel takes, and derivatives back to them.

All of it is a handful of small matrices: as tensors with gradients of their own they would take longer than the
likelihood does.
"""

from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray, RealArray
from phloem.kernels.likelihood.pruning import Derivatives, Rates
from phloem.target.substitution import PAIRS, Method, discrete_gamma, discrete_gamma_slope

ROWS, COLUMNS = (np.array(ends) for ends in zip(*PAIRS, strict=True))
LANES = 4  # categories that the kernel takes at a time


class ParameterGradients(NamedTuple):
    """Derivatives with respect to each parameter of a model."""

    exchangeabilities: FloatArray  # (6,)
    frequencies: FloatArray  # (4,)
    shape: float
    invariant: float


class ModelRates:
    """The spectrum of the rate matrix and the categories of one set of parameters."""

    def __init__(
        self,
        exchangeabilities: RealArray,
        frequencies: RealArray,
        shape: float | None,
        invariant: float | None,
        *,
        categories: int,
        method: Method,
    ) -> None:
        self._shape = shape
        self._invariant = invariant or 0.0
        self._categories, self._method = categories, method
        frequencies = np.array(frequencies, np.float64)
        self._symmetric = np.zeros((4, 4))
        self._symmetric[ROWS, COLUMNS] = self._symmetric[COLUMNS, ROWS] = exchangeabilities
        rates = self._symmetric * frequencies
        leaving = rates.sum(axis=1)
        self._mean = float(frequencies @ leaving)
        self.rate_matrix = (rates - np.diag(leaving)) / self._mean
        root = np.sqrt(frequencies)
        balanced = root[:, None] * self.rate_matrix / root  # symmetric, but for rounding
        values, vectors = np.linalg.eigh((balanced + balanced.T) / 2)
        values[-1] = 0.0  # the largest is zero but for rounding
        right, left = vectors / root[:, None], vectors.T * root
        variable = 1.0 - self._invariant
        category_rates = np.ones(1)
        if shape is not None:
            category_rates = discrete_gamma(shape, categories, method)
        self._count = len(category_rates)
        weights = np.full(self._count, variable / self._count)
        self.tables = Rates(
            frequencies=frequencies,
            values=values,
            coefficients=np.ascontiguousarray(right.T[:3, :, None] * left[:3, None, :]),
            right=np.ascontiguousarray(right),
            left=np.ascontiguousarray(left),
            # The kernel takes one category or four at a time: the last one fills up, with no weight.
            rates=_filled_up(category_rates / variable, category_rates[-1] / variable),
            weights=_filled_up(weights, 0.0),
            invariant=self._invariant * frequencies,
        )

    def gradients(self, found: Derivatives, of_trees: RealArray) -> ParameterGradients:
        """Derivatives with respect to the parameters, from those of each tree and how much each tree counts."""
        tables = self.tables
        of_inner, of_rates, of_weights, of_frequencies, of_invariant = (of_trees @ array for array in found[1:])
        by_matrix = tables.left.T @ of_inner.reshape(4, 4) @ tables.right.T
        by_mean = -float((by_matrix * self.rate_matrix).sum()) / self._mean
        by_rate = (by_matrix - by_matrix.diagonal()[:, None]) / self._mean  # what enters a row leaves its diagonal
        frequencies = tables.frequencies
        by_symmetric = by_rate * frequencies + by_mean * np.outer(frequencies, frequencies)
        by_frequency = (by_rate * self._symmetric).sum(axis=0) + 2.0 * by_mean * (self._symmetric @ frequencies)
        by_frequency += of_frequencies + self._invariant * of_invariant
        by_category_rate, rates = of_rates[: self._count], tables.rates[: self._count]
        variable = 1.0 - self._invariant
        by_shape = 0.0
        if self._shape is not None:
            slope = discrete_gamma_slope(self._shape, self._categories, self._method)
            by_shape = float(by_category_rate @ slope) / variable
        by_invariant = float(by_category_rate @ rates) / variable + float(of_invariant @ frequencies)
        by_invariant -= float(of_weights[: self._count].mean())
        return ParameterGradients(
            by_symmetric[ROWS, COLUMNS] + by_symmetric[COLUMNS, ROWS], by_frequency, by_shape, by_invariant
        )


def _filled_up(values: FloatArray, filling: float) -> FloatArray:
    """A multiple of four values, or one."""
    if len(values) == 1:
        return values
    filled = np.full(-(-len(values) // LANES) * LANES, filling)
    filled[: len(values)] = values
    return filled
