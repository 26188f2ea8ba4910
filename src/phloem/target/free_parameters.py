"""The parameters of a substitution model that are inferred: unconstrained coordinates, and MrBayes' priors on them.

Every tree of a batch has a row of coordinates θ, real numbers without limits:

    exchangeabilities, frequencies    shares x that sum to 1, Dirichlet(1, …, 1);    θ_i = log(x_i / x_last)
    kappa                             κ/(1+κ) uniform on (0, 1), which is Beta(1, 1);   θ = log κ
    shape of gamma rates              Exponential(1);                                   θ = log α
    proportion of invariant sites     uniform on (0, 1);                                θ = log p/(1-p)

Densities are those of θ, Jacobians included. Names are MrBayes'.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit, log_expit, log_softmax

from phloem.arrays import FloatArray
from phloem.config import ModelConfig
from phloem.config.model import SHAPES
from phloem.target.rates import ModelRates, Parameters
from phloem.target.substitution import SubstitutionModel

FARTHEST = 20.0  # logarithm of a ratio: beyond it the likelihood stays as it is, the prior does not
STATES = "ACGT"
RATE_NAMES = tuple(f"r({STATES[i]}<->{STATES[j]})" for i, j in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)))
FREQUENCY_NAMES = tuple(f"pi({state})" for state in STATES)


class Coordinates(ABC):
    """Some parameters by unconstrained coordinates, with a prior."""

    names: tuple[str, ...]  # of the parameters
    dimension: int  # how many coordinates

    @abstractmethod
    def values(self, coordinates: FloatArray) -> FloatArray:
        """The parameters, (trees, parameters), from (trees, dimension)."""

    @abstractmethod
    def coordinates(self, values: FloatArray) -> FloatArray:
        """From parameters (parameters,) to coordinates (dimension,)."""

    @abstractmethod
    def log_prior(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log density, (trees,), and its gradient, (trees, dimension)."""

    @abstractmethod
    def pull_back(self, values: FloatArray, by_values: FloatArray) -> FloatArray:
        """From the gradient of the parameters, (trees, parameters), to that of the coordinates, (trees, dimension)."""


@final
class Shares(Coordinates):
    """Parameters that sum to 1, uniformly distributed."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.dimension = len(names) - 1

    def values(self, coordinates: FloatArray) -> FloatArray:
        """Shares, (trees, parameters)."""
        return np.asarray(np.exp(log_softmax(self._with_last(np.clip(coordinates, -FARTHEST, FARTHEST)), axis=1)))

    def coordinates(self, values: FloatArray) -> FloatArray:
        """Logarithms of the ratios to the last."""
        return np.asarray(np.log(values[:-1] / values[-1]))

    def log_prior(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log Γ(k) + Σ log x, as the Jacobian is the product of all shares."""
        logs = log_softmax(self._with_last(coordinates), axis=1)
        slope = 1.0 - len(self.names) * np.exp(logs[:, :-1])
        return math.lgamma(len(self.names)) + logs.sum(axis=1), slope

    def pull_back(self, values: FloatArray, by_values: FloatArray) -> FloatArray:
        """The gradient for the coordinates."""
        mean = (values * by_values).sum(axis=1, keepdims=True)
        return np.asarray((values * (by_values - mean))[:, :-1])

    @staticmethod
    def _with_last(coordinates: FloatArray) -> FloatArray:
        return np.append(coordinates, np.zeros((len(coordinates), 1)), axis=1)


