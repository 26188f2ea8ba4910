"""What a trained density says of single topologies, beside the truth: logarithms to base 10, ready to be drawn."""

import math
from typing import NamedTuple

import numpy as np

from phloem.energy.records import DensityExperiment, Repeat
from phloem.kernels.arrays import FloatArray
from phloem.report.density_variants import Variant
from phloem.report.wording import powers_of_ten

NEGLIGIBLE = 1e-6  # of the target's probability: what the least probable topologies that are left out have together
DEPTH = 4  # decades that estimates may lie below the least target shown; lower ones are drawn at the edge
LOG_TEN = math.log(10)


class Estimates(NamedTuple):
    """Topologies with their true and estimated probabilities, and how many are not among them."""

    variant: Variant
    repeat: Repeat
    target: FloatArray  # (topologies,)
    model: FloatArray  # (topologies,)  not below the range
    zeros: int  # topologies whose target is 0
    tiny: int  # topologies left out because their targets, all below `least`, are negligible even together
    least: int  # a power of ten, not above any target shown
    too_low: int  # topologies whose estimate is below the range
    range: tuple[int, int]  # of the estimates, in whole decades; the targets' is from `least` to the same end

    @property
    def cut(self) -> str:
        """`least` in words."""
        return powers_of_ten([self.least])[0]


def estimates(experiment: DensityExperiment, variant: Variant) -> Estimates:
    """Of the typical repeat. Draws from a Dirichlet with small parameters go down to 1e-300, which no axis can hold."""
    positive = experiment.target > 0
    ordered = np.sort(experiment.target[positive])
    first = int(np.searchsorted(np.cumsum(ordered), NEGLIGIBLE * ordered.sum()))
    least = math.floor(math.log10(ordered[first]) + 1e-9)
    shown = experiment.target >= 10.0**least * (1 - 1e-9)
    target = np.log10(experiment.target[shown])
    model = variant.typical.log_probabilities[shown] / LOG_TEN
    model = np.where(np.isnan(model), -np.inf, model)
    high = math.ceil(max(float(target.max()), float(model.max())) - 1e-9)
    low = math.floor(min(max(float(model.min()), least - DEPTH), least) + 1e-9)
    return Estimates(
        variant=variant,
        repeat=variant.typical,
        target=target,
        model=np.maximum(model, low),
        zeros=int((~positive).sum()),
        tiny=int(positive.sum() - shown.sum()),
        least=least,
        too_low=int((model < low).sum()),
        range=(low, max(high, least + 1)),
    )
