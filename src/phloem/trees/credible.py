"""The most frequent topologies of a sample, up to a share of its weight."""

import numpy as np

from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray
from phloem.trees.sample import TreeSample

# Shares are sums of many weights: a sum that is this near the line has not crossed it.
ROUNDING = 1e-9


def credible_topologies(sample: TreeSample, share: float) -> TreeSample:
    """The sample's distinct topologies, most frequent first, as long as their weights stay within `share` of the total.

    The topology that crosses the line is left out, unless it is the first. Equally frequent ones come as they first
    appear. With a share of 1 all are kept, those of weight zero too.
    """
    if not 0 < share <= 1:
        raise BadArgument(f"credible share {share:g}: give a number above 0 and up to 1.")
    distinct = sample.distinct()
    ordered = distinct[np.argsort(-distinct.weights, kind="stable")]
    if share == 1:
        return ordered
    within = np.cumsum(ordered.normalized().weights) <= share + ROUNDING
    return ordered[: max(1, int(within.sum()))]


def credible_set_size(probabilities: FloatArray, share: float) -> int:
    """How many of the most probable topologies it takes to hold at least `share` of the probability.

    probabilities: in falling order. The one that crosses the line is in.
    """
    if not 0 < share <= 1:
        raise BadArgument(f"credible share {share:g}: give a number above 0 and up to 1.")
    total = np.cumsum(probabilities)
    return min(len(total), 1 + int((total < share * total[-1] - ROUNDING).sum()))