@final
class Ratio(Coordinates):
    """A ratio κ of two rates, of whose sum the first is a uniform share."""

    dimension = 1

    def __init__(self, name: str) -> None:
        self.names = (name,)

    def values(self, coordinates: FloatArray) -> FloatArray:
        """The ratio, (trees, 1)."""
        return np.asarray(np.exp(np.clip(coordinates, -FARTHEST, FARTHEST)))

    def coordinates(self, values: FloatArray) -> FloatArray:
        """Its logarithm."""
        return np.asarray(np.log(values))

    def log_prior(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The logistic density."""
        return (log_expit(coordinates) + log_expit(-coordinates))[:, 0], 1.0 - 2.0 * expit(coordinates)

    def pull_back(self, values: FloatArray, by_values: FloatArray) -> FloatArray:
        """The gradient for the coordinate."""
        return values * by_values


@final
class Shape(Coordinates):
    """The shape of a gamma distribution of rates, Exponential(1)."""

    names, dimension = ("alpha",), 1

    def values(self, coordinates: FloatArray) -> FloatArray:
        """The shape, (trees, 1), within what can be computed."""
        return np.asarray(np.exp(np.clip(coordinates, *np.log(SHAPES))))

    def coordinates(self, values: FloatArray) -> FloatArray:
        """Its logarithm."""
        return np.asarray(np.log(values))

    def log_prior(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log α - α."""
        with np.errstate(over="ignore"):
            shape = np.exp(coordinates)
        return (coordinates - shape)[:, 0], 1.0 - shape

    def pull_back(self, values: FloatArray, by_values: FloatArray) -> FloatArray:
        """The gradient for the coordinate."""
        return values * by_values


@final
class Share(Coordinates):
    """A proportion, uniform on (0, 1)."""

    dimension = 1

    def __init__(self, name: str) -> None:
        self.names = (name,)

    def values(self, coordinates: FloatArray) -> FloatArray:
        """The proportion, (trees, 1)."""
        return np.asarray(expit(np.clip(coordinates, -FARTHEST, FARTHEST)))

    def coordinates(self, values: FloatArray) -> FloatArray:
        """Its logit."""
        return np.asarray(np.log(values / (1.0 - values)))

    def log_prior(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The logistic density."""
        return (log_expit(coordinates) + log_expit(-coordinates))[:, 0], 1.0 - 2.0 * expit(coordinates)

    def pull_back(self, values: FloatArray, by_values: FloatArray) -> FloatArray:
        """The gradient for the coordinate."""
        return values * (1.0 - values) * by_values


@dataclass(frozen=True, slots=True, eq=False)
class FreeParameters:
    """Which parameters of a model are inferred, the others being those of a fixed one."""

    fixed: SubstitutionModel  # as it is but for what is inferred
    kinds: tuple[tuple[str, Coordinates], ...]  # what each is of: a field of `Parameters`, or "kappa"

    @classmethod
    def of(cls, config: ModelConfig, fixed: SubstitutionModel) -> "FreeParameters | None":
        """What a configuration leaves open; None if that is nothing. fixed: the model with something in its place."""
        kinds: list[tuple[str, Coordinates]] = []
        for name in config.inferred:
            if name == "kappa":
                names = ("kappa(A<->G)", "kappa(C<->T)") if config.name == "TN93" else ("kappa",)
                kinds += [("kappa", Ratio(each)) for each in names]
            elif name == "rates":
                kinds.append(("exchangeabilities", Shares(RATE_NAMES)))
            elif name == "frequencies":
                kinds.append(("frequencies", Shares(FREQUENCY_NAMES)))
            elif name == "alpha":
                kinds.append(("shape", Shape()))
            else:
                kinds.append(("invariant", Share("pinvar")))
        return cls(fixed, tuple(kinds)) if kinds else None

    @property
    def change_states(self) -> bool:
        """Whether some of them say how states differ, not only how sites do."""
        return any(name in ("kappa", "exchangeabilities", "frequencies") for name, _ in self.kinds)

    @property
    def dimension(self) -> int:
        """How many coordinates there are."""
        return sum(kind.dimension for _, kind in self.kinds)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters, which are more than the coordinates where they sum to 1."""
        return tuple(name for _, kind in self.kinds for name in kind.names)

    def values(self, coordinates: FloatArray) -> FloatArray:
        """The parameters by their names, (trees, parameters), from coordinates (trees, dimension)."""
        return np.concatenate([kind.values(own) for (_, kind), own in self._cut(coordinates)], axis=1)

    def rates(self, coordinates: FloatArray) -> ModelRates:
        """A model for each tree."""
        rates = self.fixed.site_rates
        return ModelRates(self._parameters(coordinates), categories=rates.categories, method=rates.method)

    def log_prior(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log density, (trees,), and its gradient, (trees, dimension)."""
        found = [kind.log_prior(own) for (_, kind), own in self._cut(coordinates)]
        return np.sum([value for value, _ in found], axis=0), np.concatenate([slope for _, slope in found], axis=1)

    def pull_back(self, coordinates: FloatArray, by: Parameters) -> FloatArray:
        """From derivatives with respect to each tree's parameters to those of its coordinates, (trees, dimension)."""
        parts = []
        for number, ((name, kind), own) in enumerate(self._cut(coordinates)):
            if name == "kappa":
                pairs = self._transitions(number)
                by_values = by.exchangeabilities[:, pairs].sum(axis=1, keepdims=True)
            else:
                found = getattr(by, name)
                by_values = found if found.ndim == 2 else found[:, None]
            parts.append(kind.pull_back(kind.values(own), by_values))
        return np.concatenate(parts, axis=1)

    def model(self, coordinates: FloatArray) -> SubstitutionModel:
        """The model at some coordinates, (dimension,)."""
        found = self._parameters(coordinates[None])
        shape = None if found.shape is None else found.shape[0]
        invariant = None if self.fixed.site_rates.invariant is None else found.invariant[0]
        return self.fixed.with_numbers(found.exchangeabilities[0], found.frequencies[0], shape, invariant)

    def coordinates_of(self, model: SubstitutionModel) -> FloatArray:
        """The coordinates, (dimension,), of a model of this kind."""
        exchangeabilities, frequencies, shape, invariant = (
            np.zeros(0) if each is None else each.detach().numpy().reshape(-1) for each in model.parameters
        )
        parts = []
        for number, (name, kind) in enumerate(self.kinds):
            if name == "kappa":
                values = exchangeabilities[self._transitions(number)[:1]] / exchangeabilities[:1]
            else:
                values = {
                    "exchangeabilities": exchangeabilities,
                    "frequencies": frequencies,
                    "shape": shape,
                    "invariant": invariant,
                }[name]
            parts.append(kind.coordinates(values / values.sum() if isinstance(kind, Shares) else values))
        return np.concatenate(parts)

    def _parameters(self, coordinates: FloatArray) -> Parameters:
        """The parameters of every tree's model."""
        trees = len(coordinates)
        exchangeabilities, frequencies, shape, invariant = (
            None if each is None else np.repeat(each.detach().numpy().reshape(1, -1), trees, axis=0)
            for each in self.fixed.parameters
        )
        found = {
            "exchangeabilities": exchangeabilities,
            "frequencies": frequencies,
            "shape": None if shape is None else shape[:, 0],
            "invariant": np.zeros(trees) if invariant is None else invariant[:, 0],
        }
        for number, ((name, kind), own) in enumerate(self._cut(coordinates)):
            values = kind.values(own)
            if name == "kappa":
                assert exchangeabilities is not None
                exchangeabilities[:, self._transitions(number)] = values
            else:
                found[name] = values if isinstance(kind, Shares) else values[:, 0]
        return Parameters(**found)  # type: ignore[arg-type]

    def _transitions(self, number: int) -> list[int]:
        """Which exchangeabilities a ratio is: both transitions, or one of them where there are two ratios."""
        count = sum(name == "kappa" for name, _ in self.kinds)
        return [1, 4] if count == 1 else [(1, 4)[number]]

    def _cut(self, coordinates: FloatArray) -> list[tuple[tuple[str, Coordinates], FloatArray]]:
        """Each kind with its own columns."""
        ends = np.cumsum([kind.dimension for _, kind in self.kinds])[:-1]
        return list(zip(self.kinds, np.split(coordinates, ends, axis=1), strict=True))
