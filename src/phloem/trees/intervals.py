"""Weighted values in a few numbers: mean, standard deviation, median and shortest interval."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from phloem.errors import BadArgument
from phloem.kernels import intervals
from phloem.kernels.arrays import FloatArray, IntArray, read_only


class Statistics(NamedTuple):
    """Of each group of weighted values; `lower` to `upper` is the shortest interval. nan where nothing has weight."""

    mean: FloatArray  # (groups,)
    deviation: FloatArray  # (groups,)  standard, of the weighted values themselves
    median: FloatArray  # (groups,)
    lower: FloatArray  # (groups,)
    upper: FloatArray  # (groups,)


def shortest_interval(values: ArrayLike, weights: ArrayLike | None = None, share: float = 0.95) -> tuple[float, float]:
    """The shortest interval between two of the values that holds more than `share` of the weight.

    This is the highest-density interval of a sample. Without weights all values count the same, and it is the interval
    of the floor(share * n) + 1 neighbours that are nearest to each other, as ArviZ has it. Of equally short ones it is
    the lowest; with a share of 1 it is the whole range. Values without weight are left out.
    """
    _, _, _, lower, upper = _describe(values, weights, share)
    return lower, upper


def weighted_median(values: ArrayLike, weights: ArrayLike | None = None) -> float:
    """The value with half of the weight on either side; halfway between two where both are."""
    return _describe(values, weights, 1.0)[2]


def describe_groups(
    values: FloatArray, weights: FloatArray, kind: IntArray, groups: IntArray, group_count: int, share: float
) -> Statistics:
    """Statistics of many groups at once, O(m log m) for m values.

    values are (rows, columns), weights and kind (rows,), groups (kinds, columns): all values of a row have its weight,
    and the one in a column belongs to group groups[kind, column].
    """
    check_share(share)
    held = read_only(np.ascontiguousarray(values, np.float64))
    statistics = intervals.describe_groups(
        held,
        np.argsort(held, axis=None, kind="stable"),
        read_only(np.ascontiguousarray(weights, np.float64)),
        read_only(np.ascontiguousarray(kind, np.int32)),
        read_only(np.ascontiguousarray(groups, np.int32)),
        group_count,
        float(share),
    )
    return Statistics(*np.ascontiguousarray(statistics.T))


def check_share(share: float) -> None:
    """Raise unless it is a share of the weight that an interval can hold."""
    if not 0 < share <= 1:
        raise BadArgument(f"interval with {share:g} of the weight: give a number above 0 and up to 1.")


def _describe(values: ArrayLike, weights: ArrayLike | None, share: float) -> tuple[float, ...]:
    held = np.asarray(values, np.float64)
    shares = np.ones(held.shape) if weights is None else np.asarray(weights, np.float64)
    if held.ndim != 1 or shares.shape != held.shape:
        raise BadArgument(f"interval: values of shape {held.shape} and weights of {shares.shape}. Give one of each.")
    if not (np.isfinite(held).all() and np.isfinite(shares).all() and (shares >= 0).all() and shares.any()):
        raise BadArgument("interval: finite values are needed, and weights that are not negative and not all zero.")
    one = np.zeros(len(held), np.int32)
    return tuple(
        float(part[0]) for part in describe_groups(held[:, None], shares, one, np.zeros((1, 1), np.int32), 1, share)
    )
