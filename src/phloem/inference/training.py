"""Training: schedules, when to stop, Adam, and the training step.

A step is a function of the parameters, the seed and its own number, so a resumed training takes the same steps.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import nn

from phloem.arrays import AnyArray, FloatArray
from phloem.autograd import check_tensors
from phloem.config import EvaluationConfig, TrainingConfig
from phloem.errors import BadArgument
from phloem.inference.draws import DrawCollector
from phloem.inference.evaluation import draw_log_weights
from phloem.inference.laplace import ParameterStart
from phloem.inference.particles import (
    ESTIMATORS,
    Estimate,
    Estimator,
    Particles,
    check_same_taxa,
    doubly_reparameterized,
    of_held_topologies,
    topology_names,
)
from phloem.inference.refitting import refit_topologies
from phloem.inference.sharing import STEP, share_parameters
from phloem.kernels.training import DECAY, EPSILON, SQUARE_DECAY, adam_update
from phloem.random_streams import RandomStream
from phloem.runs.driver import Trainable, report_steps, take_steps
from phloem.runs.history import History
from phloem.runs.ranks import ALONE, Ranks
from phloem.target.posterior import TreePosterior
from phloem.target.priors import UniformPrior
from phloem.trees.topology import TopologyBatch
from phloem.variational.joint import DrawGradients, JointModel
from phloem.variational.training import TableAdam

HELD_RAMP = 0.4  # of what the settings say: no modes must be found, only lengths that fit
THETA_RATE_FACTOR = 3.0  # of the rate for branch lengths: there are few parameters, and they begin near their places
HELD, LOGITS = "is_held", "model.network.logits"  # in the state
CENTER, FACTOR = "model.theta.center", "model.theta.factor"
WINDOW = 10  # reports at full temperature that decide whether training stops
LEAST_RISE = 0.05  # nats over the window: less than the error of most marginal likelihoods


class Decaying(Protocol):
    """The settings of a decaying learning rate."""

    @property
    def steps(self) -> int: ...
    @property
    def decay(self) -> str: ...
    @property
    def stairs(self) -> int: ...
    @property
    def stair_factor(self) -> float: ...


class Settings(NamedTuple):
    """Temperature and learning rates of one step."""

    inverse_temperature: float
    branch_rate: float
    topology_rate: float


def settings_at(step: int, config: TrainingConfig) -> Settings:
    """The settings of step 1, 2, …, `config.steps`.

    The likelihood's exponent rises linearly to 1 over the share `ramp` of the run.
    """
    ramp = config.ramp * config.steps
    inverse_temperature = min(1.0, config.first_inverse_temperature + step / ramp) if ramp else 1.0
    rate = config.rate * decay_at(step, config)
    return Settings(inverse_temperature, rate, rate * config.topology_rate_factor)


def decay_at(step: int, config: Decaying) -> float:
    """The learning rate as a share of the first: half a cosine from 1 to 0, or stairs of equal length."""
    done = (step - 1) / config.steps
    if config.decay == "cosine":
        return 0.5 * (1 + math.cos(math.pi * done))
    return config.stair_factor ** int(done * config.stairs)


def is_flat(reports: "Sequence[Report]") -> bool:
    """Whether a line fitted to the bounds of the last reports, all at full temperature, has stopped rising."""
    last = [report for report in reports[-WINDOW:] if report.inverse_temperature == 1]
    if len(last) < WINDOW:
        return False
    place = np.arange(WINDOW) - (WINDOW - 1) / 2
    slope = place @ np.array([report.lower_bound for report in last]) / (place @ place)
    return bool(slope * WINDOW < LEAST_RISE)  # false for NaN


class Adam:
    """Adam (Kingma & Ba 2015) with its usual decay rates; each step is given its learning rate.

    One kernel call updates all parameters: they are small, and torch's optimisers spend their time between calls.

    clipping: a gradient whose norm exceeds this multiple of its usual norm, by the second moments, is scaled down to
    it. A gradient that is not finite moves nothing. Parameters have one dtype, are updated in place and must stay where
    they are in memory for as long as the optimiser lives.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], *, clipping: float = math.inf) -> None:
        if not clipping > 0:
            raise BadArgument(f"Adam: clipping {clipping:g}. Give a number above 0.")
        self._clipping = clipping
        self._parameters = list(parameters)
        if len(set(map(id, self._parameters))) != len(self._parameters):
            raise BadArgument("Adam: a parameter was given twice. Give each once.")
        check_tensors(*self._parameters)
        for parameter in self._parameters:
            if not parameter.is_leaf:
                raise BadArgument("Adam: a tensor is the result of a computation. Give parameters only.")
            if not parameter.is_contiguous() or parameter.dtype not in (torch.float32, torch.float64):
                raise BadArgument(
                    f"Adam: the parameter of shape {tuple(parameter.shape)} is not contiguous, or in neither single "
                    "nor double precision."
                )
        if len({parameter.dtype for parameter in self._parameters}) > 1:
            raise BadArgument("Adam: parameters in single and in double precision. Make an optimiser for each.")
        single = any(parameter.dtype == torch.float32 for parameter in self._parameters)
        self._starts = np.cumsum([0, *(parameter.numel() for parameter in self._parameters)], dtype=np.int64)
        self._mean = np.zeros(self._starts[-1], np.float32 if single else np.float64)
        self._square = np.zeros_like(self._mean)
        self._step_counts = np.zeros(len(self._parameters), np.int64)
        self._addresses = np.array([(parameter.data_ptr(), 0) for parameter in self._parameters], np.int64)
        self._addresses = self._addresses.reshape(-1, 2)

    def clear_gradients(self) -> None:
        """Clear the gradients of the last step."""
        for parameter in self._parameters:
            parameter.grad = None

    def state(self) -> dict[str, AnyArray]:
        """The moments and each parameter's number of steps: the optimiser's own memory, not a copy."""
        return {"mean": self._mean, "square": self._square, "step_counts": self._step_counts}

    def step(self, rate: float) -> bool:
        """Move every parameter that has a gradient; returns whether the gradient was finite."""
        gradients = [None if p.grad is None else p.grad.contiguous() for p in self._parameters]
        if [parameter.data_ptr() for parameter in self._parameters] != self._addresses[:, 0].tolist():
            raise BadArgument("Adam: a parameter has moved in memory. Make the optimiser after moving parameters.")
        self._addresses[:, 1] = [0 if gradient is None else gradient.data_ptr() for gradient in gradients]
        moved: bool = adam_update(
            self._addresses,
            self._starts,
            self._step_counts,
            self._mean,
            self._square,
            rate,
            DECAY,
            SQUARE_DECAY,
            EPSILON,
            self._clipping,
        )
        torch.autograd.graph.increment_version(self._parameters)  # torch does not see the kernel's writes
        return moved


