"""Training a density: one step after the other, and how good it is on its way."""

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from phloem.arrays import AnyArray
from phloem.config.density import DensityConfig
from phloem.energy.density import Normalizer, estimate, log_sum
from phloem.energy.model import EnergyModel, Unnormalized
from phloem.energy.nce import Batches, contrast
from phloem.energy.noise import MOST_TAXA_TO_LIST, ListedNoise, Noise, choose_base
from phloem.errors import BadArgument
from phloem.inference.training import Adam, decay_at
from phloem.random_streams import RandomStream
from phloem.runs.driver import Trainable, report_steps, take_steps
from phloem.runs.history import History
from phloem.trees.generation import all_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch, TopologyIndex


class DensityReport(NamedTuple):
    """A row of a density's history."""

    step: int
    seconds: float  # of training, over all sessions
    loss: float  # the mean over the steps since the last report
    expected_loss: float  # over all topologies; not a number where these are too many
    log_normalizer: float  # of the model as it is: what is still to be taken off its log-probabilities
    normalizer_error: float  # standard error of that; 0 where all topologies were summed
    divergence: float  # Kullback–Leibler, from the sample to the normalised model

    @property
    def note(self) -> str:
        """What a progress bar says of it."""
        return f"loss {self.loss:.4f}   divergence {self.divergence:.4f}"

    @classmethod
    def recent_name(cls) -> str:
        """What the history holds of the steps between two reports."""
        return "losses"

    @classmethod
    def from_row(cls, row: Sequence[float | str]) -> "DensityReport":
        """From the numbers of a table's row, or their text."""
        step, *rest = row
        return cls(int(step), *map(float, rest))


class Appraisal(NamedTuple):
    """How a density compares with a sample."""

    normalizer: Normalizer
    expected_loss: float | None  # J over all topologies; None if these are too many
    divergence: float  # Kullback–Leibler, from the sample to the normalised density


class Appraiser:
    """Compares densities with a sample: over all topologies if they are few, else with draws of the noise."""

    def __init__(self, sample: TreeSample, noise: Noise, *, ratio: float, draws: int) -> None:
        observed = sample.distinct().normalized()
        self._observed = observed[observed.weights > 0]
        self._noise, self._ratio, self._draws = noise, ratio, draws
        self._all = few_topologies(noise)
        if self._all is not None:
            self._places = TopologyIndex(self._all).find(self._observed.topologies)
            self._data = np.zeros(len(self._all))
            self._data[self._places] = self._observed.weights
            self._log_noise = noise.log_prob(self._all)

    def __call__(self, density: Unnormalized, *, stream: RandomStream) -> Appraisal:
        """Appraise a density; the stream is for draws of the noise."""
        if self._all is None:
            normalizer = estimate(density, self._noise, self._draws, stream=stream)
            log_observed = density.log_density(self._observed.topologies)
            loss = None
        else:
            log_model = density.log_density(self._all)
            normalizer = Normalizer(log_sum(log_model), 0.0, len(self._all))
            log_observed = log_model[self._places]
            loss = contrast(log_model, self._log_noise, self._data, np.exp(self._log_noise), self._ratio).loss
        weights = self._observed.weights
        apart = float(weights @ (np.log(weights) - log_observed + normalizer.log_value))
        return Appraisal(normalizer, loss, apart)


def few_topologies(noise: Noise) -> TopologyBatch | None:
    """All topologies with positive density under this noise, if they are few enough to enumerate at every report."""
    if isinstance(noise, ListedNoise):
        return noise.listed
    return all_topologies(noise.taxon_count) if noise.taxon_count <= MOST_TAXA_TO_LIST else None


class DensityStep(NamedTuple):
    """The outcome of a step."""

    step: int  # counted from 1
    loss: float  # of its batch, before the parameters moved
    skipped: bool  # the loss or its gradient was not finite, and the parameters did not move

    @property
    def value(self) -> float | None:
        """The loss, for the history; None if the step was skipped."""
        return None if self.skipped else self.loss


