"""Substitution models of nucleotides, JC69 to GTR, their transition probabilities, and site rates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, final

import numpy as np
import torch
from scipy import special
from torch import Tensor

from phloem.arguments import check_fields
from phloem.arrays import FloatArray
from phloem.autograd import Operation, check_tensors, is_constant, plain_values
from phloem.config import ModelConfig
from phloem.config.model import ALIASES, EMPIRICAL, MODEL_PARAMETERS, SHAPES
from phloem.data.patterns import SitePatterns
from phloem.errors import BadArgument, ConfigError

Method = Literal["mean", "median"]
LARGEST_CATEGORIES = 64
# Exchangeabilities are in the order AC, AG, AT, CG, CT, GT; AG and CT are the transitions.
PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
Numbers = Sequence[float] | Tensor
Number = float | Tensor


def symmetrize(rate_matrix: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """√π Q / √π, which has the eigenvalues of Q and is symmetric for a reversible model, and √π."""
    root = frequencies.sqrt()
    symmetric = root[:, None] * rate_matrix / root
    return (symmetric + symmetric.T) / 2, root


@final
class TransitionMatrices(Operation):
    """P(t) for many times t, (…, 4, 4), through the eigenvalues of the symmetrised rate matrix.

    With Q = U Λ U⁻¹, P = I + U expm1(Λt) U⁻¹, which keeps small probabilities exact for short branches.
    Derivatives: dP/dt = Q P, and for Q the Daleckii–Krein formula, whose divided differences

        (exp(λi t) - exp(λj t)) / (λi - λj)    or    t exp(λi t)  where  λi = λj

    hold for repeated eigenvalues too, which JC69, K80, F81 and HKY85 have.
    """

    shares_memory = True

    def values(self, _wanted: tuple[bool, ...], rate_matrix: Tensor, frequencies: Tensor, times: Tensor) -> Tensor:
        """P, (…, 4, 4), from Q, its stationary frequencies and times (…)."""
        symmetric, root = symmetrize(rate_matrix, frequencies)
        values, vectors = torch.linalg.eigh(symmetric)
        values[-1] = 0.0  # the largest one is zero but for rounding
        right, left = vectors / root[:, None], vectors.T * root
        growth = torch.expm1(values * times[..., None])  # (…, 4)
        matrices = torch.eye(4, dtype=times.dtype) + (right * growth[..., None, :]) @ left
        self.saved = rate_matrix, values, right, left, times, matrices.detach()
        return matrices

    def gradients(self, wanted: tuple[bool, ...], gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of Q and of the times; P depends on the frequencies through Q alone."""
        rate_matrix, values, right, left, times, matrices = self.saved
        time_gradient = (gradient * (rate_matrix @ matrices)).sum((-2, -1))
        if not wanted[0]:
            return None, None, time_gradient
        exponentials = torch.exp(values * times[..., None])  # (…, 4)
        gap = (values[:, None] - values).abs()
        equal = gap < 1e-7
        lowered = times[..., None, None] * exponentials[..., None, :]  # its limit where two values meet
        # With the larger value λ of the two, exp(λt) · -expm1(-gap t) / gap loses nothing to cancellation, and
        # however long t is, neither factor overflows.
        larger = torch.maximum(exponentials[..., None, :], exponentials[..., :, None])
        divided = larger * -torch.expm1(-gap * times[..., None, None]) / gap.masked_fill(equal, 1.0)
        differences = torch.where(equal, lowered, divided)
        inner = (right.T @ gradient @ left.T) * differences
        rate_gradient = left.T @ inner.reshape(-1, 4, 4).sum(0) @ right.T
        return rate_gradient, None, time_gradient


def discrete_gamma(shape: float, categories: int, method: Method) -> FloatArray:
    """Rates of equally likely categories of a Gamma(shape, mean 1) distribution, their mean 1 (Yang 1994).

    `mean`: each category's mean; `median`: each category's median, scaled to mean 1.
    """
    if method == "median":
        medians = special.gammaincinv(shape, (np.arange(categories) + 0.5) / categories)
        rates: FloatArray = medians / medians.mean()
        return rates
    inner = special.gammaincinv(shape, np.arange(1, categories) / categories)
    cumulated = np.concatenate([[0.0], special.gammainc(shape + 1, inner), [1.0]])
    means: FloatArray = categories * np.diff(cumulated)
    return means