class StepInfo(NamedTuple):
    """The outcome of a step."""

    step: int  # counted from 1
    inverse_temperature: float
    lower_bound: float  # of the tempered target, before the parameters moved
    skipped: bool  # the bound or its gradient was not finite, and some parameters did not move

    @property
    def value(self) -> float | None:
        """The bound, for the history; None if the step was skipped."""
        return None if self.skipped else self.lower_bound


class Training(Trainable):
    """A model being trained towards a target. The random numbers of a step depend on the seed and its number alone.

    held: whether Q(τ) stays where it is, near the posterior, while branch lengths are trained. If the config says
    so, it is fitted at the end either way. estimator: in place of the one that the config names.
    """

    name = "training"
    value = "bound"

    def __init__(
        self,
        model: JointModel,
        target: TreePosterior,
        config: TrainingConfig,
        *,
        seed: int,
        held: bool = False,
        estimator: Estimator | None = None,
    ) -> None:
        super().__init__(config.steps)
        check_same_taxa(model, target)
        self.model = model
        self.target = target
        self._settings = config
        self._is_held = np.array([held])
        self.config = self._followed()
        self.seed = seed
        self._stream = RandomStream(seed, "training")
        self.ranks: Ranks = ALONE  # that share out the particles of each step, all with this training
        self._estimator = estimator or ESTIMATORS[config.estimator]
        self._is_own_estimator = estimator is not None
        self._is_refitted = np.zeros(1, np.bool_)
        self._topology_adam = TableAdam(model.network)
        self._branch_adam = Adam(model.branches.parameters(), clipping=config.clipping)
        # Q(θ) begins near the posterior, from which a tempered likelihood would lead it away: it moves later.
        self._theta_adam = None if model.theta is None else Adam(model.theta.parameters(), clipping=config.clipping)
        longer = " or more --steps, which make the warm-up longer" if config.ramp else ""
        if isinstance(target.prior, UniformPrior):
            longer += f", or a prior that allows lengths above {target.prior.longest:g} if trees need them"
        self.advice = f"Use a lower learning rate (--set training.rate={config.rate / 3:.1g}){longer}."

    def step(self) -> StepInfo:
        """Draw particles, estimate the bound's gradient, and move the parameters along it."""
        number = self._next_step()
        self.ranks.tell(STEP)
        inverse_temperature, branch_rate, topology_rate = settings_at(number, self.config)
        lower_bound = self.gradients(number, inverse_temperature)
        moved = math.isfinite(lower_bound)
        if moved:
            moved = self._topology_adam.step(topology_rate) & self._branch_adam.step(branch_rate)
            if self._theta_adam is not None and inverse_temperature == 1:
                moved &= self._theta_adam.step(branch_rate * THETA_RATE_FACTOR)
        self._count(number, moved)
        return StepInfo(number, inverse_temperature, lower_bound, not moved)

    def gradients(self, number: int, inverse_temperature: float) -> float:
        """Set the parameters' gradients for a step, negated as Adam descends; returns the bound."""
        self.model.network.train_with(self._topology_adam)
        if self.held:
            self.model.network.hold()
        doubly = self.config.doubly_reparameterized
        first, end = self.ranks.share(self.config.particles)
        stream = self._stream.at(number, first)
        draw, pull_back = self.model.draw_by_hand(end - first, stream=stream, path_only=doubly)
        log_joint, slopes = self.target.log_joint_by_hand(
            draw.topologies, draw.lengths, inverse_temperature, theta=draw.theta if self.target.dimension else None
        )
        log_weights = self.ranks.gathered(Particles.of(draw, log_joint).log_weights(), self.config.particles)
        plain = self._estimator(log_weights)
        estimate = self._for_lengths(plain, log_weights, draw.topologies)
        for adam in self._adams().values():
            adam.clear_gradients()
        factors = (*estimate[1:], plain.log_joint, plain.log_q_branches)
        by_joint, by_topology, by_branches, of_theta, log_q_theta = (
            torch.from_numpy(-factor[first:end]) for factor in factors
        )
        pull_back(
            DrawGradients(
                lengths=by_joint[:, None] * slopes.lengths,
                theta=of_theta[:, None] * slopes.theta,
                log_q_topology=by_topology,
                log_q_branches=by_branches,
                log_q_theta=log_q_theta,
            )
        )
        if self.ranks.size > 1:
            self.ranks.add_gradients([*self.model.parameters()])
            self._topology_adam.take_shared_gradient()
        return estimate.lower_bound

    def _for_lengths(self, estimate: Estimate, log_weights: FloatArray, own_topologies: TopologyBatch) -> Estimate:
        """The estimate with the factors that branch lengths follow; a user's own is followed in all that it says."""
        doubly = self.config.doubly_reparameterized
        if self.held and not self._is_own_estimator:
            names = self.ranks.gathered(topology_names(own_topologies), len(log_weights))
            return of_held_topologies(estimate, log_weights, names, doubly=doubly)
        return doubly_reparameterized(estimate) if doubly else estimate

    def state(self) -> dict[str, AnyArray]:
        """Everything the next step depends on besides the config, the seed and the target."""
        return {
            **{f"model.{name}": tensor.detach().numpy() for name, tensor in self._tensors()},
            **{
                f"{name}_adam.{part}": array
                for name, adam in self._adams().items()
                for part, array in adam.state().items()
            },
            "counters": self._counters(),
            HELD: self._is_held,
            **({"is_refitted": self._is_refitted} if self.config.refit else {}),
        }

    def _tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The model's tensors as they are: its state dictionary would bring Q(τ) up to date, and round on the way."""
        yield from self.model.named_parameters(remove_duplicate=False)
        yield from self.model.named_buffers(remove_duplicate=False)

    def _adams(self) -> dict[str, Adam | TableAdam]:
        found: dict[str, Adam | TableAdam] = {"topology": self._topology_adam, "branch": self._branch_adam}
        return found if self._theta_adam is None else {**found, "theta": self._theta_adam}

    def restore(self, state: dict[str, AnyArray]) -> None:
        """Continue from a state."""
        self.model.network.release()
        mine = self.state()
        # Earlier versions held nothing, and left no tables for later.
        steps = np.broadcast_to(state.get("topology_adam.step_counts", 0), mine["topology_adam.table_steps"].shape)
        earlier = {HELD: np.array([False]), "topology_adam.table_steps": steps}
        super().restore({**earlier, "topology_adam.recent": np.zeros_like(mine["topology_adam.recent"]), **state})
        self.config = self._followed()

    @property
    def held(self) -> bool:
        """Whether Q(τ) is held while branch lengths are trained."""
        return bool(self._is_held[0])

    def _followed(self) -> TrainingConfig:
        """The settings as they are followed: with Q(τ) held, the likelihood is tempered for a shorter time."""
        return replace(self._settings, ramp=HELD_RAMP * self._settings.ramp) if self.held else self._settings

    def finish(self, progress: Callable[[float], None] = lambda _share: None) -> bool:
        """Fit Q(τ) to topologies that it draws, once, if the config says so; returns whether it was done now."""
        self.model.network.release()
        if self._is_refitted or not self.config.refit:
            return False
        draws = math.ceil(self.config.refit * self.config.steps)
        stream = RandomStream(self.seed, "refitting")
        refit_topologies(self.model, self.target, draws, stream=stream, progress=progress, ranks=self.ranks)
        self._is_refitted[...] = True
        return True

    def is_done(self, reports: "list[Report]") -> bool:
        """Whether all steps are taken or, if the config says so, the bound has stopped rising."""
        return super().is_done(reports) or (self.config.stop == "auto" and is_flat(reports))


