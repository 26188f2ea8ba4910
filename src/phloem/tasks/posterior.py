"""The posterior of a run as an object: estimates, topologies, clades, trees, the trained model, a report.

`load_posterior` reads a finished run. `tasks/opening.py` opens any run, and draws from it anew.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from phloem.arrays import FloatArray, LongArray
from phloem.config import InferConfig
from phloem.data.alignment import Alignment
from phloem.data.patterns import SitePatterns
from phloem.data.patterns import summarize as summarize_alignment
from phloem.errors import BadArgument, FileProblem, PhloemError, counted
from phloem.inference.chain_posterior import USUAL_CHAINS, USUAL_ROUNDS, ChainPosterior, chains_from
from phloem.inference.draws import USUAL_COUNT as USUAL_COUNT
from phloem.inference.draws import Draws, TopologyEstimates, join, read_draws, resample, shortest_decimals
from phloem.inference.evaluation import Estimated
from phloem.inference.parameter_estimates import ParameterEstimate
from phloem.inference.summary import Summary
from phloem.inference.training import Report, start_in
from phloem.inference.trust import Trust
from phloem.random_streams import RandomStream
from phloem.report.contents import ReportContents
from phloem.report.html import render_report
from phloem.report.text import describe_posterior
from phloem.runs.directory import CONFIG, HISTORY, LOCK, PROVENANCE, SUMMARY, read_provenance
from phloem.runs.history import read_history
from phloem.storage.files import cannot_write, write_text
from phloem.target.free_parameters import FreeParameters, model_in_words
from phloem.target.posterior import TreePosterior
from phloem.tasks.own_parts import NOTHING_OWN, OwnParts, branches_of, family_of
from phloem.tasks.run_files import (
    CLADES,
    DRAWS,
    MOST_TOPOLOGIES,
    PARAMETERS,
    TOPOLOGIES,
    InferCheckpoint,
    InferRun,
    infer_run,
    length_prior,
    read_clades,
    read_summary,
    read_topologies,
    restore_training,
)
from phloem.threads import physical_cores
from phloem.trees.branch_lengths import SplitLengths, split_lengths
from phloem.trees.consensus import (
    SummaryTree,
    extended_majority_rule,
    majority_rule,
    maximum_clade_credibility,
    summary_tree,
)
from phloem.trees.constraints import TopologyConstraints
from phloem.trees.rooting import root_at_midpoint, root_at_outgroup
from phloem.trees.sample import GroupedTrees, TreeSample
from phloem.trees.splits import SplitFrequencies, split_frequencies
from phloem.variational.joint import JointModel, read_parameters

CLOUD_TREES = 200


class TemporaryHome:
    """A directory that is removed when no posterior needs it any more, at the latest when Python exits."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="phloem-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def keep(self) -> None:
        """Leave the directory where it is, for good."""
        self._remove.detach()


class TrainedRun(NamedTuple):
    """A run as it stands in memory."""

    checkpoint: InferCheckpoint
    target: TreePosterior
    model: JointModel


class TreeDisplay(NamedTuple):
    """How summary trees are made and rooted. The root is for display: the model has none."""

    threshold: float = 0.5  # of the majority rule
    outgroup: Sequence[str] = ()
    midpoint: bool = False
    is_usual: bool = False  # of the run: a tree of which the outgroup is no clade is left unrooted


UNROOTED = TreeDisplay()


