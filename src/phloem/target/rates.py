"""Parameters of substitution models as the numbers that the likelihood's kernel takes, and derivatives back to them.

All of it is a handful of small matrices for each model, and arrays over all models: as tensors with gradients of their
own they would take longer than the likelihood does.
"""

from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.kernels.likelihood.pruning import Derivatives, Rates
from phloem.target.substitution import PAIRS, Method, discrete_gamma, discrete_gamma_slope, gamma_table

ROWS, COLUMNS = (np.array(ends) for ends in zip(*PAIRS, strict=True))
LANES = 4  # categories that the kernel takes at a time


class Parameters(NamedTuple):
    """The parameters of some models, or derivatives with respect to them."""

    exchangeabilities: FloatArray  # (models, 6)
    frequencies: FloatArray  # (models, 4)
    shape: FloatArray | None  # (models,)  of a gamma distribution of rates, if there is one
    invariant: FloatArray  # (models,)


class ModelRates:
    """The spectra of rate matrices and the categories of some models: one for all trees, or one for each."""

    def __init__(self, parameters: Parameters, *, categories: int, method: Method) -> None:
        self._parameters = parameters
        self._categories, self._method = categories, method
        frequencies, models = parameters.frequencies, len(parameters.frequencies)
        self._symmetric = np.zeros((models, 4, 4))
        self._symmetric[:, ROWS, COLUMNS] = self._symmetric[:, COLUMNS, ROWS] = parameters.exchangeabilities
        rates = self._symmetric * frequencies[:, None]
        leaving = rates.sum(axis=2)
        self._mean = (frequencies * leaving).sum(axis=1)
        rates[:, range(4), range(4)] -= leaving
        self.rate_matrix = rates / self._mean[:, None, None]
        root = np.sqrt(frequencies)
        balanced = root[:, :, None] * self.rate_matrix / root[:, None]  # symmetric, but for rounding
        values, vectors = np.linalg.eigh((balanced + balanced.swapaxes(1, 2)) / 2)
        values[:, -1] = 0.0  # the largest is zero but for rounding
        right, left = vectors / root[:, :, None], vectors.swapaxes(1, 2) * root[:, None]
        self._variable = 1.0 - parameters.invariant
        category_rates = self._category_rates(models)
        self._count = category_rates.shape[1]
        weights = np.repeat(self._variable[:, None] / self._count, self._count, axis=1)
        self._category_speeds = category_rates / self._variable[:, None]
        tables = Rates(
            frequencies=frequencies,
            values=values,
            coefficients=right.swapaxes(1, 2)[:, :3, :, None] * left[:, :3, None, :],
            right=right,
            left=left,
            # The kernel takes one category or four at a time: the last one fills up, with no weight.
            rates=_filled_up(self._category_speeds, self._category_speeds[:, -1:]),
            weights=_filled_up(weights, 0.0),
            invariant=parameters.invariant[:, None] * frequencies,
        )
        self.tables = Rates(*(np.ascontiguousarray(array[:, None]) for array in tables))

    def _category_rates(self, models: int) -> FloatArray:
        """Before some of the sites are invariant, (models, categories)."""
        shape = self._parameters.shape
        if shape is None:
            return np.ones((models, 1))
        if models == 1:
            return discrete_gamma(float(shape[0]), self._categories, self._method)[None]
        rates, self._slopes = gamma_table(self._categories, self._method)(shape)
        return rates

    def gradients(self, found: Derivatives, of_trees: FloatArray) -> Parameters:
        """Derivatives with respect to the parameters, from those of each tree and how much each tree counts.

        One model takes them from all trees, each of several from its own.
        """
        columns = [array[:, 0] for array in found[1:]]
        if len(self.rate_matrix) == 1:
            weighed = [(of_trees @ array)[None] for array in columns]
        else:
            weighed = [of_trees[:, None] * array for array in columns]
        of_inner, of_rates, of_weights, of_frequencies, of_invariant = weighed
        left, right = self.tables.left[:, 0], self.tables.right[:, 0]
        by_matrix = left.swapaxes(1, 2) @ of_inner.reshape(-1, 4, 4) @ right.swapaxes(1, 2)
        by_mean = -(by_matrix * self.rate_matrix).sum(axis=(1, 2)) / self._mean
        diagonal = by_matrix[:, range(4), range(4)]
        # What enters a row leaves its diagonal.
        by_rate = (by_matrix - diagonal[:, :, None]) / self._mean[:, None, None]
        frequencies = self._parameters.frequencies
        outer = frequencies[:, :, None] * frequencies[:, None]
        by_symmetric = by_rate * frequencies[:, None] + by_mean[:, None, None] * outer
        by_frequency = (by_rate * self._symmetric).sum(axis=1)
        by_frequency += 2.0 * by_mean[:, None] * (self._symmetric @ frequencies[:, :, None])[:, :, 0]
        by_frequency += of_frequencies + self._parameters.invariant[:, None] * of_invariant
        by_category_rate = of_rates[:, : self._count]
        by_shape = None
        if self._parameters.shape is not None:
            by_shape = (by_category_rate * self._shape_slopes()).sum(axis=1) / self._variable
        by_invariant = (by_category_rate * self._category_speeds).sum(axis=1) / self._variable
        by_invariant += (of_invariant * frequencies).sum(axis=1) - of_weights[:, : self._count].mean(axis=1)
        by_exchangeability = by_symmetric[:, ROWS, COLUMNS] + by_symmetric[:, COLUMNS, ROWS]
        return Parameters(by_exchangeability, by_frequency, by_shape, by_invariant)

    def _shape_slopes(self) -> FloatArray:
        shape = self._parameters.shape
        assert shape is not None
        if len(shape) > 1:
            return self._slopes
        return discrete_gamma_slope(float(shape[0]), self._categories, self._method)[None]


def _filled_up(values: FloatArray, filling: FloatArray | float) -> FloatArray:
    """A multiple of four columns, or one."""
    models, count = values.shape
    if count == 1:
        return values
    filled = np.empty((models, -(-count // LANES) * LANES))
    filled[:, :count], filled[:, count:] = values, filling
    return filled