class TrainingStart(NamedTuple):
    """Where a training begins."""

    logits: torch.Tensor | None = None  # of Q(τ); None where all are zero
    held: bool = False  # whether they stay as they are while branch lengths are trained
    theta: ParameterStart | None = None  # if any parameters of the model are inferred
    log_length: float | None = None  # of branches, where tables of them do not begin at zero


def start_in(state: dict[str, AnyArray]) -> TrainingStart:
    """From where another training like the one with this state starts."""
    theta = ParameterStart(state[CENTER], state[FACTOR]) if CENTER in state else None
    if not state.get(HELD, np.zeros(1, np.bool_))[0]:
        return TrainingStart(theta=theta)
    return TrainingStart(torch.from_numpy(state[LOGITS].copy()), True, theta)


class Report(NamedTuple):
    """A row of the history."""

    step: int
    seconds: float  # of training, over all sessions
    inverse_temperature: float
    lower_bound: float  # of the tempered target, the mean over the steps since the last report
    elbo: float  # of the target itself
    topologies: int  # distinct ones among the draws that gave the ELBO
    skipped: int  # steps so far that moved nothing, as their bound or gradient was not finite

    @classmethod
    def recent_name(cls) -> str:
        """What the history holds of the steps between two reports."""
        return "bounds"

    @classmethod
    def from_row(cls, row: Sequence[float | str]) -> "Report":
        """From the numbers of a table's row, or their text."""
        step, seconds, inverse_temperature, lower_bound, elbo, topologies, skipped = row
        return cls(
            int(step),
            float(seconds),
            float(inverse_temperature),
            float(lower_bound),
            float(elbo),
            int(topologies),
            int(skipped),
        )