class PosteriorSample(NamedTuple):
    """Trees with branch lengths and, for each, what a trace shows of it."""

    trees: TreeSample
    log_likelihood: FloatArray  # (trees,)
    log_prior: FloatArray  # (trees,)  of tree, lengths and the coordinates of model parameters
    log_q: FloatArray  # (trees,)  log Q(τ, q)
    topology: LongArray  # (trees,)  its rank, 1 for the most probable one of the run
    parameters: dict[str, FloatArray]  # each (trees,): those of the substitution model that are inferred
    is_weighted: bool
    distinct: int  # different draws among these
    most_repeats: int  # how often the most frequent of them is here
    effective_size: float  # independent posterior trees that these are worth


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """What a run says of the posterior. `print` shows it; `save` copies its directory.

    With several runs, topologies and clades are those of all runs mixed by their marginal likelihoods; the model and
    the history are those of the best run. `runs` has each of them, or nothing for a single run.
    """

    directory: Path
    config: InferConfig
    summary: Summary
    topologies: TreeSample  # the most probable first, with their probabilities
    clades: SplitFrequencies  # every split that was seen, with its probability
    runs: "tuple[Posterior, ...]" = ()
    home: TemporaryHome | None = None  # of the directory, if it is a temporary one
    kept: Draws | None = None  # in memory
    trained: TrainedRun | None = None  # in memory; else it is loaded when it is needed
    own: OwnParts = NOTHING_OWN  # the user's own parts of the run, as far as they are known

    @classmethod
    def from_draws(
        cls,
        directory: Path,
        config: InferConfig,
        summary: Summary,
        draws: Draws,
        *,
        runs: "tuple[Posterior, ...]" = (),
        home: TemporaryHome | None = None,
        trained: TrainedRun | None = None,
    ) -> "Posterior":
        """The posterior that draws in memory say, as `load_posterior` would read it."""
        topologies = draws.weighted().topology_sample()
        return cls(
            directory,
            config,
            summary,
            topologies[:MOST_TOPOLOGIES],
            split_frequencies(topologies),
            runs,
            home,
            draws,
            trained,
        )

    @property
    def taxa(self) -> tuple[str, ...]:
        return self.topologies.taxa

    @property
    def is_finished(self) -> bool:
        """Whether training has ended; otherwise this is the posterior at the last checkpoint."""
        return self.summary.finished

    @property
    def trust(self) -> Trust:
        """How far the numbers can be trusted, and why."""
        return self.summary.trust

    @cached_property
    def draws(self) -> Draws:
        """The trees that the numbers are from, of all runs, with the logarithms that their weights are made of."""
        if self.kept is not None:
            return self.kept
        return (
            join([run.draws.own for run in self.runs])
            if self.runs
            else read_draws(infer_run(self.directory).checksums.check(DRAWS))
        )

    @cached_property
    def trees(self) -> GroupedTrees:
        """The draws with their weights: a sample of the posterior."""
        return self.draws.weighted()

    @cached_property
    def topology_estimates(self) -> TopologyEstimates:
        """Every topology that was drawn: its probability and its evidence log p(Y, τ), with standard errors."""
        return self.draws.topology_estimates()

    @cached_property
    def branch_lengths(self) -> SplitLengths:
        """Every branch that was seen, with the mean of its length and the interval that holds 95 %."""
        return split_lengths(self.trees)

    @property
    def parameters(self) -> dict[str, ParameterEstimate]:
        """The parameters of the substitution model that were inferred, by MrBayes' names; empty if none were."""
        return {one.name: one for one in self.summary.found.parameters}

    @cached_property
    def parameter_values(self) -> dict[str, FloatArray]:
        """Each inferred parameter's value in every draw, (draws,), whose weights are those of `trees`."""
        return values_by_name(free_parameters(self), self.draws.theta)

    @property
    def log_marginal_likelihood(self) -> Estimated:
        """By importance sampling: the mean over repeats, and their standard deviation."""
        return self.summary.evaluation.log_marginal_likelihood

    @property
    def elbo(self) -> Estimated:
        """The evidence lower bound."""
        return self.summary.evaluation.elbo

    @property
    def lower_bound(self) -> Estimated:
        """The bound of as many draws as training had particles."""
        return self.summary.evaluation.lower_bound

    @property
    def best_run(self) -> "Posterior":
        """The run with the highest marginal likelihood; the posterior itself if it is one run."""
        return self.runs[(self.summary.best_run or 1) - 1] if self.runs else self

    @cached_property
    def history(self) -> list[Report]:
        """The reports of the training."""
        return history_of(self.best_run)

    @property
    def source(self) -> str:
        """The alignment as the user named it."""
        return self._checkpoint.inputs.source

    @cached_property
    def alignment(self) -> Alignment:
        """The alignment, from the checkpoint."""
        return self.patterns.alignment

    @property
    def patterns(self) -> SitePatterns:
        """The alignment's columns, as they were given to the likelihood."""
        return self._checkpoint.inputs.patterns

    @property
    def constraints(self) -> TopologyConstraints | None:
        """What all trees have, if anything."""
        return self._checkpoint.inputs.constraints

    @cached_property
    def target(self) -> TreePosterior:
        """p(Y, τ, q)."""
        trained = self.best_run.trained
        return trained.target if trained else self._checkpoint.inputs.target(self.config)

    @cached_property
    def model(self) -> JointModel:
        """Q(τ, q), trained."""
        best = self.best_run
        if best.trained:
            return best.trained.model
        if not best.is_finished:
            return restore_training(self._checkpoint, self.target).model
        checkpoint = self._checkpoint
        model = checkpoint.inputs.model(best.config, start_in(checkpoint.training).theta)
        read_parameters(model, infer_run(best.directory).checksums.check(PARAMETERS))
        return model

    @cached_property
    def _checkpoint(self) -> InferCheckpoint:
        if self.best_run.trained:
            return self.best_run.trained.checkpoint
        run = infer_run(self.best_run.directory)
        found, problems = run.checkpoints.newest()
        if found is None:
            raise FileProblem(problems[0] if problems else f"{run.path}: has no checkpoint. It cannot be used further.")
        return replace(found, inputs=found.inputs._replace(own=self.best_run.own))

    def save(self, path: str | Path) -> "Posterior":
        """Copy the run to another directory, a new one."""
        path = Path(path)
        try:
            shutil.copytree(self.directory, path, ignore=shutil.ignore_patterns(LOCK))
        except FileExistsError:
            raise FileProblem(f"{path}: exists already. Name a new directory.") from None
        except (OSError, shutil.Error) as problem:
            raise cannot_write(path, problem) from None
        return load_posterior(path)

    def sample(self, count: int | None = None, *, seed: int = 1, weighted: bool = False) -> TreeSample:
        """Posterior trees with branch lengths, all of the same weight or each with its own; 1,000 by default."""
        return sample_posterior(self, count, seed=seed, weighted=weighted).trees

    def chains(
        self,
        chains: int = USUAL_CHAINS,
        rounds: int = USUAL_ROUNDS,
        *,
        seed: int = 1,
        threads: int | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> ChainPosterior:
        """Markov chains from the draws, which may leave the support: their trees, and how far all agree.

        The same seed gives the same trees on any number of threads: the physical cores, by default.
        """
        return chains_from(
            self.draws,
            self.target,
            [run.model.network for run in self.runs or (self,)],
            self.clades,
            chains=chains,
            rounds=rounds,
            stream=RandomStream(seed, "chains"),
            threads=physical_cores() if threads is None else threads,
            progress=progress,
        )

    def summary_trees(
        self, *, threshold: float = 0.5, outgroup: Sequence[str] = (), midpoint: bool = False
    ) -> dict[str, SummaryTree]:
        """The majority-rule, the extended and the most credible tree, by name, with supports and branch lengths.

        outgroup, midpoint: where to root them for display.
        """
        return summary_trees(self, TreeDisplay(threshold, outgroup, midpoint))

    def consensus(self, threshold: float = 0.5, *, outgroup: Sequence[str] = (), midpoint: bool = False) -> SummaryTree:
        """The tree of all clades that are more probable than the threshold."""
        return self.summary_trees(threshold=threshold, outgroup=outgroup, midpoint=midpoint)["majority_rule"]

    def report(
        self, path: str | Path, *, threshold: float = 0.5, outgroup: Sequence[str] = (), midpoint: bool = False
    ) -> None:
        """Write the report, one HTML file."""
        consensus = self.consensus(threshold, outgroup=outgroup, midpoint=midpoint)
        write_text(Path(path), render_report(report_contents(self, consensus, threshold)))

    def describe(self, width: int = 80) -> list[str]:
        """Lines for a terminal: the evidence, the best topologies, clade supports on a tree."""
        return list(describe_posterior(self.summary, self.topologies, self.clades, width=width))

    def __str__(self) -> str:
        return "\n".join(self.describe())

    def __repr__(self) -> str:
        mean, std = self.log_marginal_likelihood
        return f"<Posterior of {len(self.taxa)} taxa, log marginal likelihood {mean:.2f} ± {std or 0:.2f}>"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """What a notebook shows."""
        printer.text(str(self))


def sample_posterior(
    posterior: Posterior, count: int | None = None, *, seed: int = 1, weighted: bool = False
) -> PosteriorSample:
    """Trees from the draws of a run: resampled by their weights, or each once with its weight.

    count: 1,000 by default, or all draws if there are fewer. More trees than the effective sample size repeat some.
    """
    draws = posterior.draws
    if count is None:
        count = min(USUAL_COUNT, len(draws))
    if count < 1:
        raise BadArgument(f"--count {count}: ask for at least one tree.")
    if count > len(draws):
        raise BadArgument(
            f"--count {count:,}: the run has {counted(len(draws), 'draw')}. Ask for no more, or train one with more "
            "--repeats."
        )
    random = RandomStream(seed, "sample").generator()
    all_weights = posterior.trees.weights
    if weighted:
        chosen = random.permutation(len(draws))[:count]
        weights = all_weights[chosen] / all_weights[chosen].sum()
    else:
        chosen = random.permutation(resample(all_weights, count, float(random.random())))
        weights = np.full(count, 1 / count)
    times = np.bincount(chosen)
    lengths = shortest_decimals(draws.branch_lengths[chosen])
    topologies = draws.topologies[draws.group[chosen]]
    parameters, theta = free_parameters(posterior), draws.theta[chosen]
    with torch.no_grad():
        needs_target = posterior.config.own or posterior.config.constrain
        prior = posterior.target.log_prior_of_trees if needs_target else length_prior(posterior.config)
        log_prior = prior(topologies, torch.from_numpy(lengths)).numpy()
    if parameters is not None:
        log_prior = log_prior + parameters.log_prior(theta)[0]
    return PosteriorSample(
        trees=TreeSample(draws.taxa, topologies, weights, lengths),
        log_likelihood=draws.log_joint[chosen] - log_prior,
        log_prior=log_prior,
        log_q=(draws.log_q_topology + draws.log_q_branches)[chosen],
        topology=_ranks(posterior.trees.topology_weights())[draws.group[chosen]],
        parameters=values_by_name(parameters, theta),
        is_weighted=weighted,
        distinct=int((times > 0).sum()),
        most_repeats=int(times.max()),
        effective_size=_effective_size(weights if weighted else all_weights, times),
    )


def free_parameters(posterior: Posterior) -> FreeParameters | None:
    """The parameters of the substitution model that were inferred; None, without reading the run, if there are none."""
    return posterior.target.parameters if posterior.draws.theta.shape[1] else None


def values_by_name(parameters: FreeParameters | None, theta: FloatArray) -> dict[str, FloatArray]:
    """The parameters at coordinates (trees, dimension), each (trees,)."""
    if parameters is None:
        return {}
    return dict(zip(parameters.names, parameters.values(theta).T, strict=True))


def _effective_size(weights: FloatArray, times: LongArray) -> float:
    """Resampling adds nothing to what the weighted draws are worth, and counts a repeated draw once for its weight."""
    return min(1 / float(weights @ weights), float(times.sum() ** 2 / (times**2).sum()))


def _ranks(weights: FloatArray) -> LongArray:
    ranks = np.empty(len(weights), np.int64)
    ranks[np.argsort(-weights, kind="stable")] = np.arange(1, len(weights) + 1)
    return ranks


def summary_trees(posterior: Posterior, display: TreeDisplay = UNROOTED) -> dict[str, SummaryTree]:
    """The majority-rule, the extended and the most credible tree, with supports and lengths, by name."""
    topologies = posterior.trees.topology_sample()
    splits = split_frequencies(topologies)
    trees = {
        "majority_rule": majority_rule(splits, display.threshold),
        "extended_majority_rule": extended_majority_rule(splits),
        "maximum_clade_credibility": maximum_clade_credibility(topologies, splits),
    }
    return {name: rooted(summary_tree(tree, posterior.branch_lengths), display) for name, tree in trees.items()}


def rooted(tree: SummaryTree, display: TreeDisplay) -> SummaryTree:
    """The tree with the root that the user asked for, if any."""
    if display.outgroup and display.midpoint:
        raise BadArgument("--outgroup and --midpoint: a tree has one root. Give one of them.")
    if display.outgroup:
        try:
            return root_at_outgroup(tree, display.outgroup)
        except BadArgument:
            if display.is_usual:
                return tree
            raise
    return root_at_midpoint(tree) if display.midpoint else tree


def histories_of(posterior: Posterior) -> list[list[Report]]:
    """The reports of each run's training."""
    return [history_of(run) for run in posterior.runs or (posterior,)]


def history_of(run: Posterior) -> list[Report]:
    """The reports of one run's training: without results, as in its evaluation, those of its checkpoint."""
    if not (run.is_finished and (run.directory / SUMMARY).exists()):
        return run._checkpoint.history.reports
    return read_history(infer_run(run.directory).checksums.check(HISTORY), Report)


def report_contents(posterior: Posterior, consensus: SummaryTree, threshold: float) -> ReportContents:
    """All that the report shows, with a consensus of the clades that are more probable than the threshold."""
    summary, config = posterior.summary, posterior.config
    return ReportContents(
        title=Path(posterior.source).name,
        alignment=summarize_alignment(posterior.alignment),
        model=model_in_words(posterior.target.likelihood.model, posterior.target.parameters),
        priors=posterior.target.priors_in_words(),
        parameters=summary.found.parameters,
        parameter_values=posterior.parameter_values,
        branches=branches_of(config),
        family=family_of(config),
        runs=max(1, len(posterior.runs)),
        steps_done=summary.steps,
        steps=config.training.steps,
        is_finished=posterior.is_finished,
        evaluation=summary.evaluation,
        samples=summary.samples,
        repeats=summary.repeats,
        likelihood_error=summary.likelihood_error,
        annealed=summary.annealed,
        check=summary.check,
        particles=config.training.particles,
        trust=posterior.trust,
        consensus=consensus,
        threshold=threshold,
        topologies=posterior.topology_estimates.trees,
        topology_errors=posterior.topology_estimates.error,
        credible=summary.found.credible_sets,
        splits=posterior.branch_lengths,
        trees=posterior.trees,
        cloud=sample_posterior(posterior, min(CLOUD_TREES, len(posterior.draws))).trees,
        histories=histories_of(posterior),
        provenance=read_provenance(infer_run(posterior.directory).checksums.check(PROVENANCE)),
    )


def load_posterior(
    directory: str | Path, *, home: TemporaryHome | None = None, own: OwnParts = NOTHING_OWN
) -> Posterior:
    """The posterior of a finished run.

    home: of the directory, if it is a temporary one. own: parts of the run that no file has.
    """
    run = infer_run(directory)
    run.check_holds_run()
    if not (run.path / SUMMARY).exists():
        raise FileProblem(f"{directory}: the run is not finished. {run.how_to_finish()}")
    for name in (CONFIG, TOPOLOGIES, CLADES):
        run.checksums.check(name)
    summary = read_summary(run)
    children = run.children()
    if len(children) != summary.runs:
        raise FileProblem(
            f"{directory}: has {counted(len(children), 'run')}, but its summary says {summary.runs}. Put them back, "
            "or make them again: phloem infer --resume."
        )
    runs = tuple(load_posterior(child.path, home=home, own=own) for child in children)
    for other in runs:
        if other.taxa != summary.names:
            raise FileProblem(f"{other.directory}: is a run on other taxa than {directory}. Take it out of there.")
    config = run.read_config()
    assert config is not None
    return Posterior(
        directory=run.path,
        config=config,
        summary=summary,
        topologies=read_topologies(run.path / TOPOLOGIES, summary.names),
        clades=read_clades(run.path / CLADES, summary.names),
        runs=runs,
        home=home,
        own=own,
    )


def is_finished(run: InferRun) -> bool:
    """Whether all results exist and can be read. Others are made again from the last checkpoint."""
    return run.has_results() and can_be_loaded(run)


def can_be_loaded(run: InferRun) -> bool:
    """Whether there is a posterior to be read."""
    try:
        load_posterior(run.path)
    except PhloemError:
        return False
    return True
