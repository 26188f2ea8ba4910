"""Bayesian phylogenetics by variational inference, with tree features that a graph neural network learns.

The names of a short script are here; each is loaded when it is first used, so that importing phloem is quick.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phloem import plot as plot
    from phloem.config import BootstrapConfig as BootstrapConfig
    from phloem.config import EvaluationConfig as EvaluationConfig
    from phloem.config import InferConfig as InferConfig
    from phloem.config import TrainingConfig as TrainingConfig
    from phloem.config import preset as preset
    from phloem.config.density import DensityConfig as DensityConfig
    from phloem.data.alignment import Alignment as Alignment
    from phloem.data.patterns import SitePatterns as SitePatterns
    from phloem.data.patterns import compress as compress
    from phloem.data.reading import find_trees as find_trees
    from phloem.data.reading import read_alignment as read_alignment
    from phloem.energy.density import TreeDensity as TreeDensity
    from phloem.energy.model import EnergyModel as EnergyModel
    from phloem.energy.sampling import sample_density as sample_density
    from phloem.errors import PhloemError as PhloemError
    from phloem.features.convolutions import BranchReadout as BranchReadout
    from phloem.features.convolutions import Convolution as Convolution
    from phloem.features.convolutions import NodeFeatures as NodeFeatures
    from phloem.features.convolutions import TreeReadout as TreeReadout
    from phloem.features.layers import NodeStates as NodeStates
    from phloem.features.layers import TreeGraph as TreeGraph
    from phloem.features.raw import dirichlet_features as dirichlet_features
    from phloem.features.raw import random_tips as random_tips
    from phloem.features.raw import recover_topologies as recover_topologies
    from phloem.features.raw import recover_tree as recover_tree
    from phloem.features.raw import tree_features as tree_features
    from phloem.inference.evaluation import Evaluation as Evaluation
    from phloem.inference.evaluation import evaluate as evaluate
    from phloem.inference.gap import AmortizationGaps as AmortizationGaps
    from phloem.inference.gap import amortization_gaps as amortization_gaps
    from phloem.inference.training import Training as Training
    from phloem.inference.training import train as train
    from phloem.random_streams import RandomStream as RandomStream
    from phloem.search.bootstrap import bootstrap_files as bootstrap_files
    from phloem.search.jobs import SearchResult as SearchResult
    from phloem.target.estimation import optimize_branch_lengths as optimize_branch_lengths
    from phloem.target.likelihood import TreeLikelihood as TreeLikelihood
    from phloem.target.posterior import TreePosterior as TreePosterior
    from phloem.target.posterior import TreePrior as TreePrior
    from phloem.target.substitution import SiteRates as SiteRates
    from phloem.target.substitution import SubstitutionModel as SubstitutionModel
    from phloem.target.substitution import f81 as f81
    from phloem.target.substitution import gtr as gtr
    from phloem.target.substitution import hky85 as hky85
    from phloem.target.substitution import jc69 as jc69
    from phloem.target.substitution import k80 as k80
    from phloem.target.substitution import sym as sym
    from phloem.target.substitution import tn93 as tn93
    from phloem.tasks.density import fit_density as fit_density
    from phloem.tasks.density import load_density as load_density
    from phloem.tasks.evaluate import evaluate_run as evaluate_run
    from phloem.tasks.gap import measure_gaps as measure_gaps
    from phloem.tasks.infer import infer as infer
    from phloem.tasks.opening import open_posterior as open_posterior
    from phloem.tasks.posterior import Posterior as Posterior
    from phloem.tasks.posterior import load_posterior as load_posterior
    from phloem.tasks.search import bootstrap as bootstrap
    from phloem.tasks.search import maximum_likelihood_tree as maximum_likelihood_tree
    from phloem.trees.branch_lengths import SplitLengths as SplitLengths
    from phloem.trees.branch_lengths import shortest_interval as shortest_interval
    from phloem.trees.branch_lengths import split_lengths as split_lengths
    from phloem.trees.branch_lengths import weighted_median as weighted_median
    from phloem.trees.consensus import SummaryTree as SummaryTree
    from phloem.trees.consensus import extended_majority_rule as extended_majority_rule
    from phloem.trees.consensus import majority_rule as majority_rule
    from phloem.trees.consensus import maximum_clade_credibility as maximum_clade_credibility
    from phloem.trees.consensus import summary_tree as summary_tree
    from phloem.trees.generation import all_topologies as all_topologies
    from phloem.trees.generation import nni_neighbors as nni_neighbors
    from phloem.trees.generation import random_topologies as random_topologies
    from phloem.trees.reading import parse_newick as parse_newick
    from phloem.trees.reading import read_any_trees as read_any_trees
    from phloem.trees.reading import read_trees as read_trees
    from phloem.trees.rooting import root_at_midpoint as root_at_midpoint
    from phloem.trees.rooting import root_at_outgroup as root_at_outgroup
    from phloem.trees.sample import GroupedTrees as GroupedTrees
    from phloem.trees.sample import TreeSample as TreeSample
    from phloem.trees.sample import credible_topologies as credible_topologies
    from phloem.trees.sample import pool as pool
    from phloem.trees.splits import robinson_foulds as robinson_foulds
    from phloem.trees.splits import split_frequencies as split_frequencies
    from phloem.trees.topology import TopologyBatch as TopologyBatch
    from phloem.trees.tree import Tree as Tree
    from phloem.trees.tree import WeightedTrees as WeightedTrees
    from phloem.trees.writing import format_annotated as format_annotated
    from phloem.trees.writing import format_newick as format_newick
    from phloem.trees.writing import format_tree as format_tree
    from phloem.trees.writing import write_annotated_newick as write_annotated_newick
    from phloem.trees.writing import write_annotated_nexus as write_annotated_nexus
    from phloem.trees.writing import write_newick as write_newick
    from phloem.trees.writing import write_nexus as write_nexus
    from phloem.variational.joint import BranchDistribution as BranchDistribution
    from phloem.variational.joint import BranchModel as BranchModel
    from phloem.variational.joint import GraphModel as GraphModel
    from phloem.variational.joint import JointModel as JointModel
    from phloem.variational.joint import Lognormal as Lognormal
    from phloem.variational.joint import PspModel as PspModel
    from phloem.variational.joint import SplitModel as SplitModel
    from phloem.variational.joint import build_branch_model as build_branch_model
    from phloem.variational.sbn import SubsplitFit as SubsplitFit
    from phloem.variational.sbn import SubsplitNetwork as SubsplitNetwork
    from phloem.variational.sbn import SubsplitSupport as SubsplitSupport
    from phloem.variational.sbn import collect_support as collect_support
    from phloem.variational.sbn import fit_network as fit_network
    from phloem.variational.sbn import read_network as read_network
    from phloem.variational.sbn import read_support as read_support
    from phloem.variational.sbn import write_network as write_network
    from phloem.variational.sbn import write_support as write_support

__version__ = version("phloem")

_MODULES = {
    "phloem.config": (
        "BootstrapConfig",
        "EvaluationConfig",
        "InferConfig",
        "TrainingConfig",
        "preset",
    ),
    "phloem.config.density": ("DensityConfig",),
    "phloem.data.alignment": ("Alignment",),
    "phloem.data.patterns": (
        "SitePatterns",
        "compress",
    ),
    "phloem.data.reading": (
        "find_trees",
        "read_alignment",
    ),
    "phloem.energy.density": ("TreeDensity",),
    "phloem.energy.model": ("EnergyModel",),
    "phloem.energy.sampling": ("sample_density",),
    "phloem.errors": ("PhloemError",),
    "phloem.features.convolutions": (
        "BranchReadout",
        "Convolution",
        "NodeFeatures",
        "TreeReadout",
    ),
    "phloem.features.layers": (
        "NodeStates",
        "TreeGraph",
    ),
    "phloem.features.raw": (
        "dirichlet_features",
        "random_tips",
        "recover_topologies",
        "recover_tree",
        "tree_features",
    ),
    "phloem.inference.evaluation": (
        "Evaluation",
        "evaluate",
    ),
    "phloem.inference.gap": (
        "AmortizationGaps",
        "amortization_gaps",
    ),
    "phloem.inference.training": (
        "Training",
        "train",
    ),
    "phloem.random_streams": ("RandomStream",),
    "phloem.search.bootstrap": ("bootstrap_files",),
    "phloem.search.jobs": ("SearchResult",),
    "phloem.target.estimation": ("optimize_branch_lengths",),
    "phloem.target.likelihood": ("TreeLikelihood",),
    "phloem.target.posterior": (
        "TreePosterior",
        "TreePrior",
    ),
    "phloem.target.substitution": (
        "SiteRates",
        "SubstitutionModel",
        "f81",
        "gtr",
        "hky85",
        "jc69",
        "k80",
        "sym",
        "tn93",
    ),
    "phloem.tasks.density": (
        "fit_density",
        "load_density",
    ),
    "phloem.tasks.evaluate": ("evaluate_run",),
    "phloem.tasks.gap": ("measure_gaps",),
    "phloem.tasks.opening": ("open_posterior",),
    "phloem.tasks.posterior": (
        "Posterior",
        "load_posterior",
    ),
    "phloem.tasks.infer": ("infer",),
    "phloem.tasks.search": (
        "bootstrap",
        "maximum_likelihood_tree",
    ),
    "phloem.trees.branch_lengths": (
        "SplitLengths",
        "shortest_interval",
        "split_lengths",
        "weighted_median",
    ),
    "phloem.trees.consensus": (
        "SummaryTree",
        "extended_majority_rule",
        "majority_rule",
        "maximum_clade_credibility",
        "summary_tree",
    ),
    "phloem.trees.generation": (
        "all_topologies",
        "nni_neighbors",
        "random_topologies",
    ),
    "phloem.trees.reading": (
        "parse_newick",
        "read_any_trees",
        "read_trees",
    ),
    "phloem.trees.rooting": (
        "root_at_midpoint",
        "root_at_outgroup",
    ),
    "phloem.trees.sample": (
        "GroupedTrees",
        "TreeSample",
        "credible_topologies",
        "pool",
    ),
    "phloem.trees.splits": (
        "robinson_foulds",
        "split_frequencies",
    ),
    "phloem.trees.topology": ("TopologyBatch",),
    "phloem.trees.tree": (
        "Tree",
        "WeightedTrees",
    ),
    "phloem.trees.writing": (
        "format_annotated",
        "format_newick",
        "format_tree",
        "write_annotated_newick",
        "write_annotated_nexus",
        "write_newick",
        "write_nexus",
    ),
    "phloem.variational.joint": (
        "BranchDistribution",
        "BranchModel",
        "GraphModel",
        "JointModel",
        "Lognormal",
        "PspModel",
        "SplitModel",
        "build_branch_model",
    ),
    "phloem.variational.sbn": (
        "SubsplitFit",
        "SubsplitNetwork",
        "SubsplitSupport",
        "collect_support",
        "fit_network",
        "read_network",
        "read_support",
        "write_network",
        "write_support",
    ),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
_PARTS = {"plot"}  # modules that are names of a script themselves

__all__ = sorted(_HOMES.keys() | _PARTS)


def __getattr__(name: str) -> object:
    if name in _PARTS:
        return import_module(f"phloem.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'phloem' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
