"""Do several runs agree? Their marginal likelihoods and their split frequencies, side by side."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phloem.inference.diagnostics import log_mean_error
from phloem.inference.draws import Draws, shares
from phloem.inference.estimators import lower_bound
from phloem.trees.comparison import SplitDeviation, split_deviation
from phloem.trees.splits import split_frequencies


class Measured(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float


class Agreement(NamedTuple):
    """What several runs found, compared."""

    log_marginal_likelihoods: tuple[Measured, ...]  # of each run, from all its draws
    shares: tuple[float, ...]  # of each run in the combined posterior
    difference: Measured  # between the largest and the smallest of them
    splits: SplitDeviation


def marginal_likelihood(draws: Draws) -> Measured:
    """log (1/S) Σw over all draws."""
    log_weights = draws.log_weights
    return Measured(float(lower_bound(log_weights)), log_mean_error(log_weights))


def compare_runs(runs: Sequence[Draws]) -> Agreement:
    """Compare the draws of several runs."""
    estimates = tuple(marginal_likelihood(run) for run in runs)
    values = [estimate.value for estimate in estimates]
    highest, lowest = int(np.argmax(values)), int(np.argmin(values))
    error = math.hypot(estimates[highest].error, estimates[lowest].error)
    frequencies = [split_frequencies(run.weighted().topology_sample()) for run in runs]
    return Agreement(
        log_marginal_likelihoods=estimates,
        shares=tuple(shares(np.array(values)).tolist()),
        difference=Measured(values[highest] - values[lowest], error if highest != lowest else 0.0),
        splits=split_deviation(frequencies),
    )
