"""Runs on the same alignment → their marginal likelihoods beside each other, and the evidence for constraints.

A run whose trees have a clade C and one of all trees say how probable the data are with it, p(Y given C), and at all,
p(Y). As the clade has the prior probability s, the share of all topologies that have it,

    p(Y given not C) = (p(Y) - s p(Y given C)) / (1 - s)

which subtracts two numbers: where hardly anything is left, they do not say how much.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from phloem.config import InferConfig
from phloem.errors import BadArgument, FileProblem
from phloem.inference.agreement import Measured
from phloem.runs.directory import PROVENANCE, read_provenance
from phloem.tasks.compare import UNDECIDED, ComparedModel, Comparison, Subject, log_marginal_likelihood, strength
from phloem.tasks.posterior import Posterior, load_posterior
from phloem.trees.constraints import TopologyConstraints

MOST_UNDECIDED = 0.25  # of what is left of p(Y) without the clade: a larger standard error says nothing of use


class ConstraintEvidence(NamedTuple):
    """What a run under constraints and one of all trees say for the constraints."""

    constrained: Path
    free: Path
    constraints: TopologyConstraints
    against_all: Measured  # log p(Y given C) - log p(Y)
    against_rest: Measured | None  # log p(Y given C) - log p(Y given not C); None if too little is left to tell

    @property
    def prior(self) -> float:
        """Probability of the constraints without data."""
        return math.exp(self.constraints.log_share)

    def as_json(self) -> dict[str, Any]:
        """Plain numbers."""
        rest = self.against_rest
        return {
            "constrained": str(self.constrained),
            "free": str(self.free),
            "constraints": list(self.constraints.names),
            "log_prior_probability": self.constraints.log_share,
            "log_bayes_factor_against_all_trees": self.against_all.value,
            "log_bayes_factor_against_all_trees_error": self.against_all.error,
            "log_bayes_factor_against_trees_without": None if rest is None else rest.value,
            "log_bayes_factor_against_trees_without_error": None if rest is None else rest.error,
        }

    def in_words(self) -> str:
        """A sentence or two."""
        words = self.constraints.in_words()
        said = f"{self.constrained} has trees with {words} alone, which is {self.prior:.3g} of all topologies. "
        if self.against_rest is None:
            return said + (
                f"The log Bayes factor of such trees against all is {_with_error(self.against_all)} of at most "
                f"{-self.constraints.log_share:.3f}: the data are for the constraints, and what is left without them "
                f"is too little to be told from these two runs. Clade probabilities of {self.free} may say more."
            )
        value, error = self.against_rest
        side = "for" if value > 0 else "against"
        judged = strength(abs(value), error)
        judged = judged if judged == UNDECIDED else f"{judged} {side} the constraints"
        return (
            f"{said}The log Bayes factor of such trees against all others is {_with_error((value, error))}: {judged}."
        )


class RunComparison(NamedTuple):
    """Runs, the best first, and what they say of constraints."""

    comparison: Comparison
    constraints: tuple[ConstraintEvidence, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        found = self.comparison.as_json()
        rows = [{"run": row["run"], **row} for row in found["models"]]
        return {**found, "models": rows, "constraints": [one.as_json() for one in self.constraints]}


def compare_runs(directories: Sequence[str | Path]) -> RunComparison:
    """Compare finished runs, which must be on the same alignment."""
    paths = [Path(directory) for directory in directories]
    if len(set(paths)) < len(paths):
        raise BadArgument("compare: the same run is named twice. Name different ones.")
    posteriors = [load_posterior(path) for path in paths]
    hashes = [_alignment_hash(posterior) for posterior in posteriors]
    for path, own in zip(paths, hashes, strict=True):
        if own != hashes[0]:
            raise FileProblem(f"{path}: is a run on another alignment than {paths[0]}. Compare runs on the same one.")
    compared = [
        ComparedModel(
            str(path),
            path,
            posterior.draws.theta.shape[1],
            likelihood=log_marginal_likelihood(posterior),
            trust=posterior.trust,
        )
        for path, posterior in zip(paths, posteriors, strict=True)
    ]
    subject = Subject(posteriors[0].source, hashes[0], Path())
    return RunComparison(Comparison.of(subject, compared), tuple(_evidence(posteriors, compared)))


def _alignment_hash(posterior: Posterior) -> str:
    found = read_provenance(posterior.directory / PROVENANCE).get("alignment", {}).get("sha256")
    if not isinstance(found, str):
        raise FileProblem(f"{posterior.directory / PROVENANCE}: does not say which alignment the run is on.")
    return found


def _evidence(posteriors: Sequence[Posterior], compared: Sequence[ComparedModel]) -> Iterator[ConstraintEvidence]:
    """Of every run under constraints with every run that is the same but for them."""
    for one, constrained in zip(posteriors, compared, strict=True):
        if one.config.constrain is None or (constraints := one.constraints) is None:
            continue
        for other, free in zip(posteriors, compared, strict=True):
            if other.config.constrain is None and _question(other.config) == _question(one.config):
                assert constrained.likelihood is not None
                assert free.likelihood is not None
                factors = against(constrained.likelihood, free.likelihood, constraints.log_share)
                yield ConstraintEvidence(constrained.directory, free.directory, constraints, *factors)


def _question(config: InferConfig) -> tuple[object, ...]:
    """What a marginal likelihood depends on, but for constraints."""
    return config.model, config.partition, config.branch_prior, config.prior_rate, config.own


def against(constrained: Measured, free: Measured, log_share: float) -> tuple[Measured, Measured | None]:
    """Log Bayes factors of constraints against all trees, and against those without them if that can be told."""
    factor = constrained.value - free.value
    error = math.hypot(constrained.error, free.error)
    # The posterior probability of the constraints, by the two marginal likelihoods, and of the rest.
    inside = math.exp(min(factor + log_share, 1.0))
    rest = 1 - inside
    if rest <= 0 or inside * error > MOST_UNDECIDED * rest:
        return Measured(factor, error), None
    # log p(Y given not C) = log p(Y) + log rest - log(1 - s)
    value = factor - math.log(rest) + math.log(-math.expm1(log_share))
    return Measured(factor, error), Measured(value, error / rest)


def _with_error(found: tuple[float, float]) -> str:
    return f"{found[0]:.3f} ± {found[1]:.3f}"
