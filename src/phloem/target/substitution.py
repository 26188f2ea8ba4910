"""Substitution models of nucleotides: JC69, K80, F81, HKY85, TN93, SYM, GTR, with rates that differ between sites."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from phloem.errors import BadArgument
from phloem.target.site_rates import SiteRates
from phloem.target.transition import TransitionMatrices

# Exchangeabilities are in the order AC, AG, AT, CG, CT, GT; AG and CT are the transitions.
PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
Numbers = Sequence[float] | Tensor
Number = float | Tensor


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
        _check_positive(self.exchangeabilities, 6, "exchangeabilities AC, AG, AT, CG, CT, GT")
        _check_positive(self.frequencies, 4, "frequencies of A, C, G, T")
        if abs(self.frequencies.sum().item() - 1) > 1e-6:
            raise BadArgument(f"frequencies that sum to {self.frequencies.sum().item():g}: they must sum to 1.")

    @property
    def is_jukes_cantor(self) -> bool:
        """Whether all substitutions are alike at all sites, so that P = a + b·I, and no parameter needs a gradient."""
        fixed = not (self.exchangeabilities.requires_grad or self.frequencies.requires_grad)
        alike = bool((self.exchangeabilities == self.exchangeabilities[0]).all() and (self.frequencies == 0.25).all())
        return fixed and alike and self.site_rates.is_uniform

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
        times = branch_lengths[..., None] * self.site_rates.rates()
        matrices: Tensor = TransitionMatrices.apply(self.rate_matrix(), self.frequencies.detach(), times)
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
    return torch.stack([one, _tensor(purine_kappa), one, one, _tensor(pyrimidine_kappa), one])


def _tensor(values: Numbers | Number) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float64)


def _check_positive(values: Tensor, count: int, what: str) -> None:
    if values.shape != (count,) or not bool((torch.isfinite(values) & (values > 0)).all()):
        raise BadArgument(f"{what}: {count} finite numbers above 0 are needed, not {values.tolist()}.")
