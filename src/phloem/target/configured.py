"""The substitution model that settings describe, with frequencies counted in the alignment where they ask for it."""

import numpy as np
import torch

from phloem.config import EMPIRICAL, ModelConfig
from phloem.data.patterns import SitePatterns
from phloem.kernels.arrays import FloatArray
from phloem.target import substitution
from phloem.target.site_rates import SiteRates
from phloem.target.substitution import SubstitutionModel


def build_model(config: ModelConfig, patterns: SitePatterns) -> SubstitutionModel:
    """The model that a configuration describes; empirical frequencies are counted in the patterns."""
    rates = SiteRates(
        shape=None if config.alpha is None else torch.tensor(config.alpha, dtype=torch.float64),
        categories=config.gamma or 1,
        method="median" if config.median_rates else "mean",
        invariant=None if config.invariant is None else torch.tensor(config.invariant, dtype=torch.float64),
    )
    kappa = config.kappa or ()
    frequencies = empirical_frequencies(patterns) if config.frequencies == EMPIRICAL else config.frequencies or ()
    exchangeabilities = config.rates or ()
    builders = {
        "JC": lambda: substitution.jc69(rates),
        "K80": lambda: substitution.k80(kappa[0], rates),
        "F81": lambda: substitution.f81(frequencies, rates),
        "HKY": lambda: substitution.hky85(kappa[0], frequencies, rates),
        "TN93": lambda: substitution.tn93(kappa[0], kappa[1], frequencies, rates),
        "SYM": lambda: substitution.sym(exchangeabilities, rates),
        "GTR": lambda: substitution.gtr(exchangeabilities, frequencies, rates),
    }
    return builders[config.name]()


def empirical_frequencies(patterns: SitePatterns) -> list[float]:
    """How often A, C, G and T occur where the state is known."""
    known = count_states(patterns)
    shares: list[float] = (known / known.sum()).tolist()
    return shares


def count_states(patterns: SitePatterns) -> FloatArray:
    """How many A, C, G and T there are where the state is known, (4,)."""
    return np.array([(patterns.counts * (patterns.states == 1 << state)).sum() for state in range(4)])