class Reporter:
    """Evaluates the model as it is, by draws that do not train it."""

    def __init__(self, training: Training, evaluation: EvaluationConfig) -> None:
        self.steps = report_steps(training.steps, evaluation.reports)
        self._training = training
        self._samples = evaluation.report_samples

    def __call__(self, history: History[Report], start: float) -> Report:
        """The report after the last step. start: when the clock of the training began."""
        training = self._training
        step = training.steps_done
        drawn = DrawCollector()
        stream = RandomStream(training.seed, "report", step)
        share_parameters(training.model, training.ranks)
        log_weights = draw_log_weights(
            training.model, training.target, self._samples, stream=stream, keep=drawn, ranks=training.ranks
        )
        return Report(
            step=step,
            seconds=time.monotonic() - start,
            inverse_temperature=settings_at(step, training.config).inverse_temperature,
            lower_bound=history.recent_mean,
            elbo=float(log_weights.mean()),
            topologies=drawn.topology_count,
            skipped=training.skipped,
        )


def train(
    training: Training,
    evaluation: EvaluationConfig,
    *,
    history: History[Report] | None = None,
    progress: Callable[[Report], None] | None = None,
) -> list[Report]:
    """Take the steps that are left, with reports on the way; for a run with checkpoints see `runs.driver.train`.

    history: of the steps that were taken before; it is extended. A request to stop (Ctrl-C) waits for the end of a
    step, but not of the first, which compiles what has not been used before.
    """
    history = History(Report) if history is None else history
    for report in take_steps(training, Reporter(training, evaluation), history):
        if report is not None and progress is not None:
            progress(report)
    training.finish()
    return history.reports