def discrete_gamma_slope(shape: float, categories: int, method: Method) -> FloatArray:
    """The derivative of the rates with respect to the shape, by a five-point difference.

    The inverse of the incomplete gamma function has no derivative in closed form; it is smooth in the shape and
    computed to 1e-15, so that the difference is good to about 1e-11.
    """
    step = 2e-3 * shape
    ahead = [discrete_gamma(shape + offset * step, categories, method) for offset in (-2, -1, 1, 2)]
    slope: FloatArray = (ahead[0] - 8 * ahead[1] + 8 * ahead[2] - ahead[3]) / (12 * step)
    return slope


class GammaTable:
    """`discrete_gamma` and its slope for many shapes at once, by polynomials in the logarithm of the shape.

    A polynomial for every tenth of a unit agrees with the function to 1e-12: ten shapes take 0.02 ms and not 0.3.
    """

    PIECE, TERMS = 0.1, 8

    def __init__(self, categories: int, method: Method) -> None:
        first, last = np.log(SHAPES)
        self._first, self._pieces = first, math.ceil((last - first) / self.PIECE)
        nodes = np.cos(np.pi * (np.arange(self.TERMS) + 0.5) / self.TERMS)
        centers = first + self.PIECE * (np.arange(self._pieces) + 0.5)
        shapes = np.exp(centers[:, None] + self.PIECE / 2 * nodes)
        values = np.array([[discrete_gamma(shape, categories, method) for shape in row] for row in shapes])
        self._coefficients = np.linalg.solve(np.vander(nodes, increasing=True), values)  # (pieces, terms, categories)

    def __call__(self, shapes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Rates and their derivatives with respect to the shape, (shapes, categories)."""
        place = (np.log(shapes) - self._first) / self.PIECE
        piece = np.clip(place.astype(np.int64), 0, self._pieces - 1)
        within = 2 * (place - piece) - 1
        exponents = np.arange(self.TERMS)
        powers = within[:, None] ** exponents
        slopes = np.zeros_like(powers)
        slopes[:, 1:] = exponents[1:] * powers[:, :-1] * (2 / self.PIECE / shapes)[:, None]
        coefficients = self._coefficients[piece]
        return (powers[:, None] @ coefficients)[:, 0], (slopes[:, None] @ coefficients)[:, 0]


@lru_cache(maxsize=8)
def gamma_table(categories: int, method: Method) -> GammaTable:
    """The table, made once."""
    return GammaTable(categories, method)


@final
class _DiscreteGamma(Operation):
    """`discrete_gamma` with its derivative with respect to the shape."""

    def __init__(self, categories: int, method: Method) -> None:
        self.categories = categories
        self.method = method

    def values(self, _wanted: tuple[bool, ...], shape: Tensor) -> Tensor:
        """The rates, (categories,)."""
        self.slope = discrete_gamma_slope(shape.item(), self.categories, self.method)
        return torch.from_numpy(discrete_gamma(shape.item(), self.categories, self.method))

    def gradients(self, _wanted: tuple[bool, ...], gradient: Tensor) -> tuple[Tensor, ...]:
        """The shape's gradient."""
        return ((gradient * torch.as_tensor(self.slope, dtype=gradient.dtype)).sum(),)


@dataclass(frozen=True, slots=True, eq=False)
class SiteRates:
    """Equally likely gamma categories (one, of rate 1, without a shape) beside a proportion of invariant sites."""

    shape: Tensor | None = None  # a number will do, and becomes one
    categories: int = 4
    method: Method = "mean"
    invariant: Tensor | None = None  # likewise

    def __post_init__(self) -> None:
        for name in ("shape", "invariant"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, value if isinstance(value, Tensor) else _tensor(value))
        check_fields(self)
        shape, invariant = _number(self.shape, "gamma shape"), _number(self.invariant, "proportion of invariant sites")
        if shape is not None and not 1e-3 <= shape <= 1e4:
            raise BadArgument(f"gamma shape {shape:g}: must be from 0.001 to 10000.")
        if not 1 <= self.categories <= LARGEST_CATEGORIES:
            raise BadArgument(f"{self.categories} rate categories: give 1 to {LARGEST_CATEGORIES}.")
        if self.method not in ("mean", "median"):
            raise BadArgument(f"rates of method {self.method!r}: choose 'mean' or 'median'.")
        if invariant is not None and not 0 <= invariant < 1:
            raise BadArgument(f"proportion of invariant sites {invariant:g}: must be from 0 up to 1.")

    @property
    def is_uniform(self) -> bool:
        """Whether all sites have the same rate."""
        return self.shape is None and self.invariant is None

    def rates(self) -> Tensor:
        """Rates of the categories, (categories,), such that the mean over all sites, invariant ones too, is 1."""
        rates = torch.ones(1, dtype=torch.float64)
        if self.shape is not None:
            rates = _DiscreteGamma(self.categories, self.method)(self.shape)
        return rates if self.invariant is None else rates / (1 - self.invariant)

    def weights(self) -> Tensor:
        """Probabilities of the categories, (categories,); with the invariant sites they sum to 1."""
        count = 1 if self.shape is None else self.categories
        weights = torch.full((count,), 1 / count, dtype=torch.float64)
        return weights if self.invariant is None else weights * (1 - self.invariant)


@dataclass(frozen=True, slots=True, eq=False)
class SubstitutionModel:
    """A reversible model: exchangeabilities, frequencies of A, C, G, T, and how rates differ between sites.

    The tensors may require gradients: what the model yields is differentiable in them.
    """

    name: str
    exchangeabilities: Tensor  # (6,)  AC, AG, AT, CG, CT, GT; only their ratios count
    frequencies: Tensor  # (4,)  sum to 1
    site_rates: SiteRates = field(default_factory=SiteRates)

    def __post_init__(self) -> None:
        check_fields(self)
        _check_positive(self.exchangeabilities, 6, "exchangeabilities AC, AG, AT, CG, CT, GT")
        _check_positive(self.frequencies, 4, "frequencies of A, C, G, T")
        total = plain_values(self.frequencies).sum()
        if abs(total - 1) > 1e-6:
            raise BadArgument(f"frequencies that sum to {total:g}: they must sum to 1.")

    @property
    def parameters(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Exchangeabilities, frequencies and, if there are any, gamma shape and proportion of invariant sites."""
        return self.exchangeabilities, self.frequencies, self.site_rates.shape, self.site_rates.invariant

    @property
    def is_fixed(self) -> bool:
        """Whether no parameter needs a gradient."""
        return all(parameter is None or is_constant(parameter) for parameter in self.parameters)

    @property
    def treats_states_alike(self) -> bool:
        """Whether all substitutions are alike, so that only which tips are equal counts, and this is fixed."""
        fixed = is_constant(self.exchangeabilities) and is_constant(self.frequencies)
        alike = bool((self.exchangeabilities == self.exchangeabilities[0]).all() and (self.frequencies == 0.25).all())
        return fixed and alike

    @property
    def is_jukes_cantor(self) -> bool:
        """Whether all substitutions are alike at all sites, so that P = a + b·I, and no parameter needs a gradient."""
        return self.treats_states_alike and self.site_rates.is_uniform

    def describe(self) -> dict[str, Any]:
        """Name and parameters as plain numbers."""
        rates = self.site_rates
        return {
            "name": self.name,
            "exchangeabilities": self.exchangeabilities.tolist(),
            "frequencies": self.frequencies.tolist(),
            "gamma_shape": None if rates.shape is None else rates.shape.item(),
            "gamma_categories": None if rates.shape is None else rates.categories,
            "gamma_method": None if rates.shape is None else rates.method,
            "invariant": None if rates.invariant is None else rates.invariant.item(),
        }

    def in_words(self) -> str:
        """Name and parameters in a line."""
        model = self.describe()
        parts = [model["name"]]
        if model["name"] not in ("JC69", "F81"):
            parts.append("exchangeabilities " + " ".join(f"{rate:g}" for rate in model["exchangeabilities"]))
        if model["name"] not in ("JC69", "K80", "SYM"):
            parts.append("frequencies " + " ".join(f"{share:.4f}" for share in model["frequencies"]))
        if model["gamma_shape"] is not None:
            parts.append(
                f"{model['gamma_categories']} gamma categories ({model['gamma_method']}) "
                f"of shape {model['gamma_shape']:g}"
            )
        if model["invariant"] is not None:
            parts.append(f"invariant sites {model['invariant']:g}")
        return ", ".join(parts)

    def rate_matrix(self) -> Tensor:
        """Q, (4, 4): one substitution a site and unit of time on average, before rates differ between sites."""
        rows, columns = zip(*PAIRS, strict=True)
        symmetric = torch.zeros(4, 4, dtype=torch.float64)
        symmetric = symmetric.index_put((torch.tensor(rows), torch.tensor(columns)), self.exchangeabilities)
        rates = (symmetric + symmetric.T) * self.frequencies
        leaving = rates.sum(1)
        return (rates - torch.diag(leaving)) / (self.frequencies * leaving).sum()

    def transition_matrices(self, branch_lengths: Tensor) -> Tensor:
        """P for each branch and rate category, (…, categories, 4, 4), from lengths (…)."""
        check_tensors(branch_lengths)
        times = branch_lengths[..., None] * self.site_rates.rates()
        matrices: Tensor = TransitionMatrices()(self.rate_matrix(), self.frequencies.detach(), times)
        return matrices


def jc69(site_rates: SiteRates | None = None) -> SubstitutionModel:
    """All substitutions alike (Jukes & Cantor 1969)."""
    return _model("JC69", [1.0] * 6, [0.25] * 4, site_rates)


def k80(kappa: Number, site_rates: SiteRates | None = None) -> SubstitutionModel:
    """Transitions `kappa` times as frequent as transversions (Kimura 1980)."""
    return _model("K80", _two_rates(kappa, kappa), [0.25] * 4, site_rates)


def f81(frequencies: Numbers, site_rates: SiteRates | None = None) -> SubstitutionModel:
    """Free frequencies (Felsenstein 1981)."""
    return _model("F81", [1.0] * 6, frequencies, site_rates)


def hky85(kappa: Number, frequencies: Numbers, site_rates: SiteRates | None = None) -> SubstitutionModel:
    """Free frequencies and transitions `kappa` times as frequent (Hasegawa, Kishino & Yano 1985)."""
    return _model("HKY85", _two_rates(kappa, kappa), frequencies, site_rates)


def tn93(
    purine_kappa: Number, pyrimidine_kappa: Number, frequencies: Numbers, site_rates: SiteRates | None = None
) -> SubstitutionModel:
    """Like HKY85, with A↔G and C↔T of different frequency (Tamura & Nei 1993)."""
    return _model("TN93", _two_rates(purine_kappa, pyrimidine_kappa), frequencies, site_rates)


def sym(exchangeabilities: Numbers, site_rates: SiteRates | None = None) -> SubstitutionModel:
    """Six exchangeabilities, equal frequencies (Zharkikh 1994)."""
    return _model("SYM", exchangeabilities, [0.25] * 4, site_rates)


def gtr(exchangeabilities: Numbers, frequencies: Numbers, site_rates: SiteRates | None = None) -> SubstitutionModel:
    """Six exchangeabilities, free frequencies: the general reversible model (Tavaré 1986)."""
    return _model("GTR", exchangeabilities, frequencies, site_rates)


def _model(name: str, exchangeabilities: Numbers, frequencies: Numbers, rates: SiteRates | None) -> SubstitutionModel:
    return SubstitutionModel(name, _tensor(exchangeabilities), _tensor(frequencies), rates or SiteRates())


def _two_rates(purine_kappa: Number, pyrimidine_kappa: Number) -> Tensor:
    one = torch.ones((), dtype=torch.float64)
    kappas = [_tensor(kappa) for kappa in (purine_kappa, pyrimidine_kappa)]
    for kappa in kappas:
        _number(kappa, "kappa")
    purines, pyrimidines = (kappa.reshape(()) for kappa in kappas)
    return torch.stack([one, purines, one, one, pyrimidines, one])


def _tensor(values: Numbers | Number) -> Tensor:
    try:
        return torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise BadArgument(f"substitution model: a parameter is a {type(values).__name__}. Give numbers.") from None


def _number(value: Tensor | None, what: str) -> float | None:
    """The value of a tensor that holds one number."""
    if value is None:
        return None
    numbers = plain_values(value)
    if numbers.size != 1:
        raise BadArgument(f"{what} of shape {numbers.shape}: give one number.")
    return float(numbers.item())


def _check_positive(values: Tensor, count: int, what: str) -> None:
    numbers = plain_values(values)
    if numbers.shape != (count,) or not (np.isfinite(numbers) & (numbers > 0)).all():
        raise BadArgument(f"{what}: {count} finite numbers above 0 are needed, not {numbers.tolist()}.")
    if values.dtype != torch.float64:
        raise BadArgument(f"{what} in {values.dtype}: give them in double precision.")


def build_model(config: ModelConfig, patterns: SitePatterns) -> SubstitutionModel:
    """The model that a configuration describes; empirical frequencies are counted in the patterns.

    What is to be inferred has a value to begin with: kappa 2, equal rates, counted frequencies, shape 1, half of the
    constant sites invariant.
    """
    config = _begun(config, patterns)
    return known_model(config, empirical_frequencies(patterns) if config.frequencies == EMPIRICAL else ())


def known_model(config: ModelConfig, counted: Sequence[float] = ()) -> SubstitutionModel:
    """The model of a configuration that leaves nothing open. counted: frequencies for empirical ones."""
    rates = SiteRates(
        shape=None if config.alpha is None else torch.tensor(config.alpha, dtype=torch.float64),
        categories=config.gamma or 1,
        method="median" if config.median_rates else "mean",
        invariant=None if config.invariant is None else torch.tensor(config.invariant, dtype=torch.float64),
    )
    kappa = config.kappa or ()
    given = config.frequencies
    frequencies = counted if given == EMPIRICAL else () if isinstance(given, str | None) else given
    exchangeabilities = config.rates or ()
    builders = {
        "JC": lambda: jc69(rates),
        "K80": lambda: k80(kappa[0], rates),
        "F81": lambda: f81(frequencies, rates),
        "HKY": lambda: hky85(kappa[0], frequencies, rates),
        "TN93": lambda: tn93(kappa[0], kappa[1], frequencies, rates),
        "SYM": lambda: sym(exchangeabilities, rates),
        "GTR": lambda: gtr(exchangeabilities, frequencies, rates),
    }
    return builders[config.name]()


def _begun(config: ModelConfig, patterns: SitePatterns) -> ModelConfig:
    """The configuration with a value in place of all that is to be inferred."""
    inferred = config.inferred
    if not inferred:
        return config
    known = count_states(patterns)
    if not known.all():  # no model can have a frequency of 0: as if each state had been seen once more
        known += 1
    values: dict[str, Any] = {
        "kappa": (2.0,) * (2 if config.name == "TN93" else 1),
        "rates": (1.0,) * len(PAIRS),
        "frequencies": tuple((known / known.sum()).tolist()),
        "alpha": 1.0,
        "invariant": constant_share(patterns) / 2,
    }
    return replace(config, **{name: values[name] for name in inferred})


def constant_share(patterns: SitePatterns) -> float:
    """The share of sites that a single state can explain."""
    constant = np.bitwise_and.reduce(patterns.states, axis=0) != 0
    return float(patterns.counts @ constant / patterns.counts.sum())


def describe_model(model: SubstitutionModel, patterns: SitePatterns) -> ModelConfig | None:
    """The configuration from which `build_model` makes this model; None if there is none."""
    told = model.describe()
    name = ALIASES.get(told["name"], told["name"])
    rates = tuple(told["exchangeabilities"])
    parameters = {
        "kappa": (rates[1], rates[4]) if name == "TN93" else (rates[1],),
        "frequencies": tuple(told["frequencies"]),
        "rates": rates,
    }
    try:
        config = ModelConfig(
            name,
            **{parameter: parameters[parameter] for parameter in MODEL_PARAMETERS.get(name, ())},
            gamma=told["gamma_categories"],
            alpha=told["gamma_shape"],
            median_rates=told["gamma_method"] == "median",
            invariant=told["invariant"],
        )
    except ConfigError:
        return None
    return config if build_model(config, patterns).describe() == told else None


def empirical_frequencies(patterns: SitePatterns) -> list[float]:
    """How often A, C, G and T occur where the state is known."""
    known = count_states(patterns)
    shares: list[float] = (known / known.sum()).tolist()
    return shares


def count_states(patterns: SitePatterns) -> FloatArray:
    """How many A, C, G and T there are where the state is known, (4,)."""
    return np.array([(patterns.counts * (patterns.states == 1 << state)).sum() for state in range(4)])
