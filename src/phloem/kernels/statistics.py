"""Statistics of weighted values in groups: means, medians and shortest intervals."""

import numpy as np

from phloem.arrays import FloatArray, IntArray, LongArray
from phloem.kernels.jit import kernel

# Shares are sums of many weights: one this close to a threshold has not crossed it.
ROUNDING = 1e-9


@kernel
def interval_places(cumulative: FloatArray, values: FloatArray, share: float) -> tuple[int, int]:
    """First and last place of the narrowest run of sorted values that holds more than `share` of the weight.

    `cumulative` is (values + 1,), from zero to the total weight. Of equally narrow runs the first is taken; if none
    holds more than the share, all values are.
    """
    count = len(values)
    needed = (share + ROUNDING) * cumulative[count]
    first, last = 0, count - 1
    narrowest = np.inf
    end = 0
    for start in range(count):
        while end < count and not cumulative[end + 1] - cumulative[start] > needed:
            end += 1
        if end == count:
            break
        width = values[end] - values[start]
        if width < narrowest:
            narrowest = width
            first, last = start, end
    return first, last


@kernel
def middle(cumulative: FloatArray, values: FloatArray) -> float:
    """The median of sorted values, with half of the weight on either side; where two qualify, their midpoint."""
    total = cumulative[len(values)]
    lower = 0
    while cumulative[lower + 1] < (0.5 - ROUNDING) * total:
        lower += 1
    upper = lower
    while cumulative[upper + 1] <= (0.5 + ROUNDING) * total:
        upper += 1
    return 0.5 * (values[lower] + values[upper])


@kernel
def describe(values: FloatArray, weights: FloatArray, share: float, statistics: FloatArray) -> None:
    """Mean, standard deviation, median, and both ends of the shortest interval of sorted values."""
    count = len(values)
    scale = 0.0  # tiny weights would lose digits in products
    for weight in weights:
        scale = max(scale, weight)
    cumulative = np.empty(count + 1)
    cumulative[0] = 0.0
    total = 0.0
    for place in range(count):
        weight = weights[place] / scale
        cumulative[place + 1] = cumulative[place] + weight
        total += weight * values[place]
    mean = total / cumulative[count]
    spread = 0.0
    for place in range(count):
        spread += weights[place] / scale * (values[place] - mean) ** 2
    first, last = interval_places(cumulative, values, share)
    statistics[0] = mean
    statistics[1] = np.sqrt(spread / cumulative[count])
    statistics[2] = middle(cumulative, values)
    statistics[3] = values[first]
    statistics[4] = values[last]


@kernel
def describe_groups(
    values: FloatArray,
    order: LongArray,
    weights: FloatArray,
    kind: IntArray,
    groups: IntArray,
    group_count: int,
    share: float,
) -> FloatArray:
    """`describe` for every group, (groups, 5); value (row, column) has the row's weight and is in groups[kind, column].

    `order` sorts all values at once; dealt out to the groups in that order they are sorted there too. Rows of zero
    weight are left out; groups left empty get nan.
    """
    rows, columns = values.shape
    starts = np.zeros(group_count + 1, np.int64)
    for row in range(rows):
        if weights[row] > 0:
            for column in range(columns):
                starts[groups[kind[row], column] + 1] += 1
    for group in range(group_count):
        starts[group + 1] += starts[group]
    following = starts[:-1].copy()
    dealt = np.empty(starts[group_count])
    dealt_weights = np.empty(starts[group_count])
    for place in order:
        row, column = place // columns, place % columns
        if weights[row] > 0:
            group = groups[kind[row], column]
            dealt[following[group]] = values[row, column]
            dealt_weights[following[group]] = weights[row]
            following[group] += 1
    statistics = np.full((group_count, 5), np.nan)
    for group in range(group_count):
        start, stop = starts[group], starts[group + 1]
        if stop > start:
            describe(dealt[start:stop], dealt_weights[start:stop], share, statistics[group])
    return statistics
