"""Maximum likelihood on fixed topologies: branch lengths of many trees, or one tree with the parameters of a model."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from phloem.arrays import BoolArray, FloatArray
from phloem.config import ModelConfig
from phloem.config.model import ALIASES, EstimatedModel
from phloem.data.patterns import SitePatterns
from phloem.errors import BadArgument
from phloem.target.likelihood import TreeLikelihood
from phloem.target.substitution import SubstitutionModel, build_model, constant_share
from phloem.trees.topology import TopologyBatch

SHORTEST, LONGEST = 1e-8, 100.0
FEW_CHANGES = 4.0
ROUGH = 0.1  # nats, where lengths are only to be of the right size
REMEMBERED_STEPS = 12  # steps that approximate the curvature
# Which free rate each of AC, AG, AT, CG, CT, GT has; number 0 is not free: it is 1.
_ALIKE, _TRANSITIONS, _GENERAL = (0, 0, 0, 0, 0, 0), (0, 1, 0, 0, 1, 0), (1, 2, 3, 4, 5, 0)
RATE_OF_PAIR = {
    "JC": _ALIKE,
    "K80": _TRANSITIONS,
    "F81": _ALIKE,
    "HKY": _TRANSITIONS,
    "TN93": (0, 1, 0, 0, 2, 0),
    "SYM": _GENERAL,
    "GTR": _GENERAL,
}
RATES = (1e-4, 1e4)
SHAPES = (0.02, 100.0)
INVARIANT = (0.0, 0.99)
MEMORY = 20  # steps that approximate the curvature
MOST_STEPS = 2000


class OptimizedLengths(NamedTuple):
    """The best lengths found, their log-likelihoods, and whether the search had settled."""

    branch_lengths: FloatArray  # (batch, 2n-3)
    log_likelihoods: FloatArray  # (batch,)
    converged: BoolArray  # (batch,)


def optimize_branch_lengths(
    likelihood: TreeLikelihood,
    topologies: TopologyBatch,
    start: FloatArray | None = None,
    *,
    tolerance: float = 1e-6,
    most_steps: int = 500,
) -> OptimizedLengths:
    """L-BFGS in the logarithms of the lengths, all trees in one likelihood call a step.

    Each tree has its own curvature and step length, and rests when a step gains less than `tolerance`
    three times in a row. Lengths stay between 1e-8 and 100.
    """
    lengths = np.full((len(topologies), topologies.branch_count), 0.1) if start is None else start
    logs = np.log(np.clip(lengths, SHORTEST, LONGEST))
    values, gradients = _evaluate(likelihood, topologies, logs)
    steps = np.zeros((REMEMBERED_STEPS, *logs.shape))
    changes = np.zeros_like(steps)
    idle = np.zeros(len(logs), np.int64)
    for count in range(most_steps):
        active = idle < 3
        if not active.any():
            break
        newest_first = [(count - 1 - age) % REMEMBERED_STEPS for age in range(REMEMBERED_STEPS)]
        direction = uphill_direction(gradients, steps[newest_first], changes[newest_first])
        uphill = (direction * gradients).sum(1)
        direction = np.where((uphill > 0)[:, None], direction, gradients)
        # The first step, without curvature, and any wild one are kept to a factor e for the largest change.
        direction /= np.maximum(np.abs(direction).max(1, keepdims=True), 1.0)
        direction[~active] = 0.0
        moved, moved_values, moved_gradients = _search(likelihood, topologies, logs, values, gradients, direction)
        slot = count % REMEMBERED_STEPS
        steps[slot], changes[slot] = moved - logs, gradients - moved_gradients
        idle = np.where(moved_values - values < tolerance, idle + 1, 0)
        logs, values, gradients = moved, moved_values, moved_gradients
    return OptimizedLengths(np.exp(logs), values, idle >= 3)


def typical_log_length(likelihood: TreeLikelihood, topologies: TopologyBatch) -> float:
    """The mean logarithm of the best branch lengths of some topologies, where those of a few changes count as so many.

    Where no site changes the best length is 0, of which there is no logarithm.
    """
    shortest = FEW_CHANGES / float(likelihood.patterns.counts.sum())
    lengths = optimize_branch_lengths(likelihood, topologies, tolerance=ROUGH).branch_lengths
    return float(np.log(np.maximum(lengths, shortest)).mean())


def _evaluate(likelihood: TreeLikelihood, topologies: TopologyBatch, logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log-likelihoods and their gradients with respect to the logarithms of the lengths."""
    lengths = torch.from_numpy(np.exp(logs)).requires_grad_()
    values = likelihood(topologies, lengths)
    values.sum().backward()
    assert lengths.grad is not None
    return values.detach().numpy(), lengths.grad.numpy() * np.exp(logs)


