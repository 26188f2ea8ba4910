"""A curve in one line of block characters."""

import math
from collections.abc import Sequence
from itertools import pairwise

BLOCKS = "▁▂▃▄▅▆▇█"
FARTHEST = 5.0  # in logarithms: what is about 150 units away, or more, is at the bottom or the top


def sparkline(values: Sequence[float], width: int) -> str:
    """The values as blocks, at most `width` of them; where there are more values, a block is the mean of a few.

    Heights are the signed logarithms of the distances from where the values have been lately, in units of how much
    they vary there, and no more than `FARTHEST`: a far start is pressed together, and the last part still shows its
    ups and downs.
    """
    points = _means([value for value in values if math.isfinite(value)], width)
    if not points:
        return ""
    recent = points[-max(4, len(points) // 4) :]
    center = sorted(recent)[len(recent) // 2]
    unit = sum(abs(value - center) for value in recent) / len(recent) or 1.0
    distances = [(value - center) / unit for value in points]
    heights = [math.copysign(min(math.log1p(abs(distance)), FARTHEST), distance) for distance in distances]
    low, high = min(heights), max(heights)
    if low == high:
        return BLOCKS[len(BLOCKS) // 2] * len(points)
    return "".join(BLOCKS[round((height - low) / (high - low) * (len(BLOCKS) - 1))] for height in heights)


def _means(values: list[float], width: int) -> list[float]:
    """The values in order, in at most `width` groups of about the same size, each by its mean."""
    groups = min(len(values), width)
    edges = [group * len(values) // groups for group in range(groups + 1)] if groups > 0 else []
    return [sum(values[start:end]) / (end - start) for start, end in pairwise(edges)]
