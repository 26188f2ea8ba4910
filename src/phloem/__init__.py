"""Bayesian phylogenetics by variational inference, with tree features that a graph neural network learns.

The names of a short script are here, the others in modules by subject; `docs/api.md` lists them. Each is loaded when
it is first used, so that importing phloem is quick.
"""

from phloem.lazy import lazy_names

TYPE_CHECKING = False  # type checkers take it for True; importing `typing` for it would take longer than all the rest

if TYPE_CHECKING:
    from phloem import config as config
    from phloem import data as data
    from phloem import energy as energy
    from phloem import features as features
    from phloem import inference as inference
    from phloem import models as models
    from phloem import plot as plot
    from phloem import search as search
    from phloem import trees as trees
    from phloem import variational as variational
    from phloem.data.reading import read_alignment as read_alignment
    from phloem.errors import InputWarning as InputWarning
    from phloem.errors import PhloemError as PhloemError
    from phloem.random_streams import RandomStream as RandomStream
    from phloem.tasks.density import fit_density as fit_density
    from phloem.tasks.density import load_density as load_density
    from phloem.tasks.evaluate import evaluate_run as evaluate_run
    from phloem.tasks.gap import measure_gaps as measure_gaps
    from phloem.tasks.infer import infer as infer
    from phloem.tasks.opening import open_posterior as open_posterior
    from phloem.tasks.own_model import posterior_of as posterior_of
    from phloem.tasks.posterior import Posterior as Posterior
    from phloem.tasks.posterior import load_posterior as load_posterior
    from phloem.tasks.search import bootstrap as bootstrap
    from phloem.tasks.search import maximum_likelihood_tree as maximum_likelihood_tree
    from phloem.tasks.simulate import simulate as simulate
    from phloem.trees.reading import read_trees as read_trees

    __version__: str
else:
    __getattr__, __dir__ = lazy_names(__name__, __file__)
