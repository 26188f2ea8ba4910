"""A posterior in a few numbers: the record behind `summary.json`, which is written and read here alone.

A new number of the draws is a field of `DrawSummary`, computed in `summarize_draws`; any other is a field of `Summary`,
which `tasks/run_files.py` fills. Either has a key below, and a line in `as_json` and in `from_json`.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from phloem.inference.agreement import Agreement, Measured
from phloem.inference.chain_check import ChainCheck, CladeDifference
from phloem.inference.diagnostics import effective_sample_size, pareto_shape, smooth
from phloem.inference.draws import Draws, TopologyEstimates
from phloem.inference.evaluation import Estimated, Evaluation
from phloem.inference.measurement import Annealed, PlainDraws
from phloem.inference.outside import log_error_outside
from phloem.inference.parameter_estimates import ParameterEstimate, parameter_estimates
from phloem.inference.trust import Finding, Trust
from phloem.target.free_parameters import FreeParameters
from phloem.trees.branch_lengths import shortest_interval, tree_lengths
from phloem.trees.sample import credible_set_size
from phloem.trees.splits import SplitDeviation
from phloem.trees.writing import format_newick

BEST = 10  # topologies in the summary
CREDIBLE_SHARES = (0.5, 0.9, 0.95, 0.99)

# The keys of `summary.json`, in order: of one run, and of several together.
OF_DRAWS = ("draws", "trust", "parameters", "tree_length", "credible_sets", "distinct_topologies", "best_topologies")
ESTIMATES = ("elbo", "lower_bound", "log_marginal_likelihood")
ERROR = "log_marginal_likelihood_error"
OF_ONE_RUN = (
    *("names", "taxa", "sites", "patterns", "model", "constraints", "branches", "family", "seed", "support"),
    *("finished", "steps", "stopped_early", "skipped_steps", "evaluation", *ESTIMATES, ERROR),
    *("annealed", "chains", *OF_DRAWS),
)
OF_SEVERAL_RUNS = (
    *("names", "taxa", "sites", "patterns", "model", "constraints", "branches", "family", "support", "evaluation"),
    *("seed", "runs", "best_run", "finished", "steps", *ESTIMATES, ERROR, "annealed"),
    *("chains", "agreement", *OF_DRAWS),
)


class SupportSize(NamedTuple):
    """What the support of the topologies holds."""

    topologies: int  # that it was collected from
    splits: int
    parameters: int  # of the subsplit network


@dataclass(frozen=True, slots=True)
class DrawQuality:
    """How many draws there are, and what their weights are worth."""

    count: int
    effective_sample_size: float
    unsmoothed_effective_sample_size: float
    pareto_shape: float | None


class MeanInterval(NamedTuple):
    """A mean, and the shortest interval that holds 95 % of the probability."""

    mean: float
    lower: float
    upper: float


class CredibleSet(NamedTuple):
    """How many of the most probable topologies hold at least this share of the probability."""

    share: float
    topologies: int


class BestTopology(NamedTuple):
    """A topology with its probability, its log p(Y, τ), and their standard errors, which earlier versions lack."""

    probability: float
    newick: str
    error: float | None = None
    log_evidence: float | None = None
    log_evidence_error: float | None = None


class DrawSummary(NamedTuple):
    """What weighted draws say: how far they can be trusted, and which trees and parameters are probable."""

    draws: DrawQuality
    trust: Trust
    tree_length: MeanInterval
    credible_sets: tuple[CredibleSet, ...]
    distinct_topologies: int
    best_topologies: tuple[BestTopology, ...]
    parameters: tuple[ParameterEstimate, ...] = ()  # of the substitution model, as far as they are inferred


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of one run, or of several together."""

    names: tuple[str, ...]  # of the taxa
    sites: int
    patterns: int
    model: str  # of substitution, in words
    branches: str
    family: str  # of branch lengths; empty for a user's own
    seed: int
    support: SupportSize
    finished: bool  # whether training has ended; else this is the posterior at a checkpoint
    steps: int  # of the run that has taken the fewest
    repeats: int  # estimates
    samples: int  # trees in each
    evaluation: Evaluation  # of the best run, but for the marginal likelihood, which is that of all draws
    found: DrawSummary
    stopped_early: bool = False  # because the bound was flat
    skipped_steps: int = 0
    runs: int = 0  # 0 for a run alone
    best_run: int | None = None  # counted from 1
    agreement: Agreement | None = None  # of several runs
    annealed: Annealed | None = None  # how draws were annealed, if they were
    check: ChainCheck | None = None  # what Markov chains from the draws said, if there were any
    constraints: tuple[str, ...] = ()  # that all trees satisfy, by their names

    @property
    def trust(self) -> Trust:
        return self.found.trust

    @property
    def draws(self) -> DrawQuality:
        return self.found.draws

    @property
    def likelihood_error(self) -> float | None:
        """The standard error of the log marginal likelihood: that of the mean of all estimates."""
        return likelihood_error(self.evaluation, self.repeats, self.check)

    def as_json(self) -> dict[str, Any]:
        """What `summary.json` holds."""
        found = self.found
        trust = found.trust
        values = {
            "names": list(self.names),
            "taxa": len(self.names),
            "constraints": list(self.constraints),
            **{name: getattr(self, name) for name in ("sites", "patterns", "model", "branches", "family", "seed")},
            "support": self.support._asdict(),
            **{name: getattr(self, name) for name in ("finished", "steps", "stopped_early", "skipped_steps")},
            **{name: getattr(self, name) for name in ("runs", "best_run")},
            "evaluation": {"repeats": self.repeats, "samples": self.samples},
            **_evaluation_as_json(self.evaluation),
            ERROR: self.likelihood_error,
            "annealed": None if self.annealed is None else _annealed_as_json(self.annealed),
            "chains": None if self.check is None else _check_as_json(self.check),
            "agreement": None if self.agreement is None else _agreement_as_json(self.agreement),
            "draws": asdict(found.draws),
            "trust": {
                "level": trust.level,
                "advice": trust.advice,
                "findings": [finding._asdict() for finding in trust.findings],
            },
            "parameters": [one._asdict() for one in found.parameters],
            "tree_length": found.tree_length._asdict(),
            "credible_sets": [one._asdict() for one in found.credible_sets],
            "distinct_topologies": found.distinct_topologies,
            "best_topologies": [one._asdict() for one in found.best_topologies],
        }
        return {key: values[key] for key in (OF_SEVERAL_RUNS if self.runs else OF_ONE_RUN)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Summary":
        """The record that `as_json` was made of; KeyError, TypeError or ValueError if it is something else."""
        trust = content["trust"]
        findings = tuple(Finding(**finding) for finding in trust["findings"])
        agreement, annealed, check = (content.get(key) for key in ("agreement", "annealed", "chains"))
        return cls(
            names=tuple(content["names"]),
            **{name: content[name] for name in ("sites", "patterns", "model", "branches", "seed")},
            family=content.get("family", "lognormal"),  # there was no other before it was written
            support=SupportSize(**content["support"]),
            finished=bool(content["finished"]),
            steps=int(content["steps"]),
            repeats=int(content["evaluation"]["repeats"]),
            samples=int(content["evaluation"]["samples"]),
            evaluation=_evaluation_from_json(content),
            found=DrawSummary(
                draws=DrawQuality(**content["draws"]),
                trust=Trust(trust["level"], findings, trust["advice"]),
                tree_length=MeanInterval(**content["tree_length"]),
                credible_sets=tuple(CredibleSet(**one) for one in content["credible_sets"]),
                distinct_topologies=int(content["distinct_topologies"]),
                best_topologies=tuple(BestTopology(**one) for one in content["best_topologies"]),
                parameters=tuple(ParameterEstimate(**one) for one in content.get("parameters", ())),
            ),
            stopped_early=bool(content.get("stopped_early", False)),
            skipped_steps=int(content.get("skipped_steps", 0)),
            runs=int(content.get("runs", 0)),
            best_run=content.get("best_run"),
            agreement=None if agreement is None else _agreement_from_json(agreement),
            annealed=None if annealed is None else _annealed_from_json(annealed),
            check=None if check is None else _check_from_json(check),
            constraints=tuple(content.get("constraints", ())),
        )


def likelihood_error(evaluation: Evaluation, repeats: int, check: ChainCheck | None) -> float | None:
    """The standard error of the mean of so many estimates of the log marginal likelihood; None for a single one.

    What chains added for the trees outside the support is the same in all of them, and so is its error.
    """
    deviation = evaluation.log_marginal_likelihood.std
    if deviation is None:
        return None
    common = log_error_outside(check.outside) if check is not None and check.added else 0.0
    return math.hypot(math.sqrt(max(0.0, deviation**2 - common**2) / repeats), common)


def summarize_draws(draws: Draws, trust: Trust, parameters: FreeParameters | None = None) -> DrawSummary:
    """What weighted draws say. parameters: those of the substitution model that are inferred."""
    trees = draws.weighted()
    log_weights = draws.own_log_weights
    topologies = draws.topology_estimates()
    lengths = tree_lengths(trees)
    return DrawSummary(
        draws=DrawQuality(
            count=len(log_weights),
            effective_sample_size=effective_sample_size(smooth(log_weights)),
            unsmoothed_effective_sample_size=effective_sample_size(log_weights),
            pareto_shape=pareto_shape(log_weights),
        ),
        trust=trust,
        tree_length=MeanInterval(float(lengths @ trees.weights), *shortest_interval(lengths, trees.weights)),
        credible_sets=tuple(
            CredibleSet(share, credible_set_size(topologies.trees.weights, share)) for share in CREDIBLE_SHARES
        ),
        distinct_topologies=len(topologies),
        best_topologies=_best(topologies),
        parameters=parameter_estimates(trees, draws.theta, parameters),
    )


def _best(topologies: TopologyEstimates) -> tuple[BestTopology, ...]:
    best = topologies.first(BEST)
    columns = (best.error, best.log_evidence, best.log_evidence_error)
    known = ([value if math.isfinite(value) else None for value in column.tolist()] for column in columns)
    newick = format_newick(best.trees.topologies, best.trees.taxa)
    return tuple(map(BestTopology, best.trees.weights.tolist(), newick, *known))


def _evaluation_as_json(evaluation: Evaluation) -> dict[str, Any]:
    return {name: estimate._asdict() for name, estimate in evaluation._asdict().items()}


def _evaluation_from_json(content: Mapping[str, Any]) -> Evaluation:
    return Evaluation(**{name: Estimated(**content[name]) for name in ESTIMATES})


def _annealed_as_json(annealed: Annealed) -> dict[str, Any]:
    plain = annealed.plain
    quality = None if plain is None else {**plain._asdict(), "evaluation": _evaluation_as_json(plain.evaluation)}
    return {**annealed._asdict(), "plain": quality}


def _annealed_from_json(content: Mapping[str, Any]) -> Annealed:
    plain = content["plain"]
    if plain is not None:
        plain = PlainDraws(**{**plain, "evaluation": _evaluation_from_json(plain["evaluation"])})
    return Annealed(**{**content, "plain": plain})


def _check_as_json(check: ChainCheck) -> dict[str, Any]:
    difference = check.difference
    return {
        "chains": check.chains,
        "rounds": check.rounds,
        "outside_support": check.outside._asdict(),
        "clade_difference": {
            "run": difference.run,
            "chains": difference.chains._asdict(),
            "beyond_errors": difference.beyond_errors,
        },
        "added": check.added,
        "elsewhere": check.elsewhere,
    }


def _check_from_json(content: Mapping[str, Any]) -> ChainCheck:
    difference = content["clade_difference"]
    return ChainCheck(
        chains=int(content["chains"]),
        rounds=int(content["rounds"]),
        outside=Measured(**content["outside_support"]),
        difference=CladeDifference(
            float(difference["run"]), Measured(**difference["chains"]), float(difference["beyond_errors"])
        ),
        added=int(content.get("added", 0)),
        elsewhere=float(content.get("elsewhere", 0.0)),
    )


def _agreement_as_json(agreement: Agreement) -> dict[str, Any]:
    return {
        "log_marginal_likelihoods": [estimate._asdict() for estimate in agreement.log_marginal_likelihoods],
        "shares": list(agreement.shares),
        "marginal_likelihood_difference": agreement.difference._asdict(),
        "average_split_deviation": agreement.splits.average,
        "largest_split_deviation": agreement.splits.largest,
        "largest_split_difference": agreement.splits.largest_difference,
    }


def _agreement_from_json(content: Mapping[str, Any]) -> Agreement:
    return Agreement(
        log_marginal_likelihoods=tuple(Measured(**one) for one in content["log_marginal_likelihoods"]),
        shares=tuple(content["shares"]),
        difference=Measured(**content["marginal_likelihood_difference"]),
        splits=SplitDeviation(
            average=content["average_split_deviation"],
            largest=content["largest_split_deviation"],
            largest_difference=content["largest_split_difference"],
        ),
    )
