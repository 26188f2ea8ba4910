"""Priors on trees: every topology alike, 1/(2n-5)!!, and branch lengths of which their sum T says all.

    log p(q) = constant - rate · T - power · log T        with no length above `longest`

    exponential(λ)          m log λ - λ T
    gamma-Dirichlet(a, b)   a log b - log Γ(a) - b T + log Γ(m) - (m - a) log T    (Rannala, Zhu & Yang 2012, α = c = 1)
    uniform(0, u)           -m log u

of m branches. Under the gamma-Dirichlet, T is Gamma(a, b), and divided among the branches uniformly: many branches do
not make a long tree, as independent lengths do.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from phloem.arrays import FloatArray
from phloem.config.model import LengthPriorWords
from phloem.errors import BadArgument
from phloem.target.likelihood import check_shape
from phloem.trees.generation import topology_count
from phloem.trees.topology import TopologyBatch


class PriorTerms(NamedTuple):
    """The numbers in the log density of the lengths."""

    constant: float
    rate: float
    power: float = 0.0
    longest: float = math.inf


class LengthPrior(ABC):
    """p(τ, q), called with topologies and lengths."""

    @abstractmethod
    def terms(self, branches: int) -> PriorTerms:
        """The density of so many lengths."""

    @abstractmethod
    def in_words(self) -> str:
        """As in `exponential with rate 10`."""

    def draw(self, branches: int, random: np.random.Generator) -> FloatArray:
        """The lengths of so many branches of a tree."""
        raise BadArgument(f"{type(self).__name__}: a prior that cannot be drawn from. Give it a method `draw`.")

    def __call__(self, topologies: TopologyBatch, branch_lengths: Tensor) -> Tensor:
        """Log density of each tree with its lengths, (batch,)."""
        check_shape(topologies, branch_lengths)
        branch_lengths = branch_lengths.double()
        terms = self.terms(topologies.branch_count)
        constant = terms.constant - math.log(topology_count(topologies.taxon_count))
        constants = branch_lengths.new_full((len(topologies),), constant)
        rates = branch_lengths.new_full((topologies.branch_count,), -terms.rate)
        found = torch.addmv(constants, branch_lengths, rates)  # one operation: this is done in every training step
        if terms.power:
            found = found - terms.power * branch_lengths.sum(dim=1).log()
        if terms.longest < math.inf:
            found = torch.where((branch_lengths <= terms.longest).all(dim=1), found, -torch.inf)
        return found

    def slope(self, branch_lengths: Tensor) -> Tensor:
        """The gradient of the log density with respect to the lengths, or what is broadcast to it."""
        terms = self.terms(branch_lengths.shape[1])
        rate = branch_lengths.new_tensor(-terms.rate)
        return rate - terms.power / branch_lengths.sum(dim=1, keepdim=True) if terms.power else rate


@dataclass(frozen=True, slots=True)
class TreePrior(LengthPrior):
    """Each branch length Exponential(rate)."""

    rate: float = 10.0

    def __post_init__(self) -> None:
        _check("rate", self.rate)

    def terms(self, branches: int) -> PriorTerms:
        """The density of so many lengths."""
        return PriorTerms(branches * math.log(self.rate), self.rate)

    def draw(self, branches: int, random: np.random.Generator) -> FloatArray:
        """The lengths of so many branches of a tree."""
        return random.exponential(1 / self.rate, branches)

    def in_words(self) -> str:
        """With the rate."""
        return f"exponential with rate {self.rate:g}"


@final
@dataclass(frozen=True, slots=True)
class GammaDirichletPrior(LengthPrior):
    """The tree length Gamma(shape, rate), divided among the branches uniformly."""

    shape: float = 1.0
    rate: float = 0.1

    def __post_init__(self) -> None:
        _check("shape", self.shape)
        _check("rate", self.rate)

    def terms(self, branches: int) -> PriorTerms:
        """The density of so many lengths."""
        of_total = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        return PriorTerms(of_total + math.lgamma(branches), self.rate, branches - self.shape)

    def draw(self, branches: int, random: np.random.Generator) -> FloatArray:
        """The lengths of so many branches of a tree."""
        return np.asarray(random.gamma(self.shape, 1 / self.rate) * random.dirichlet(np.ones(branches)))

    def in_words(self) -> str:
        """With all of MrBayes' numbers."""
        return f"gamma-Dirichlet({self.shape:g}, {self.rate:g}, 1, 1)"


@final
@dataclass(frozen=True, slots=True)
class UniformPrior(LengthPrior):
    """Each branch length uniform up to the longest."""

    longest: float = 10.0

    def __post_init__(self) -> None:
        _check("longest length", self.longest)

    def terms(self, branches: int) -> PriorTerms:
        """The density of so many lengths."""
        return PriorTerms(-branches * math.log(self.longest), 0.0, longest=self.longest)

    def draw(self, branches: int, random: np.random.Generator) -> FloatArray:
        """The lengths of so many branches of a tree."""
        return random.uniform(0.0, self.longest, branches)

    def in_words(self) -> str:
        """With the longest length."""
        return f"uniform from 0 to {self.longest:g}"


def is_usual(prior: object) -> bool:
    """Whether a prior is one of these, of which a subclass may be another."""
    return type(prior) in (TreePrior, GammaDirichletPrior, UniformPrior)


def build_length_prior(words: LengthPriorWords, rate: float) -> LengthPrior:
    """The prior that settings describe. rate: of the exponential."""
    if words.kind == "gamma-dirichlet":
        return GammaDirichletPrior(*words.numbers)
    return UniformPrior(*words.numbers) if words.kind == "uniform" else TreePrior(rate)


def length_prior_words(prior: object) -> str:
    """What `parse_length_prior` would make this prior of; the exponential's name for any other."""
    if isinstance(prior, GammaDirichletPrior):
        return f"gamma-dirichlet:{prior.shape!r},{prior.rate!r}"
    return f"uniform:{prior.longest!r}" if isinstance(prior, UniformPrior) else "exponential"


def _check(what: str, number: float) -> None:
    if not (math.isfinite(number) and number > 0):
        raise BadArgument(f"branch-length prior of {what} {number:g}: it must be a finite number above 0.")
