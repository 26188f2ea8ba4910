"""Every substitution model with parameters that it takes; models with other numbers."""

from dataclasses import replace

import torch

from phloem.target.rates import Parameters
from phloem.target.substitution import SubstitutionModel

GOOD = {
    "JC": {},
    "K80": {"kappa": (2.0,)},
    "F81": {"frequencies": (0.25,) * 4},
    "HKY": {"kappa": (2.0,), "frequencies": "empirical"},
    "TN93": {"kappa": (2.0, 3.0), "frequencies": (0.25,) * 4},
    "SYM": {"rates": (1.0,) * 6},
    "GTR": {"rates": (1.0,) * 6, "frequencies": (0.25,) * 4},
}


def with_numbers(model: SubstitutionModel, parameters: Parameters, tree: int, part: int = 0) -> SubstitutionModel:
    """A model with the parameters that one of some trees has for a part."""
    rates = model.site_rates
    if rates.shape is not None:
        rates = replace(rates, shape=torch.tensor(parameters.shape[tree, part]))
    if rates.invariant is not None:
        rates = replace(rates, invariant=torch.tensor(parameters.invariant[tree, part]))
    return replace(
        model,
        exchangeabilities=torch.tensor(parameters.exchangeabilities[tree, part]),
        frequencies=torch.tensor(parameters.frequencies[tree, part]),
        site_rates=rates,
    )
