"""Training: one step after the other, each a function of the parameters, the seed and the step's number."""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from phloem.config import EvaluationConfig, TrainingConfig
from phloem.errors import BadArgument, TrainingFailed
from phloem.inference.adam import Adam
from phloem.inference.estimators import ESTIMATORS, doubly_reparameterized
from phloem.inference.evaluation import draw_log_weights
from phloem.inference.particles import check_same_taxa, draw_particles
from phloem.inference.schedules import settings_at
from phloem.random_streams import RandomStream
from phloem.target.posterior import TreePosterior
from phloem.variational.joint import JointModel

MOST_SKIPPED_IN_A_ROW = 100


class StepInfo(NamedTuple):
    """What a step saw."""

    step: int  # counted from 1
    inverse_temperature: float
    lower_bound: float  # of the tempered target, before the parameters moved
    skipped: bool  # the bound or its gradient was no finite number, and some parameters stayed where they were


class Training:
    """A model on its way to the target. Given the config and the seed, the n-th step has its own random numbers."""

    def __init__(self, model: JointModel, target: TreePosterior, config: TrainingConfig, *, seed: int) -> None:
        check_same_taxa(model, target)
        self.model = model
        self.target = target
        self.config = config
        self.seed = seed
        self.steps_done = 0
        self._skipped_in_a_row = 0
        self._stream = RandomStream(seed, "training")
        self._estimator = ESTIMATORS[config.estimator]
        self._topology_adam = Adam(model.network.parameters())
        self._branch_adam = Adam(model.branches.parameters(), clipping=config.clipping)

    def step(self) -> StepInfo:
        """Draw particles, estimate the bound's gradient, and move the parameters along it."""
        number = self.steps_done + 1
        if number > self.config.steps:
            raise BadArgument(f"training: all {self.config.steps:,} steps are done. Give the config more steps.")
        inverse_temperature, branch_rate, topology_rate = settings_at(number, self.config)
        lower_bound = self.gradients(number, inverse_temperature)
        moved = math.isfinite(lower_bound)
        if moved:
            moved = self._topology_adam.step(topology_rate) & self._branch_adam.step(branch_rate)
        self._skipped_in_a_row = 0 if moved else self._skipped_in_a_row + 1
        if self._skipped_in_a_row == MOST_SKIPPED_IN_A_ROW:
            raise TrainingFailed(
                f"training, step {number:,}: the last {MOST_SKIPPED_IN_A_ROW} steps gave no finite bound or gradient. "
                "Use a lower learning rate, or more steps, which make the warm-up longer."
            )
        self.steps_done = number
        return StepInfo(number, inverse_temperature, lower_bound, not moved)

    def gradients(self, number: int, inverse_temperature: float) -> float:
        """Leave a step's gradients with the parameters, the other way round as Adam descends; returns the bound."""
        particles = draw_particles(
            self.model,
            self.target,
            self.config.particles,
            stream=self._stream.at(number),
            inverse_temperature=inverse_temperature,
            path_only=self.config.doubly_reparameterized,
        )
        estimate = self._estimator(particles.log_weights())
        if self.config.doubly_reparameterized:
            estimate = doubly_reparameterized(estimate)
        self._topology_adam.clear_gradients()
        self._branch_adam.clear_gradients()
        factors = estimate.log_joint, estimate.log_q_topology, estimate.log_q_branches
        torch.autograd.backward(
            [particles.log_joint, particles.log_q_topology, particles.log_q_branches],
            [torch.from_numpy(-factor) for factor in factors],
        )
        return estimate.lower_bound


class Report(NamedTuple):
    """A line of the history."""

    step: int
    seconds: float  # since training began
    inverse_temperature: float
    lower_bound: float  # of the tempered target, the mean over the steps since the last report
    elbo: float  # of the target itself


def train(
    training: Training, evaluation: EvaluationConfig, *, progress: Callable[[Report], None] | None = None
) -> list[Report]:
    """Take the steps that are left; every now and then look how good the model is."""
    start = time.monotonic()
    steps = training.config.steps
    looks = {share * steps // evaluation.reports for share in range(1, evaluation.reports + 1)}
    stream = RandomStream(training.seed, "report")
    history: list[Report] = []
    bounds: list[float] = []
    while training.steps_done < steps:
        info = training.step()
        bounds.append(info.lower_bound)
        if info.step in looks:
            log_weights = draw_log_weights(
                training.model, training.target, evaluation.report_samples, stream=stream.at(info.step)
            )
            seconds = time.monotonic() - start
            elbo = float(log_weights.mean())
            history.append(Report(info.step, seconds, info.inverse_temperature, float(np.mean(bounds)), elbo))
            bounds.clear()
            if progress:
                progress(history[-1])
    return history