def uphill_direction(
    gradients: FloatArray, steps: FloatArray, changes: FloatArray, curvatures: FloatArray | None = None
) -> FloatArray:
    """The two-loop recursion of L-BFGS, tree by tree: an uphill direction (batch, numbers) scaled by the curvature.

    steps, changes: of the numbers and of the gradient downwards, (memory, batch, numbers), the newest first.
    curvatures: of each number, where they are known better than from the newest step.
    """
    products = (steps * changes).sum(2)  # (memory, batch), positive where the function is concave along the step
    usable = products > 1e-12
    inverse = np.where(usable, 1.0 / np.where(usable, products, 1.0), 0.0)
    result = gradients.copy()
    weights = np.zeros_like(products)
    for slot in range(len(steps)):
        weights[slot] = inverse[slot] * (steps[slot] * result).sum(1)
        result -= weights[slot][:, None] * changes[slot]
    if curvatures is None:
        squares = (changes[0] ** 2).sum(1)
        result *= np.where(usable[0], products[0] / np.where(squares > 0, squares, 1.0), 1.0)[:, None]
    else:
        result /= curvatures
    for slot in reversed(range(len(steps))):
        correction = weights[slot] - inverse[slot] * (changes[slot] * result).sum(1)
        result += correction[:, None] * steps[slot]
    return result


