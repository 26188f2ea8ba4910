"""p(Y, τ, q): substitution models, likelihood, prior and posterior. The public names of `phloem.target`."""

from typing import TYPE_CHECKING

from phloem.lazy import lazy_names

if TYPE_CHECKING:
    from phloem.target.estimation import optimize_branch_lengths as optimize_branch_lengths
    from phloem.target.likelihood import TreeLikelihood as TreeLikelihood
    from phloem.target.posterior import TreePosterior as TreePosterior
    from phloem.target.priors import GammaDirichletPrior as GammaDirichletPrior
    from phloem.target.priors import TreePrior as TreePrior
    from phloem.target.priors import UniformPrior as UniformPrior
    from phloem.target.substitution import SiteRates as SiteRates
    from phloem.target.substitution import SubstitutionModel as SubstitutionModel
    from phloem.target.substitution import f81 as f81
    from phloem.target.substitution import gtr as gtr
    from phloem.target.substitution import hky85 as hky85
    from phloem.target.substitution import jc69 as jc69
    from phloem.target.substitution import k80 as k80
    from phloem.target.substitution import sym as sym
    from phloem.target.substitution import tn93 as tn93
else:
    __getattr__, __dir__ = lazy_names(__name__, __file__)
