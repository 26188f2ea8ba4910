"""Files for other programs: posterior trees, a trace, annotated consensus trees, the report."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from phloem.data.summary import summarize
from phloem.errors import BadArgument
from phloem.files import write_text
from phloem.inference.evaluation import Evaluation
from phloem.inference.history import Report
from phloem.pipeline.history_file import read_history
from phloem.pipeline.posterior import Posterior
from phloem.pipeline.provenance_file import read_provenance
from phloem.pipeline.run_traces import PROVENANCE
from phloem.pipeline.sampling import PosteriorSample, sample_posterior
from phloem.report.contents import CredibleSet, ReportContents
from phloem.report.html import render_report
from phloem.report.tracer import format_trace
from phloem.trees.annotated import write_annotated_nexus
from phloem.trees.consensus import extended_majority_rule, majority_rule, maximum_clade_credibility
from phloem.trees.rooting import root_at_midpoint, root_at_outgroup
from phloem.trees.splits import split_frequencies
from phloem.trees.summary_tree import SummaryTree, summary_tree
from phloem.trees.writing import write_nexus

CLOUD_TREES = 200


class TreeDisplay(NamedTuple):
    """How summary trees are made and hung up. Rooting is for the eye: the model has no root."""

    threshold: float = 0.5  # of the majority rule
    outgroup: Sequence[str] = ()
    midpoint: bool = False


AS_IT_IS = TreeDisplay()


def summary_trees(posterior: Posterior, display: TreeDisplay = AS_IT_IS) -> dict[str, SummaryTree]:
    """The majority-rule, the extended and the most credible tree, with supports and lengths, by name."""
    topologies = posterior.trees.topology_sample()
    splits = split_frequencies(topologies)
    trees = {
        "majority_rule": majority_rule(splits, display.threshold),
        "extended_majority_rule": extended_majority_rule(splits),
        "maximum_clade_credibility": maximum_clade_credibility(topologies, splits),
    }
    return {name: hang(summary_tree(tree, posterior.branch_lengths), display) for name, tree in trees.items()}


def hang(tree: SummaryTree, display: TreeDisplay) -> SummaryTree:
    """The tree with the root that is asked for, if one is."""
    if display.outgroup and display.midpoint:
        raise BadArgument("--outgroup and --midpoint: a tree has one root. Give one of them.")
    if display.outgroup:
        return root_at_outgroup(tree, display.outgroup)
    return root_at_midpoint(tree) if display.midpoint else tree


class Exports(NamedTuple):
    """All that is to be written, made beforehand: what is wrong with it is known while nothing is written yet."""

    trees: dict[str, SummaryTree]
    sample: PosteriorSample
    report: str

    def write(self, folder: Path) -> None:
        """Write posterior.nex, posterior.log, consensus.nex and report.html."""
        write_nexus(self.sample.trees, folder / "posterior.nex")
        write_trace(self.sample, folder / "posterior.log")
        write_annotated_nexus(self.trees, folder / "consensus.nex")
        write_text(folder / "report.html", self.report)


def make_exports(posterior: Posterior, display: TreeDisplay = AS_IT_IS) -> Exports:
    """Everything for other programs and for people."""
    trees = summary_trees(posterior, display)
    report = render(posterior, trees["majority_rule"], display.threshold)
    return Exports(trees, sample_posterior(posterior), report)


def render(posterior: Posterior, consensus: SummaryTree, threshold: float) -> str:
    """The report as HTML, with a consensus of the clades that are more probable than the threshold."""
    return render_report(report_contents(posterior, consensus, threshold))


def write_trace(sample: PosteriorSample, path: Path) -> None:
    """Write what is known of every tree, for Tracer."""
    lengths = sample.trees.branch_lengths
    assert lengths is not None
    columns = {
        "posterior": sample.log_likelihood + sample.log_prior,  # up to the marginal likelihood, as everywhere
        "likelihood": sample.log_likelihood,
        "prior": sample.log_prior,
        "tree_length": lengths.sum(axis=1),
        "log_q": sample.log_q,
        "topology": sample.topology,
    }
    if sample.is_weighted:
        columns["weight"] = sample.trees.weights
    write_text(path, format_trace(columns, f"phloem {version('phloem')}: independent draws, no burn-in"))


def histories_of(posterior: Posterior) -> list[list[Report]]:
    """The reports of each run's training."""
    return [read_history(run.directory / "history.csv", Report) for run in posterior.runs or (posterior,)]


def report_contents(posterior: Posterior, consensus: SummaryTree, threshold: float) -> ReportContents:
    """All that the report shows."""
    summary, config = posterior.summary, posterior.config
    return ReportContents(
        title=Path(posterior.source).name,
        alignment=summarize(posterior.alignment),
        model=posterior.target.likelihood.model.in_words(),
        branches=config.branches,
        runs=max(1, len(posterior.runs)),
        steps_done=summary["steps"],
        steps=config.training.steps,
        is_finished=posterior.is_finished,
        evaluation=Evaluation(posterior.elbo, posterior.lower_bound, posterior.log_marginal_likelihood),
        samples=summary["evaluation"]["samples"],
        repeats=summary["evaluation"]["repeats"],
        particles=config.training.particles,
        trust=posterior.trust,
        consensus=consensus,
        threshold=threshold,
        topologies=posterior.trees.topology_sample(),
        credible=[CredibleSet(**found) for found in summary["credible_sets"]],
        splits=posterior.branch_lengths,
        trees=posterior.trees,
        cloud=sample_posterior(posterior, min(CLOUD_TREES, len(posterior.draws))).trees,
        histories=histories_of(posterior),
        provenance=read_provenance(posterior.directory / PROVENANCE),
    )
