"""Maximum-likelihood parameters of a substitution model on one tree, together with its branch lengths."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from phloem.config import ALIASES, MODEL_PARAMETERS, ModelConfig
from phloem.config.estimated_model import EstimatedModel
from phloem.data.patterns import SitePatterns
from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray
from phloem.target.configured import build_model, count_states
from phloem.target.likelihood import TreeLikelihood
from phloem.target.optimization import LONGEST, SHORTEST
from phloem.target.substitution import SubstitutionModel
from phloem.trees.topology import TopologyBatch

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


class FittedModel(NamedTuple):
    """The best parameters and lengths found, their log-likelihood, and whether the search had settled."""

    model: SubstitutionModel
    branch_lengths: FloatArray  # (1, 2n-3)
    log_likelihood: float
    converged: bool


def start_model(form: EstimatedModel, patterns: SitePatterns) -> SubstitutionModel:
    """Where to begin: counted frequencies, kappa 2, equal rates, shape 1, half of the constant sites invariant."""
    takes = MODEL_PARAMETERS[form.name]
    known = count_states(patterns)
    if not known.all():  # no model can have a frequency of 0: as if each state had been seen once more
        known += 1
    config = ModelConfig(
        form.name,
        kappa=(2.0,) * (2 if form.name == "TN93" else 1) if "kappa" in takes else None,
        frequencies=tuple((known / known.sum()).tolist()) if "frequencies" in takes else None,
        rates=(1.0,) * 6 if "rates" in takes else None,
        gamma=form.gamma,
        alpha=None if form.gamma is None else 1.0,
        invariant=_constant_share(patterns) / 2 if form.invariant else None,
    )
    return build_model(config, patterns)


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
        self.constant_share = _constant_share(patterns)
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


def _constant_share(patterns: SitePatterns) -> float:
    """The share of sites that a single state can explain."""
    constant = np.bitwise_and.reduce(patterns.states, axis=0) != 0
    return float(patterns.counts @ constant / patterns.counts.sum())


def _log(low: float, high: float) -> tuple[float, float]:
    return float(np.log(low)), float(np.log(high))
