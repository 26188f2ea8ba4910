"""Vertical axes for values that fall over decades: a divergence, or how far a loss is above the best one."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from phloem.kernels.arrays import FloatArray
from phloem.report.scales import Tick, log_ticks
from phloem.report.wording import powers_of_ten

MARGIN = 0.08  # decades above and below all values
LINEAR = 0.7  # decades' height that a logarithmic axis spends on what is below its threshold, down to 0
BELOW = 0.2  # decades' height below 0, so that a line at 0 is no edge
LEAST_THRESHOLD, USUAL_THRESHOLD = -9, -3


class LogAxis(NamedTuple):
    """Logarithms to base 10; what is not above 0 lies at the lower end."""

    low: float
    high: float

    def percents(self, values: FloatArray) -> FloatArray:
        """Heights above the lower end, in percent of the axis."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(values <= 0, self.low, np.log10(values))
        return np.asarray(100 * (np.maximum(logs, self.low) - self.low) / (self.high - self.low))

    def ticks(self) -> list[Tick]:
        """Powers of ten, and numbers between them where there are few."""
        return log_ticks(self.low, self.high)


class ExcessAxis(NamedTuple):
    """Linear from 0 to a power of ten, logarithmic from there on, so that both 0 and every decade are seen."""

    threshold: int
    high: float  # a logarithm

    def percents(self, values: FloatArray) -> FloatArray:
        """Heights above the lower end, in percent of the axis."""
        relative = values / 10.0**self.threshold
        with np.errstate(divide="ignore", invalid="ignore"):
            heights = np.where(relative < 1, LINEAR * relative, LINEAR + np.log10(relative))
        return np.asarray(100 * (np.maximum(heights, -BELOW) + BELOW) / (LINEAR + self.high - self.threshold + BELOW))

    def powers(self) -> list[int]:
        """Of ten, from the threshold on: where the axis has ticks, besides 0."""
        return list(range(self.threshold, math.floor(self.high) + 1))

    def ticks(self) -> list[Tick]:
        """0 and the powers of ten."""
        places = self.percents(np.array([0.0, *(10.0**power for power in self.powers())])).tolist()
        return [Tick(place, label) for place, label in zip(places, ["0", *powers_of_ten(self.powers())], strict=True)]


def log_axis(values: Iterable[float]) -> LogAxis:
    """An axis on which every value above 0 has its place."""
    logs = [math.log10(value) for value in values if value > 0 and math.isfinite(value)] or [0.0]
    return LogAxis(min(logs) - MARGIN, max(logs) + MARGIN)


def excess_axis(values: Iterable[float]) -> ExcessAxis:
    """An axis whose threshold is not above any value that is above 0, as far as double precision can be trusted."""
    logs = [math.log10(value) for value in values if value > 0 and math.isfinite(value)] or [USUAL_THRESHOLD]
    threshold = max(math.floor(min(logs)), LEAST_THRESHOLD)
    return ExcessAxis(threshold, max(max(logs), threshold + 1) + MARGIN)
