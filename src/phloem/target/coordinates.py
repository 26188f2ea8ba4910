"""Unconstrained coordinates of a substitution model's parameters, and MrBayes' priors on them.

    exchangeabilities, frequencies    shares x that sum to 1, Dirichlet(1, …, 1);       θ_i = log(x_i / x_base)
    kappa                             κ/(1+κ) uniform on (0, 1), which is Beta(1, 1);   θ = log κ
    shape of gamma rates              Exponential(1);                                   θ = log α
    proportion of invariant sites     uniform on (0, 1);                                θ = log p/(1-p)
    rates of parts of an alignment    shares of the substitutions, Dirichlet(1, …, 1), over those of sites

Densities are those of θ, Jacobians included.
"""

import math
from abc import ABC, abstractmethod
from typing import final

import numpy as np
from scipy.special import expit, log_expit

from phloem.arrays import FloatArray, LongArray
from phloem.config.model import SHAPES

FARTHEST = 15.0  # logarithm of a ratio: beyond it the likelihood stays as it is, the prior does not


class Coordinates(ABC):
    """Some parameters by unconstrained coordinates, with a prior."""

    names: tuple[str, ...]  # of the parameters
    dimension: int  # how many coordinates

    @property
    @abstractmethod
    def prior(self) -> str:
        """The prior in words, as in `Exponential(1)`."""

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
    def draw(self, random: np.random.Generator) -> FloatArray:
        """The parameters, (parameters,), from the prior."""

    @abstractmethod
    def pull_back(self, values: FloatArray, by_values: FloatArray) -> FloatArray:
        """From the gradient of the parameters, (trees, parameters), to that of the coordinates, (trees, dimension)."""