def _search(
    likelihood: TreeLikelihood,
    topologies: TopologyBatch,
    logs: FloatArray,
    values: FloatArray,
    gradients: FloatArray,
    direction: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Halve each tree's step until it gains enough (Armijo); a tree that cannot gain stays where it is."""
    size = np.ones(len(logs))
    pending = np.abs(direction).max(1) > 0
    best, best_values, best_gradients = logs.copy(), values.copy(), gradients.copy()
    for _ in range(30):
        if not pending.any():
            break
        trial = np.clip(logs + size[:, None] * direction, np.log(SHORTEST), np.log(LONGEST))
        trial_values, trial_gradients = _evaluate(likelihood, topologies, trial)
        gain = ((trial - logs) * gradients).sum(1)
        good = pending & (trial_values >= values + 1e-4 * gain) & (trial_values >= values)
        best[good], best_values[good], best_gradients[good] = trial[good], trial_values[good], trial_gradients[good]
        pending &= ~good
        size = np.where(pending, size / 2, size)
    return best, best_values, best_gradients


class FittedModel(NamedTuple):
    """The best parameters and lengths found, their log-likelihood, and whether the search had settled."""

    model: SubstitutionModel
    branch_lengths: FloatArray  # (1, 2n-3)
    log_likelihood: float
    converged: bool


def start_model(form: EstimatedModel, patterns: SitePatterns) -> SubstitutionModel:
    """Where to begin: counted frequencies, kappa 2, equal rates, shape 1, half of the constant sites invariant."""
    return build_model(ModelConfig(str(form)), patterns)


def estimate_model(
    patterns: SitePatterns,
    topology: TopologyBatch,
    start: SubstitutionModel,
    branch_lengths: FloatArray,
    *,
    form: EstimatedModel,
    threads: int = 1,
    tolerance: float = 1e-3,
) -> FittedModel:
    """The most likely lengths and free parameters of one tree, found together; frequencies stay as they are.

    L-BFGS, in logarithms but for the share of invariant sites, until a step gains less than a hundredth of
    `tolerance`, which leaves about `tolerance` to gain. What comes back is never less likely than what was given.
    """
    _check_start(topology, start, form)
    given = TreeLikelihood(patterns, start, threads=threads)(topology, torch.tensor(branch_lengths)).item()
    surface = _Surface(patterns, topology, start, form, threads)
    place, value, converged = surface.climb(surface.place_of(branch_lengths), tolerance)
    if form.gamma is not None and form.invariant:
        other = surface.climb(surface.other_explanation(place), tolerance)
        place, value, converged = max((place, value, converged), other, key=lambda found: found[1])
    if not value > given:
        return FittedModel(start, branch_lengths, given, converged)
    logs, parameters = surface.cut(place)
    return FittedModel(surface.model_at(torch.from_numpy(parameters)), np.exp(logs)[None], value, converged)


class _Surface:
    """The log-likelihood of one tree over a vector: logs of lengths, free rates and shape; share of invariant sites."""

    def __init__(
        self,
        patterns: SitePatterns,
        topology: TopologyBatch,
        start: SubstitutionModel,
        form: EstimatedModel,
        threads: int,
    ) -> None:
        self.topology, self.start, self.form = topology, start, form
        self.rate_count = max(RATE_OF_PAIR[form.name])
        self.site_count = float(patterns.counts.sum())
        self.constant_share = constant_share(patterns)
        # What it prepares depends on the patterns alone, and on whether the model has parameters: any place will do.
        model = self.model_at(self._variable(self._parameters()))
        self.likelihood = TreeLikelihood(patterns, model, threads=threads)

    def place_of(self, branch_lengths: FloatArray) -> FloatArray:
        """The start with these lengths, within the limits.

        In logarithms there is no slope near 0, nor where all is saturated, and lengths would stay there: they begin
        between a tenth of a change in all sites and one change a site.
        """
        lengths = np.clip(branch_lengths[0], 0.1 / self.site_count, 1.0)
        return np.concatenate([np.log(lengths), self._parameters()])

    def limits(self) -> list[tuple[float, float]]:
        """Lowest and highest value of each number of the vector."""
        rates = self.start.site_rates
        limits = [_log(SHORTEST, LONGEST)] * self.topology.branch_count + [_log(*RATES)] * self.rate_count
        if rates.shape is not None:
            limits.append(_log(*SHAPES))
        if rates.invariant is not None:
            limits.append(INVARIANT)
        return limits

    def cut(self, place: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Logs of lengths, and parameters."""
        return place[: self.topology.branch_count], place[self.topology.branch_count :]

    def other_explanation(self, place: FloatArray) -> FloatArray:
        """The same lengths and rates with another reason for the constant sites.

        Either they are invariant, and the others alike, or some sites are very slow: each can be a summit of its own.
        """
        many = place[-1] > self.constant_share / 2
        other = place.copy()
        other[-2:] = (np.log(0.3), 0.0) if many else (np.log(3.0), 0.9 * self.constant_share)
        return other

    def climb(self, place: FloatArray, tolerance: float) -> tuple[FloatArray, float, bool]:
        """Where a search from here ends, the log-likelihood there, and whether it ended by itself."""
        loss, gradient = self.loss(place)
        # The first step, without curvature, is as long as the gradient: dividing keeps it to a factor e.
        unit = max(1.0, float(np.abs(gradient).max()))

        def scaled(place: FloatArray) -> tuple[float, FloatArray]:
            loss, gradient = self.loss(place)
            return loss / unit, gradient / unit

        least = 0.01 * tolerance / max(abs(loss), unit)  # gain of a step, as a share of the value
        options = {"maxcor": MEMORY, "maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS, "gtol": 0.0, "ftol": least}
        found = minimize(scaled, place, jac=True, method="L-BFGS-B", bounds=self.limits(), options=options)
        out_of_steps = found.status == 1  # where there is no slope but rounding, it ends in other words than success
        return found.x, -unit * float(found.fun), not out_of_steps

    def loss(self, place: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log-likelihood, and its gradient."""
        logs, parameters = map(self._variable, self.cut(place))
        if parameters.requires_grad:
            self.likelihood.model = self.model_at(parameters)
        loss = -self.likelihood(self.topology, logs.exp()[None]).sum()
        loss.backward()
        gradients = [variable.grad.numpy() for variable in (logs, parameters) if variable.grad is not None]
        return loss.item(), np.concatenate(gradients)

    def model_at(self, parameters: Tensor) -> SubstitutionModel:
        """The model with these parameters, differentiable in them where they are."""
        logs = torch.cat([torch.zeros(1, dtype=torch.float64), parameters[: self.rate_count]])
        rates = self.start.site_rates
        if rates.shape is not None:
            rates = replace(rates, shape=parameters[self.rate_count].exp())
        if rates.invariant is not None:
            rates = replace(rates, invariant=parameters[-1])
        exchangeabilities = logs[list(RATE_OF_PAIR[self.form.name])].exp()
        return replace(self.start, exchangeabilities=exchangeabilities, site_rates=rates)

    def _parameters(self) -> FloatArray:
        """The start's, within the limits: logs of free rates and of the shape, and the share of invariant sites."""
        pairs = [RATE_OF_PAIR[self.form.name].index(rate + 1) for rate in range(self.rate_count)]
        exchangeabilities = self.start.exchangeabilities.detach().numpy()
        values = [np.log(exchangeabilities[pair] / exchangeabilities[-1]) for pair in pairs]
        rates = self.start.site_rates
        if rates.shape is not None:
            values.append(np.log(rates.shape.item()))
        if rates.invariant is not None:
            values.append(rates.invariant.item())
        limits = np.array(self.limits())[self.topology.branch_count :]
        return np.clip(values, limits[:, 0], limits[:, 1])

    @staticmethod
    def _variable(values: FloatArray) -> Tensor:
        """A tensor with a gradient, unless it is empty: a model without parameters has faster ways."""
        return torch.tensor(values, dtype=torch.float64, requires_grad=len(values) > 0)


def _check_start(topology: TopologyBatch, start: SubstitutionModel, form: EstimatedModel) -> None:
    """Raise unless there is one tree, and the model to begin with has the parameters that are to be estimated."""
    if len(topology) != 1:
        raise BadArgument(f"{len(topology)} trees: a model is estimated on one.")
    rates = start.site_rates
    gamma = None if rates.shape is None else rates.categories
    given = (ALIASES.get(start.name, start.name), gamma, rates.invariant is not None)
    if given != (form.name, form.gamma, form.invariant):
        raise BadArgument(f"{start.in_words()}: not a model to begin with for {form}. Begin with start_model.")


def _log(low: float, high: float) -> tuple[float, float]:
    return float(np.log(low)), float(np.log(high))
