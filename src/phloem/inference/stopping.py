"""When training is done: all steps taken or, if the config says so, a bound that has stopped rising."""

from collections.abc import Sequence

import numpy as np

from phloem.config import TrainingConfig
from phloem.inference.history import Report

WINDOW = 10  # reports at full temperature that are looked at
LEAST_RISE = 0.05  # nats over the window: less than the error of most marginal likelihoods


def is_done(steps_done: int, reports: Sequence[Report], config: TrainingConfig) -> bool:
    """Whether training ends here. It depends on nothing but the steps and reports so far, so a resumed run agrees."""
    return steps_done >= config.steps or (config.stop == "auto" and is_flat(reports))


def is_flat(reports: Sequence[Report]) -> bool:
    """Whether a straight line through the bounds of the last reports, all at full temperature, rises no more."""
    last = [report for report in reports[-WINDOW:] if report.inverse_temperature == 1]
    if len(last) < WINDOW:
        return False
    place = np.arange(WINDOW) - (WINDOW - 1) / 2
    slope = place @ np.array([report.lower_bound for report in last]) / (place @ place)
    return bool(slope * WINDOW < LEAST_RISE)  # never for bounds that are no numbers
