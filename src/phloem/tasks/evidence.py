"""Alignment and trees → the evidence of each topology, without any training."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from phloem.arrays import FloatArray
from phloem.config import InferConfig
from phloem.data.patterns import AlignmentSummary, compress, summarize
from phloem.data.reading import read_alignment
from phloem.inference.evidence import TopologyEvidence, topology_evidence
from phloem.random_streams import RandomStream
from phloem.target.likelihood import TreeLikelihood
from phloem.target.posterior import TreePosterior
from phloem.target.substitution import SubstitutionModel, build_model
from phloem.tasks.run_files import length_prior
from phloem.tasks.support import read_samples
from phloem.threads import single_threaded_products
from phloem.trees.generation import topology_count
from phloem.trees.sample import TreeSample, pool
from phloem.trees.writing import format_newick


@dataclass(frozen=True, slots=True)
class EvidenceTable:
    """The evidence of each topology, in the order of the files."""

    alignment: AlignmentSummary
    model: SubstitutionModel
    trees: TreeSample  # each topology once
    evidence: TopologyEvidence

    @property
    def log_marginal(self) -> FloatArray:
        """log p(Y given τ), (topologies,): every topology had the same prior probability, which is taken out."""
        return np.asarray(self.evidence.log_evidence + math.log(topology_count(len(self.trees.taxa))))

    @property
    def shares(self) -> FloatArray:
        """Posterior probabilities of the topologies among themselves, (topologies,)."""
        shares = np.exp(self.log_marginal - self.log_marginal.max())
        return np.asarray(shares / shares.sum())

    @property
    def against_best(self) -> tuple[FloatArray, FloatArray]:
        """Log Bayes factors against the best topology, and their standard errors; of itself 0 and 0."""
        best = int(self.log_marginal.argmax())
        errors = np.hypot(self.evidence.error, self.evidence.error[best])
        errors[best] = 0.0
        return self.log_marginal - self.log_marginal[best], errors

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        newick = format_newick(self.trees.topologies, self.trees.taxa)
        factors, errors = self.against_best
        columns = {
            "log_marginal_likelihood": self.log_marginal,
            "error": self.evidence.error,
            "log_bayes_factor": factors,
            "log_bayes_factor_error": errors,
            "probability": self.shares,
            "draws": self.evidence.draws,
            "effective_draws": self.evidence.effective_draws,
        }
        lists = {name: column.tolist() for name, column in columns.items()}
        return {
            "alignment": self.alignment._asdict(),
            "model": self.model.describe(),
            "trees": [
                {**{name: values[tree] for name, values in lists.items()}, "newick": newick[tree]}
                for tree in range(len(newick))
            ],
        }


def measure_evidence(
    alignment_source: str | Path,
    tree_sources: Sequence[str | Path],
    config: InferConfig,
    *,
    error: float = 0.02,
    most_draws: int = 10_000,
    seed: int = 1,
    burnin: int | float = 0,
    long_names: bool = False,
    threads: int | None = None,
    progress: Callable[[float], None] = lambda _share: None,
) -> EvidenceTable:
    """The evidence of every distinct topology of some files, each to within a standard error if draws suffice.

    config: says the model and the prior on lengths.
    """
    alignment = read_alignment(alignment_source, long_names=long_names)
    trees = pool(read_samples(tree_sources, taxa=alignment.taxa, burnin=burnin)).distinct()
    patterns = compress(alignment)
    model = build_model(config.model.fixed(), patterns)
    likelihood = TreeLikelihood(patterns, model, threads=threads)
    target = TreePosterior(likelihood, length_prior(config))
    with single_threaded_products():
        evidence = topology_evidence(
            target,
            trees.topologies,
            stream=RandomStream(seed, "evidence"),
            error=error,
            most_draws=most_draws,
            progress=progress,
        )
    return EvidenceTable(summarize(alignment), model, trees, evidence)