class DensityTraining(Trainable):
    """An energy model being trained on a sample. A step's random numbers depend on the seed and its number alone."""

    name = "density"
    value = "loss"

    def __init__(
        self, sample: TreeSample, noise: Noise, config: DensityConfig, *, model: EnergyModel | None = None
    ) -> None:
        """model: replaces the one described by the config, for example one with your own convolution."""
        super().__init__(config.steps)
        if noise.taxon_count != len(sample.taxa):
            raise BadArgument(f"density: noise on {noise.taxon_count} taxa for trees on {len(sample.taxa)}.")
        self.config = config
        self.noise = noise
        self._batches = Batches(sample, noise, size=config.batch, ratio=config.noise_ratio, seed=config.seed)
        model = new_model(len(sample.taxa), config) if model is None else model
        self.density = Unnormalized(model, choose_base(noise, config))
        self._adam = Adam(model.parameters(), clipping=config.clipping)
        self.advice = f"Use a lower learning rate (--rate {config.rate / 3:.1g})."

    def step(self) -> DensityStep:
        """Draw trees of the data and of the noise, and move the parameters to discriminate between them."""
        number = self._next_step()
        loss = self.gradients(number)
        moved = math.isfinite(loss) and self._adam.step(self.config.rate * decay_at(number, self.config))
        self._count(number, moved)
        return DensityStep(number, loss, not moved)

    def gradients(self, number: int) -> float:
        """Set the parameters' gradients for a step; returns the loss."""
        batch = self._batches.at(number)
        energy = self.density.model.energy(batch.states, batch.graph)
        base = self.density.base
        log_base = batch.log_noise if base is self.noise else base.log_prob(batch.topologies)
        log_model = log_base - energy.detach().numpy()
        found = contrast(log_model, batch.log_noise, batch.data, batch.noise, self.config.noise_ratio)
        self._adam.clear_gradients()
        energy.backward(torch.from_numpy(-found.gradient).to(energy.dtype))  # type: ignore[no-untyped-call]
        return found.loss

    def state(self) -> dict[str, AnyArray]:
        """Everything the next step depends on besides the config, the sample and the noise."""
        return {
            **{f"model.{name}": tensor.detach().numpy() for name, tensor in self.density.model.state_dict().items()},
            **{f"adam.{name}": array for name, array in self._adam.state().items()},
            "counters": self._counters(),
        }


class DensityReporter:
    """Evaluates a density during its training."""

    def __init__(self, training: DensityTraining, appraise: Appraiser) -> None:
        self.steps = report_steps(training.steps, training.config.reports)
        self._training = training
        self._appraise = appraise

    def __call__(self, history: History[DensityReport], start: float) -> DensityReport:
        """The report after the last step. start: when the clock of the training began."""
        training = self._training
        step = training.steps_done
        found = self._appraise(training.density, stream=RandomStream(training.config.seed, "density/report", step))
        return DensityReport(
            step=step,
            seconds=time.monotonic() - start,
            loss=history.recent_mean,
            expected_loss=math.nan if found.expected_loss is None else found.expected_loss,
            log_normalizer=found.normalizer.log_value,
            normalizer_error=found.normalizer.error,
            divergence=found.divergence,
        )


def train_density(
    training: DensityTraining, appraise: Appraiser, *, history: History[DensityReport] | None = None
) -> list[DensityReport]:
    """Take the steps that are left, with reports on the way; for a run with checkpoints see `runs.driver.train`.

    history: of the steps that were taken before; it is extended.
    """
    history = History(DensityReport) if history is None else history
    for _ in take_steps(training, DensityReporter(training, appraise), history):
        pass
    return history.reports


def new_model(taxon_count: int, config: DensityConfig) -> EnergyModel:
    """A model with initial parameters that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(RandomStream(config.seed, "density/parameters").generator().integers(2**63)))
        return EnergyModel(taxon_count, config.convolution, depth=config.depth, width=config.width)