class Shares(Coordinates):
    """Parameters that sum to 1, uniformly distributed. base: whose ratios to the others are the coordinates.

    A share that may be near zero is a bad base: all coordinates would have its long tail.
    """

    def __init__(self, names: tuple[str, ...], base: int) -> None:
        self.names = names
        self.dimension = len(names) - 1
        self._base = base
        self._others = np.delete(np.arange(len(names)), base)

    @property
    def prior(self) -> str:
        """In words."""
        return f"Dirichlet({', '.join('1' for _ in self.names)})"

    def values(self, coordinates: FloatArray) -> FloatArray:
        """Shares, (trees, parameters)."""
        return np.asarray(np.exp(self._logs(np.clip(coordinates, -FARTHEST, FARTHEST))))

    def coordinates(self, values: FloatArray) -> FloatArray:
        """Logarithms of the ratios to the base."""
        return np.asarray(np.log(values[self._others] / values[self._base]))

    def log_prior(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log Γ(k) + Σ log x, as the Jacobian is the product of all shares."""
        logs = self._logs(coordinates)
        slope = 1.0 - len(self.names) * np.exp(logs[:, self._others])
        return math.lgamma(len(self.names)) + logs.sum(axis=1), slope

    def draw(self, random: np.random.Generator) -> FloatArray:
        """Shares."""
        return random.dirichlet(np.ones(len(self.names)))

    def pull_back(self, values: FloatArray, by_values: FloatArray) -> FloatArray:
        """The gradient for the coordinates."""
        mean = (values * by_values).sum(axis=1, keepdims=True)
        return np.asarray((values * (by_values - mean))[:, self._others])

    def _logs(self, coordinates: FloatArray) -> FloatArray:
        """Logarithms of the shares; scipy's function would take ten times as long for so few numbers."""
        ratios = np.zeros((len(coordinates), len(self.names)))
        ratios[:, self._others] = coordinates
        ratios -= ratios.max(axis=1, keepdims=True)
        return np.asarray(ratios - np.log(np.exp(ratios).sum(axis=1, keepdims=True)))


@final
class Multipliers(Shares):
    """Rates of the parts of an alignment, 1 on average over its sites. sizes: sites of each part."""

    def __init__(self, names: tuple[str, ...], sizes: LongArray) -> None:
        super().__init__(names, int(np.argmax(sizes)))
        self._scales = sizes.sum() / sizes

    @property
    def prior(self) -> str:
        """In words."""
        return f"{super().prior}, weighted by numbers of sites"

    def values(self, coordinates: FloatArray) -> FloatArray:
        """The rates, (trees, parameters)."""
        return np.asarray(self._scales * super().values(coordinates))

    def coordinates(self, values: FloatArray) -> FloatArray:
        """Logarithms of the ratios of shares."""
        return super().coordinates(values / self._scales)

    def draw(self, random: np.random.Generator) -> FloatArray:
        """The rates."""
        return np.asarray(self._scales * super().draw(random))

    def pull_back(self, values: FloatArray, by_values: FloatArray) -> FloatArray:
        """The gradient for the coordinates."""
        return super().pull_back(values / self._scales, by_values * self._scales)


class Logarithm(Coordinates):
    """A positive parameter by its logarithm, computed within limits of that."""

    dimension = 1

    def __init__(self, name: str, lowest: float, highest: float) -> None:
        self.names = (name,)
        self._limits = lowest, highest

    def values(self, coordinates: FloatArray) -> FloatArray:
        """The parameter, (trees, 1)."""
        return np.asarray(np.exp(np.clip(coordinates, *self._limits)))

    def coordinates(self, values: FloatArray) -> FloatArray:
        """Its logarithm."""
        return np.asarray(np.log(values))

    def pull_back(self, values: FloatArray, by_values: FloatArray) -> FloatArray:
        """The gradient for the coordinate."""
        return values * by_values


@final
class Ratio(Logarithm):
    """A ratio κ of two rates, of whose sum the first is a uniform share."""

    def __init__(self, name: str) -> None:
        super().__init__(name, -FARTHEST, FARTHEST)

    @property
    def prior(self) -> str:
        """In words."""
        return "Beta(1, 1) of its share, kappa over 1 + kappa"

    def draw(self, random: np.random.Generator) -> FloatArray:
        """The ratio."""
        return _within(np.exp(random.logistic(size=1)), np.exp(-FARTHEST), np.exp(FARTHEST))

    def log_prior(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The logistic density."""
        return _logistic(coordinates)


@final
class Shape(Logarithm):
    """The shape of a gamma distribution of rates, Exponential(1)."""

    def __init__(self, name: str = "alpha") -> None:
        super().__init__(name, *np.log(SHAPES).tolist())

    @property
    def prior(self) -> str:
        """In words."""
        return "Exponential(1)"

    def draw(self, random: np.random.Generator) -> FloatArray:
        """The shape."""
        return _within(random.exponential(size=1), *SHAPES)

    def log_prior(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log α - α."""
        with np.errstate(over="ignore"):
            shape = np.exp(coordinates)
        return (coordinates - shape)[:, 0], 1.0 - shape


@final
class Share(Coordinates):
    """A proportion, uniform on (0, 1)."""

    dimension = 1

    def __init__(self, name: str) -> None:
        self.names = (name,)

    @property
    def prior(self) -> str:
        """In words."""
        return "Uniform(0, 1)"

    def draw(self, random: np.random.Generator) -> FloatArray:
        """The proportion."""
        return _within(random.random(1), expit(-FARTHEST), expit(FARTHEST))

    def values(self, coordinates: FloatArray) -> FloatArray:
        """The proportion, (trees, 1)."""
        return np.asarray(expit(np.clip(coordinates, -FARTHEST, FARTHEST)))

    def coordinates(self, values: FloatArray) -> FloatArray:
        """Its logit."""
        return np.asarray(np.log(values / (1.0 - values)))

    def log_prior(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The logistic density."""
        return _logistic(coordinates)

    def pull_back(self, values: FloatArray, by_values: FloatArray) -> FloatArray:
        """The gradient for the coordinate."""
        return values * (1.0 - values) * by_values


def _within(drawn: FloatArray, lowest: float, highest: float) -> FloatArray:
    """As values of coordinates are, for the likelihood has no others."""
    return np.clip(drawn, lowest, highest)


def _logistic(coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log density of the logit of what is uniform on (0, 1), and its gradient."""
    return (log_expit(coordinates) + log_expit(-coordinates))[:, 0], 1.0 - 2.0 * expit(coordinates)
