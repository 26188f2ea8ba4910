"""From a target and a variational family to a posterior: training, evaluation, annealing, chains, evidence, gaps."""

from typing import TYPE_CHECKING

from phloem.lazy import lazy_names

if TYPE_CHECKING:
    from phloem.inference.annealing import AnnealingPath as AnnealingPath
    from phloem.inference.annealing import anneal as anneal
    from phloem.inference.annealing import plan_path as plan_path
    from phloem.inference.chain_posterior import ChainPosterior as ChainPosterior
    from phloem.inference.chains import ChainStarts as ChainStarts
    from phloem.inference.chains import ChainTrees as ChainTrees
    from phloem.inference.chains import run_chains as run_chains
    from phloem.inference.diagnostics import effective_sample_size as effective_sample_size
    from phloem.inference.diagnostics import pareto_shape as pareto_shape
    from phloem.inference.diagnostics import smooth as smooth
    from phloem.inference.draws import Draws as Draws
    from phloem.inference.draws import TopologyEstimates as TopologyEstimates
    from phloem.inference.evaluation import Evaluation as Evaluation
    from phloem.inference.evaluation import evaluate as evaluate
    from phloem.inference.evidence import TopologyEvidence as TopologyEvidence
    from phloem.inference.evidence import topology_evidence as topology_evidence
    from phloem.inference.gap import AmortizationGaps as AmortizationGaps
    from phloem.inference.gap import amortization_gaps as amortization_gaps
    from phloem.inference.parameter_estimates import ParameterEstimate as ParameterEstimate
    from phloem.inference.particles import Estimate as Estimate
    from phloem.inference.particles import Particles as Particles
    from phloem.inference.particles import doubly_reparameterized as doubly_reparameterized
    from phloem.inference.particles import draw_particles as draw_particles
    from phloem.inference.particles import rws as rws
    from phloem.inference.particles import vimco as vimco
    from phloem.inference.training import Report as Report
    from phloem.inference.training import Training as Training
    from phloem.inference.training import train as train
    from phloem.inference.trust import Trust as Trust
    from phloem.inference.trust import judge as judge
else:
    __getattr__, __dir__ = lazy_names(__name__, __file__)
