"""What a training reports and what an experiment has found; no torch, so that a figure need not wait for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from phloem.kernels.arrays import FloatArray


class DensityReport(NamedTuple):
    """A line of a density's history."""

    step: int
    seconds: float  # of training, over all sessions
    loss: float  # the mean over the steps since the last report
    expected_loss: float  # over all topologies; not a number where these are too many
    log_normalizer: float  # of the model as it is: what is still to be taken off its log-probabilities
    normalizer_error: float  # standard error of that; 0 where all topologies were summed
    divergence: float  # Kullback–Leibler, from the sample to the normalised model

    @classmethod
    def from_row(cls, row: Sequence[float | str]) -> "DensityReport":
        """From the numbers of a table's row, or their text."""
        step, *rest = row
        return cls(int(step), *map(float, rest))


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """One training of the experiment: a variant with a seed. Losses are those of all topologies, not of batches."""

    convolution: str  # gcn, gin, sage, ggnn, edge or mlp
    seed: int
    seconds: float
    steps: tuple[int, ...]  # when it was looked at
    losses: tuple[float, ...]  # the expected loss at these steps
    divergences: tuple[float, ...]  # KL(target ‖ model), the model normalised over all topologies
    log_probabilities: FloatArray  # (topologies,)  of the trained model, normalised, in the order of the target


@dataclass(frozen=True, slots=True, eq=False)
class DensityExperiment:
    """The paper's experiment: variants trained to a known target over all topologies of a few taxa."""

    taxa: int
    target: FloatArray  # (topologies,)  probabilities that sum to one; many may be 0
    best_loss: float  # J*, which no model can go below
    planned_steps: int
    repeats: tuple[Repeat, ...]
