"""What weighted draws say of the substitution model's parameters that were inferred."""

from typing import NamedTuple

import numpy as np

from phloem.arrays import FloatArray
from phloem.target.free_parameters import FreeParameters
from phloem.trees.branch_lengths import describe_groups, tree_lengths
from phloem.trees.sample import GroupedTrees

SHARE = 0.95  # of the weight, which the interval holds


class ParameterEstimate(NamedTuple):
    """A parameter over weighted draws, under MrBayes' name; `lower` to `upper` is the shortest 95 % interval."""

    name: str
    mean: float
    deviation: float  # standard, of the parameter
    median: float
    lower: float
    upper: float
    with_tree_length: float | None  # correlation; None where one of the two does not vary


def parameter_estimates(
    trees: GroupedTrees, theta: FloatArray, parameters: FreeParameters | None
) -> tuple[ParameterEstimate, ...]:
    """Each parameter that is inferred, in their order; none if none are.

    trees: the draws with their weights. theta: their coordinates, (draws, dimension).
    """
    if parameters is None:
        return ()
    values, count = parameters.values(theta), len(parameters.names)
    one = np.zeros(len(trees), np.int32)
    found = describe_groups(values, trees.weights, one, np.arange(count, dtype=np.int32)[None], count, SHARE)
    columns = (column.tolist() for column in found)
    return tuple(map(ParameterEstimate, parameters.names, *columns, _with_tree_length(trees, values)))


def _with_tree_length(trees: GroupedTrees, values: FloatArray) -> list[float | None]:
    """The weighted correlation of each parameter, a column of (draws, parameters), with the tree length."""
    lengths, weights = tree_lengths(trees), trees.weights
    centered, around = values - weights @ values, lengths - weights @ lengths
    covariance = (weights * around) @ centered
    spreads = np.sqrt((weights @ around**2) * (weights @ centered**2))
    scale = np.abs(weights @ values) * np.abs(weights @ lengths)  # what rounding alone leaves is no variation
    return [
        float(np.clip(one / spread, -1.0, 1.0)) if spread > 1e-12 * size else None
        for one, spread, size in zip(covariance, spreads, scale, strict=True)
    ]
