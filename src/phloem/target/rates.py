"""Parameters of substitution models as the numbers that the likelihood's kernel takes, and derivatives back to them.

All of it is a handful of small matrices for each model, and arrays over all models: as tensors with gradients of their
own they would take longer than the likelihood does.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.autograd import plain_values
from phloem.kernels.likelihood.pruning import Derivatives, Rates
from phloem.target.substitution import (
    PAIRS,
    Method,
    SubstitutionModel,
    discrete_gamma,
    discrete_gamma_slope,
    gamma_table,
)

ROWS, COLUMNS = (np.array(ends) for ends in zip(*PAIRS, strict=True))
LANES = 4  # categories that the kernel takes at a time


class Parameters(NamedTuple):
    """The parameters of models, or derivatives with respect to them: a model for each part of the alignment.

    There is one set of models for all trees, or a set for each.
    """

    exchangeabilities: FloatArray  # (sets, parts, 6)
    frequencies: FloatArray  # (sets, parts, 4)
    shape: FloatArray | None  # (sets, parts)  of a gamma distribution of rates; nan where rates are equal
    invariant: FloatArray  # (sets, parts)
    multiplier: FloatArray  # (sets, parts)  how fast a part evolves


def stacked(models: Sequence[SubstitutionModel]) -> Parameters:
    """The parameters of a model for each part, (parts, …) each, all of them as fast as each other."""
    shapes = [None if model.site_rates.shape is None else model.site_rates.shape.item() for model in models]
    invariants = [model.site_rates.invariant for model in models]
    return Parameters(
        np.stack([plain_values(model.exchangeabilities) for model in models]),
        np.stack([plain_values(model.frequencies) for model in models]),
        None if shapes.count(None) == len(shapes) else np.array([math.nan if s is None else s for s in shapes]),
        np.array([0.0 if found is None else found.item() for found in invariants]),
        np.ones(len(models)),
    )


def repeated(parameters: Parameters, sets: int) -> Parameters:
    """The same models, (parts, …), in so many sets, (sets, parts, …)."""
    shape = parameters.shape
    return Parameters(
        np.repeat(parameters.exchangeabilities[None], sets, axis=0),
        np.repeat(parameters.frequencies[None], sets, axis=0),
        None if shape is None else np.repeat(shape[None], sets, axis=0),
        np.repeat(parameters.invariant[None], sets, axis=0),
        np.repeat(parameters.multiplier[None], sets, axis=0),
    )


def gamma_of(models: Sequence[SubstitutionModel]) -> tuple[int, Method]:
    """How many rate categories there are, which all parts that have any have alike; and how they are chosen."""
    site_rates = next((model.site_rates for model in models if model.site_rates.shape is not None), None)
    return (1, "mean") if site_rates is None else (site_rates.categories, site_rates.method)


def fixed_rates(models: Sequence[SubstitutionModel]) -> "ModelRates":
    """Those of a model for each part, in one set."""
    categories, method = gamma_of(models)
    return ModelRates(repeated(stacked(models), 1), categories=categories, method=method)


class ModelRates:
    """The spectra of rate matrices and the categories of models."""

    def __init__(self, parameters: Parameters, *, categories: int, method: Method) -> None:
        self._parameters = parameters
        self._categories, self._method = categories, method
        frequencies = parameters.frequencies
        self._symmetric = np.zeros((*frequencies.shape, 4))
        self._symmetric[..., ROWS, COLUMNS] = self._symmetric[..., COLUMNS, ROWS] = parameters.exchangeabilities
        rates = self._symmetric * frequencies[..., None, :]
        leaving = rates.sum(axis=-1)
        self._mean = (frequencies * leaving).sum(axis=-1)
        rates[..., range(4), range(4)] -= leaving
        self.rate_matrix = rates / self._mean[..., None, None]
        root = np.sqrt(frequencies)
        balanced = root[..., :, None] * self.rate_matrix / root[..., None, :]  # symmetric, but for rounding
        is_finite = np.isfinite(balanced).all(axis=(-1, -2))  # else `eigh` raises, for all trees
        balanced = np.where(is_finite[..., None, None], balanced, 0.0)
        values, vectors = np.linalg.eigh((balanced + balanced.swapaxes(-1, -2)) / 2)
        values[..., -1] = 0.0  # the largest is zero but for rounding
        values[~is_finite] = np.nan
        right, left = vectors / root[..., :, None], vectors.swapaxes(-1, -2) * root[..., None, :]
        self._variable = 1.0 - parameters.invariant
        category_rates = self._category_rates()
        self._count = category_rates.shape[-1]
        weights = np.repeat(self._variable[..., None] / self._count, self._count, axis=-1)
        self._factor = parameters.multiplier / self._variable
        self._speeds = category_rates * self._factor[..., None]
        tables = Rates(
            frequencies=frequencies,
            values=values,
            coefficients=right.swapaxes(-1, -2)[..., :3, :, None] * left[..., :3, None, :],
            right=right,
            left=left,
            # The kernel takes one category or four at a time: the last one fills up, with no weight.
            rates=_filled_up(self._speeds, self._speeds[..., -1:]),
            weights=_filled_up(weights, 0.0),
            invariant=parameters.invariant[..., None] * frequencies,
        )
        self.tables = Rates(*map(np.ascontiguousarray, tables))

    def _category_rates(self) -> FloatArray:
        """Before some of the sites are invariant and parts differ, (sets, parts, categories)."""
        shape = self._parameters.shape
        if shape is None:
            return np.ones((*self._variable.shape, 1))
        if shape.size == 1:
            rates = discrete_gamma(shape.item(), self._categories, self._method)
            return rates.reshape(1, 1, -1)
        known = np.isfinite(shape)
        rates, self._slopes = np.ones((*shape.shape, self._categories)), np.zeros((*shape.shape, self._categories))
        rates[known], self._slopes[known] = gamma_table(self._categories, self._method)(shape[known])
        return rates

    def gradients(self, found: Derivatives, of_trees: FloatArray) -> Parameters:
        """Derivatives with respect to the parameters, from those of each tree and how much each tree counts.

        One set of models takes them from all trees, each of several from its own.
        """
        if len(self.rate_matrix) == 1:
            weighed = [np.tensordot(of_trees, array, axes=1)[None] for array in found[1:]]
        else:
            weighed = [of_trees[:, None, None] * array for array in found[1:]]
        of_inner, of_rates, of_weights, of_frequencies, of_invariant = weighed
        left, right = self.tables.left, self.tables.right
        inner = of_inner.reshape(*of_inner.shape[:2], 4, 4)
        by_matrix = left.swapaxes(-1, -2) @ inner @ right.swapaxes(-1, -2)
        by_mean = -(by_matrix * self.rate_matrix).sum(axis=(-1, -2)) / self._mean
        diagonal = by_matrix[..., range(4), range(4)]
        # What enters a row leaves its diagonal.
        by_rate = (by_matrix - diagonal[..., :, None]) / self._mean[..., None, None]
        frequencies = self._parameters.frequencies
        outer = frequencies[..., :, None] * frequencies[..., None, :]
        by_symmetric = by_rate * frequencies[..., None, :] + by_mean[..., None, None] * outer
        by_frequency = (by_rate * self._symmetric).sum(axis=-2)
        by_frequency += 2.0 * by_mean[..., None] * (self._symmetric @ frequencies[..., :, None])[..., 0]
        by_frequency += of_frequencies + self._parameters.invariant[..., None] * of_invariant
        by_speed = of_rates[..., : self._count]
        by_shape = None
        if self._parameters.shape is not None:
            by_shape = (by_speed * self._shape_slopes()).sum(axis=-1) * self._factor
        by_logarithm = (by_speed * self._speeds).sum(axis=-1)  # of all speeds together
        by_invariant = by_logarithm / self._variable
        by_invariant += (of_invariant * frequencies).sum(axis=-1) - of_weights[..., : self._count].mean(axis=-1)
        by_exchangeability = by_symmetric[..., ROWS, COLUMNS] + by_symmetric[..., COLUMNS, ROWS]
        by_multiplier = by_logarithm / self._parameters.multiplier
        return Parameters(by_exchangeability, by_frequency, by_shape, by_invariant, by_multiplier)

    def _shape_slopes(self) -> FloatArray:
        shape = self._parameters.shape
        assert shape is not None
        if shape.size > 1:
            return self._slopes
        return discrete_gamma_slope(shape.item(), self._categories, self._method).reshape(1, 1, -1)


def _filled_up(values: FloatArray, filling: FloatArray | float) -> FloatArray:
    """A multiple of four columns, or one."""
    *others, count = values.shape
    if count == 1:
        return values
    filled = np.empty((*others, -(-count // LANES) * LANES))
    filled[..., :count], filled[..., count:] = values, filling
    return filled
