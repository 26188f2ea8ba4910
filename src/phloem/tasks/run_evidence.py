"""A finished run → the evidence of its most probable topologies, or of given ones, annealed from its own Q."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from phloem.arrays import BoolArray, FloatArray
from phloem.errors import BadArgument, counted
from phloem.inference.draws import TopologyEstimates
from phloem.inference.evidence import EvidenceShares, TopologyEvidence, evidence_shares, known_by, topology_evidence
from phloem.random_streams import RandomStream
from phloem.tasks.posterior import Posterior, load_posterior
from phloem.tasks.run_files import build_target
from phloem.tasks.support import read_samples
from phloem.threads import single_threaded_products
from phloem.trees.sample import TreeSample, credible_set_size, pool
from phloem.trees.writing import format_newick

CREDIBLE = 0.95  # of the probability
MOST_TOPOLOGIES = 100


@dataclass(frozen=True, slots=True, eq=False)
class RunEvidence:
    """The evidence of topologies beside what the draws of a run say of them, all arrays (topologies,)."""

    posterior: Posterior
    trees: TreeSample  # with their probabilities by the draws; 0 for those that were never drawn
    drawn_error: FloatArray  # of these probabilities
    evidence: TopologyEvidence
    shares: EvidenceShares  # probabilities by evidence, where all other topologies have theirs by the draws
    is_trained: BoolArray  # whether a topology was annealed from the run's Q; others were from fits
    left_out: int  # topologies of the credible set

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        newick = format_newick(self.trees.topologies, self.trees.taxa)
        columns = {
            "log_evidence": self.evidence.log_evidence,
            "error": self.evidence.error,
            "probability": self.shares.probability,
            "probability_error": self.shares.error,
            "drawn_probability": self.trees.weights,
            "drawn_probability_error": self.drawn_error,
            "draws": self.evidence.draws,
            "effective_draws": self.evidence.effective_draws,
            "trained": self.is_trained,
        }
        lists = {name: column.tolist() for name, column in columns.items()}
        return {
            "run": str(self.posterior.directory),
            "model": self.posterior.target.likelihood.model.describe(),
            "others": {"probability": self.shares.others, "probability_error": self.shares.others_error},
            "left_out": self.left_out,
            "trees": [
                {**{name: values[tree] for name, values in lists.items()}, "newick": newick[tree]}
                for tree in range(len(newick))
            ],
        }


def measure_run_evidence(
    directory: str | Path,
    tree_sources: Sequence[str | Path] = (),
    *,
    error: float = 0.02,
    most_draws: int = 10_000,
    seed: int = 1,
    burnin: int | float = 0,
    threads: int | None = None,
    progress: Callable[[float], None] = lambda _share: None,
) -> RunEvidence:
    """The evidence of the topologies in the run's 95 % credible set, or of every distinct one in some files.

    The most probable come first, `MOST_TOPOLOGIES` at most. Of several runs the best one's Q is where draws start.
    """
    if burnin and not tree_sources:
        raise BadArgument("--burnin: is that of tree files, and there are none. Name some, or leave it out.")
    posterior = load_posterior(directory)
    estimates = posterior.topology_estimates
    size = credible_set_size(estimates.trees.weights, CREDIBLE)
    shown = min(size, MOST_TOPOLOGIES)
    trees, drawn_error, left_out = estimates.trees[:shown], estimates.error[:shown], size - shown
    if tree_sources:
        given = pool(read_samples(tree_sources, taxa=posterior.taxa, burnin=burnin)).distinct()
        trees, drawn_error = _as_drawn(given, estimates)
        left_out = 0
    branches, constraints = posterior.model.branches, posterior.constraints
    if constraints is not None and not (holds := constraints.hold(trees.topologies)).all():
        raise BadArgument(
            f"{counted(int((~holds).sum()), 'topology', 'topologies')} given without the constraints of {directory}, "
            f"{constraints.in_words()}: probability 0. Leave them out."
        )
    with single_threaded_products():
        evidence = topology_evidence(
            build_target(posterior.patterns, posterior.config, threads, own=posterior.own, constraints=constraints),
            trees.topologies,
            branches=branches,
            theta=posterior.model.theta,
            stream=RandomStream(seed, "evidence"),
            error=error,
            most_draws=most_draws,
            progress=progress,
        )
    shares = evidence_shares(evidence, *posterior.draws.log_evidence_of_others(trees.topologies))
    return RunEvidence(posterior, trees, drawn_error, evidence, shares, known_by(branches, trees.topologies), left_out)


def _as_drawn(given: TreeSample, estimates: TopologyEstimates) -> tuple[TreeSample, FloatArray]:
    """Topologies with their probabilities by the draws, and the errors of these."""
    place = {row.tobytes(): number for number, row in enumerate(estimates.trees.topologies.parent)}
    rows = np.array([place.get(row.tobytes(), -1) for row in given.topologies.parent])
    columns = (estimates.trees.weights, estimates.error)
    probability, error = (np.where(rows < 0, 0.0, column[rows]) for column in columns)
    return TreeSample(given.taxa, given.topologies, probability, None), error
