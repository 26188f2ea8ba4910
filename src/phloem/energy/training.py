"""Training a density: one step after the other, each a function of the parameters, the seed and the step's number."""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from phloem.config.density import DensityConfig
from phloem.energy.appraisal import Appraiser
from phloem.energy.batches import Batches
from phloem.energy.model import EnergyModel, Unnormalized
from phloem.energy.nce import contrast
from phloem.energy.noise import Noise
from phloem.energy.noise_choice import choose_base
from phloem.energy.records import DensityReport
from phloem.errors import BadArgument
from phloem.inference.adam import Adam
from phloem.inference.history import StepHistory
from phloem.inference.loop import looks_of, take_steps
from phloem.inference.schedules import decay_at
from phloem.inference.states import CountedSteps
from phloem.kernels.arrays import AnyArray
from phloem.random_streams import RandomStream
from phloem.trees.sample import TreeSample


class DensityHistory(StepHistory[DensityReport]):
    """The history of a density's training: `recent` has the losses of the steps since the last report."""

    report_type = DensityReport


class DensityStep(NamedTuple):
    """What a step saw."""

    step: int  # counted from 1
    loss: float  # of its batch, before the parameters moved
    skipped: bool  # the loss or its gradient was no finite number, and the parameters stayed where they were


class DensityTraining(CountedSteps):
    """A model on its way to a sample. Given the config and the seed, the n-th step has its own random numbers."""

    name = "density"
    value = "loss"
    advice = "Use a lower learning rate (--rate 0.0003)."

    def __init__(
        self, sample: TreeSample, noise: Noise, config: DensityConfig, *, model: EnergyModel | None = None
    ) -> None:
        """model: in place of the one that the config describes, such as one with a convolution of your own."""
        super().__init__()
        if noise.taxon_count != len(sample.taxa):
            raise BadArgument(f"density: noise on {noise.taxon_count} taxa for trees on {len(sample.taxa)}.")
        self.config = config
        self.noise = noise
        self._batches = Batches(sample, noise, size=config.batch, ratio=config.noise_ratio, seed=config.seed)
        model = new_model(len(sample.taxa), config) if model is None else model
        self.density = Unnormalized(model, choose_base(noise, config))
        self._adam = Adam(model.parameters(), clipping=config.clipping)

    def step(self) -> DensityStep:
        """Draw trees of the data and of the noise, and move the parameters so as to tell them better apart."""
        number = self._next_step(self.config.steps)
        loss = self.gradients(number)
        moved = math.isfinite(loss) and self._adam.step(self.config.rate * decay_at(number, self.config))
        self._count(number, moved)
        return DensityStep(number, loss, not moved)

    def gradients(self, number: int) -> float:
        """Leave a step's gradients with the parameters; returns the loss."""
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
        """All that the next step depends on, besides the config, the sample and the noise."""
        return {
            **{f"model.{name}": tensor.detach().numpy() for name, tensor in self.density.model.state_dict().items()},
            **{f"adam.{name}": array for name, array in self._adam.state().items()},
            "counters": self._counters(),
        }


def train_density(
    training: DensityTraining,
    appraise: Appraiser,
    *,
    history: DensityHistory | None = None,
    progress: Callable[[DensityReport], None] | None = None,
    after_step: Callable[[DensityStep], None] | None = None,
) -> list[DensityReport]:
    """Take the steps that are left; every now and then see how good the density is.

    history: of the steps that were taken before; it is carried on.
    """
    history = DensityHistory() if history is None else history
    config = training.config

    def look(start: float) -> DensityReport:
        step = training.steps_done
        found = appraise(training.density, stream=RandomStream(config.seed, "density/report", step))
        return DensityReport(
            step=step,
            seconds=time.monotonic() - start,
            loss=float(np.mean(history.recent)) if history.recent else math.nan,
            expected_loss=math.nan if found.expected_loss is None else found.expected_loss,
            log_normalizer=found.normalizer.log_value,
            normalizer_error=found.normalizer.error,
            divergence=found.divergence,
        )

    return take_steps(
        training,
        history,
        looks=looks_of(config.steps, config.reports),
        look=look,
        value_of=lambda info: None if info.skipped else info.loss,
        is_done=lambda: training.steps_done >= config.steps,
        progress=progress,
        after_step=after_step,
    )


def new_model(taxon_count: int, config: DensityConfig) -> EnergyModel:
    """First parameters, by the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(RandomStream(config.seed, "density/parameters").generator().integers(2**63)))
        return EnergyModel(taxon_count, config.convolution, depth=config.depth, width=config.width)
