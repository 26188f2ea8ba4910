"""Rates that differ between sites: discrete gamma categories and invariant sites."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy import special
from torch import Tensor

from phloem.errors import BadArgument
from phloem.kernels.arrays import FloatArray

Method = Literal["mean", "median"]
LARGEST_CATEGORIES = 64


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


class _DiscreteGamma(torch.autograd.Function):
    """`discrete_gamma` with its derivative with respect to the shape, by a five-point difference.

    The inverse of the incomplete gamma function has no derivative in closed form; it is smooth in the shape and
    computed to 1e-15, so that the difference is good to about 1e-11.
    """

    @staticmethod
    def forward(ctx: Any, shape: Tensor, categories: int, method: Method) -> Tensor:
        value = shape.item()
        step = 2e-3 * value
        ahead = [discrete_gamma(value + offset * step, categories, method) for offset in (-2, -1, 1, 2)]
        ctx.slope = (ahead[0] - 8 * ahead[1] + 8 * ahead[2] - ahead[3]) / (12 * step)
        return torch.as_tensor(discrete_gamma(value, categories, method), dtype=shape.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return (gradient * torch.as_tensor(ctx.slope, dtype=gradient.dtype)).sum(), None, None


@dataclass(frozen=True, slots=True, eq=False)
class SiteRates:
    """Equally likely gamma categories (one, of rate 1, without a shape) beside a proportion of invariant sites."""

    shape: Tensor | None = None
    categories: int = 4
    method: Method = "mean"
    invariant: Tensor | None = None

    def __post_init__(self) -> None:
        if self.shape is not None and not 1e-3 <= self.shape.item() <= 1e4:
            raise BadArgument(f"gamma shape {self.shape.item():g}: must be from 0.001 to 10000.")
        if not 1 <= self.categories <= LARGEST_CATEGORIES:
            raise BadArgument(f"{self.categories} rate categories: give 1 to {LARGEST_CATEGORIES}.")
        if self.method not in ("mean", "median"):
            raise BadArgument(f"rates of method {self.method!r}: choose 'mean' or 'median'.")
        if self.invariant is not None and not 0 <= self.invariant.item() < 1:
            raise BadArgument(f"proportion of invariant sites {self.invariant.item():g}: must be from 0 up to 1.")

    @property
    def is_uniform(self) -> bool:
        """Whether all sites have the same rate."""
        return self.shape is None and self.invariant is None

    def rates(self) -> Tensor:
        """Rates of the categories, (categories,), such that the mean over all sites, invariant ones too, is 1."""
        rates = torch.ones(1, dtype=torch.float64)
        if self.shape is not None:
            rates = _DiscreteGamma.apply(self.shape, self.categories, self.method)
        return rates if self.invariant is None else rates / (1 - self.invariant)

    def weights(self) -> Tensor:
        """Probabilities of the categories, (categories,); with the invariant sites they sum to 1."""
        count = 1 if self.shape is None else self.categories
        weights = torch.full((count,), 1 / count, dtype=torch.float64)
        return weights if self.invariant is None else weights * (1 - self.invariant)
