"""Files for other programs and people: posterior trees, traces, annotated consensus trees, figures, the report."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phloem import plot
from phloem.arrays import AnyArray, FloatArray, LongArray
from phloem.config.settings import check_choice
from phloem.data.patterns import summarize
from phloem.errors import BadArgument, quoted
from phloem.inference.evaluation import Evaluation
from phloem.random_streams import RandomStream
from phloem.report.contents import CredibleSet, ReportContents
from phloem.report.html import render_report
from phloem.runs.directory import PROVENANCE, read_provenance
from phloem.runs.history import Report, read_history
from phloem.storage.files import cannot_write, check_can_write, write_text
from phloem.target.posterior import TreePrior
from phloem.tasks.opening import open_posterior
from phloem.tasks.posterior import Posterior
from phloem.tasks.results import stars
from phloem.tasks.run_directory import RunDirectory
from phloem.trees.branch_lengths import topology_lengths
from phloem.trees.consensus import (
    SummaryTree,
    extended_majority_rule,
    majority_rule,
    maximum_clade_credibility,
    summary_tree,
)
from phloem.trees.rooting import root_at_midpoint, root_at_outgroup
from phloem.trees.sample import TreeSample, credible_set_size
from phloem.trees.splits import split_bits, split_frequencies, unpack_bits
from phloem.trees.writing import is_nexus_name, write_annotated_nexus, write_nexus, write_trees

USUAL_COUNT = 1000
CLOUD_TREES = 200
LENGTH_COLUMNS = ("topology", "probability", "members", "mean", "deviation", "median", "lower", "upper")
MOST_TOPOLOGIES = 1000  # with branch lengths of their own
FORMATS = ("pdf", "svg", "png")


def format_trace(columns: Mapping[str, AnyArray], title: str) -> str:
    """`# title`, the names of the columns after `state`, then the rows, numbered from 0."""
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise BadArgument("trace: one or more columns of the same length are needed.")
    lines = ["# " + " ".join(title.split()), "\t".join(["state", *columns])]
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines += ("\t".join([str(number), *map(_cell, row)]) for number, row in enumerate(rows))
    return "\n".join(lines) + "\n"


def _cell(value: float | int) -> str:
    return str(value) if isinstance(value, int) else f"{value:.10g}"


class PosteriorSample(NamedTuple):
    """Trees with branch lengths and, for each, what a trace shows of it."""

    trees: TreeSample
    log_likelihood: FloatArray  # (trees,)
    log_prior: FloatArray  # (trees,)
    log_q: FloatArray  # (trees,)  log Q(τ, q)
    topology: LongArray  # (trees,)  its rank, 1 for the most probable one of the run
    is_weighted: bool
    effective_size: float  # of the draws that these are from or, with weights, that these are


def sample_posterior(
    posterior: Posterior, count: int | None = None, *, seed: int = 1, weighted: bool = False
) -> PosteriorSample:
    """Trees from the draws of a run: as often as their weights say and all alike, or each once with its weight.

    count: how many; without it 1,000, or all draws where there are fewer. More trees than the draws are effectively
    worth repeat some of them.
    """
    draws = posterior.draws
    if count is None:
        count = min(USUAL_COUNT, len(draws))
    if count < 1:
        raise BadArgument(f"--count {count}: ask for at least one tree.")
    if count > len(draws):
        raise BadArgument(
            f"--count {count:,}: the run has {len(draws):,} draws. Ask for no more, or train one with more --repeats."
        )
    random = RandomStream(seed, "sample").generator()
    all_weights = posterior.trees.weights
    if weighted:
        chosen = random.permutation(len(draws))[:count]
        weights = all_weights[chosen] / all_weights[chosen].sum()
    else:
        chosen = random.permutation(resample(all_weights, count, float(random.random())))
        weights = np.full(count, 1 / count)
    lengths = shortest_decimals(draws.branch_lengths[chosen])
    topologies = draws.topologies[draws.group[chosen]]
    with torch.no_grad():
        log_prior = TreePrior(posterior.config.prior_rate)(topologies, torch.from_numpy(lengths)).numpy()
    return PosteriorSample(
        trees=TreeSample(draws.taxa, topologies, weights, lengths),
        log_likelihood=draws.log_joint[chosen] - log_prior,
        log_prior=log_prior,
        log_q=(draws.log_q_topology + draws.log_q_branches)[chosen],
        topology=_ranks(posterior.trees.topology_weights())[draws.group[chosen]],
        is_weighted=weighted,
        effective_size=1 / float(weights @ weights if weighted else all_weights @ all_weights),
    )


def resample(weights: FloatArray, count: int, offset: float) -> LongArray:
    """Systematic resampling: draw i comes count·weight times, rounded up or down, so that no luck is added.

    weights: sum to one. offset: a random number from 0 up to 1.
    """
    ends = np.cumsum(weights)
    points = (np.arange(count) + offset) / count * ends[-1]
    return np.asarray(np.minimum(np.searchsorted(ends, points, side="right"), len(weights) - 1))


def shortest_decimals(lengths: NDArray[np.float32]) -> FloatArray:
    """The numbers with the fewest digits that stand for these, so that text of them is short."""
    return lengths.astype("U").astype(np.float64)


def _ranks(weights: FloatArray) -> LongArray:
    ranks = np.empty(len(weights), np.int64)
    ranks[np.argsort(-weights, kind="stable")] = np.arange(1, len(weights) + 1)
    return ranks


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


class SampleFiles(NamedTuple):
    """Where trees go and, if it is wanted, what else is said of them."""

    trees: Path
    trace: Path | None = None
    lengths: Path | None = None


def write_sample(
    directory: Path,
    files: SampleFiles,
    *,
    count: int | None,
    weighted: bool,
    seed: int,
    progress: Callable[[float], None] = lambda _: None,
) -> list[str]:
    """Write trees of a run; returns what was done, in lines."""
    if weighted and not is_nexus_name(files.trees):
        raise BadArgument(f"{files.trees}: Newick has no place for weights. Name a .nex file, or leave out --weighted.")
    wanted = [path for path in files if path is not None]
    if len({path.resolve() for path in wanted}) < len(wanted):
        raise BadArgument("--out, --log and --lengths: name different files.")
    is_nexus_name(files.trees)
    for path in wanted:
        RunDirectory(directory).refuse_overwriting(path)
        check_can_write(path)
    posterior = open_posterior(directory, progress=progress)
    sample = sample_posterior(posterior, count, seed=seed, weighted=weighted)
    write_trees(sample.trees, files.trees)
    if files.trace is not None:
        write_trace(sample, files.trace)
    if files.lengths is not None:
        write_text(files.lengths, format_lengths(posterior))
    return list(_report(posterior, sample, files))


def format_lengths(posterior: Posterior) -> str:
    """Branch lengths over all trees that have the branch (`all`), and on each topology of the 95 % credible set.

    Members are on the side without the first taxon, as stars; the first taxon's own branch has itself alone.
    """
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(LENGTH_COLUMNS)
    splits = posterior.branch_lengths
    columns = (splits.mean, splits.deviation, splits.median, splits.lower, splits.upper)
    for members, frequency, *row in zip(splits.members, splits.frequency.tolist(), *columns, strict=True):
        writer.writerow(["all", frequency, stars(members), *map(float, row)])
    trees = posterior.trees
    weights = trees.topology_weights()
    order = np.argsort(-weights, kind="stable")
    for rank, number in enumerate(order[: min(MOST_TOPOLOGIES, credible_set_size(weights[order], 0.95))].tolist(), 1):
        found = topology_lengths(trees, number)
        bits = split_bits(trees.topologies[number])[0]
        rows = zip(unpack_bits(bits, len(trees.taxa)), *(part.tolist() for part in found), strict=True)
        for members, *row in rows:
            writer.writerow([rank, float(weights[number]), stars(members), *row])
    return table.getvalue()


def _report(posterior: Posterior, sample: PosteriorSample, files: SampleFiles) -> Iterator[str]:
    count = len(sample.trees)
    if not posterior.is_finished:
        yield f"not finished: these are of step {posterior.summary['steps']:,}"
    how = "with weights" if sample.is_weighted else "all alike"
    yield f"{count:,} posterior tree{'s' if count > 1 else ''}, {how}: {files.trees}"
    if sample.is_weighted:
        yield f"with their weights they are worth {sample.effective_size:,.0f} independent trees"
    elif count > sample.effective_size:
        yield f"the draws are worth {sample.effective_size:,.0f} independent trees: some of these repeat"
    if files.trace is not None:
        yield f"their trace: {files.trace}"
    if files.lengths is not None:
        yield f"branch lengths: {files.lengths}"


def check_figure_format(name: str) -> None:
    """Raise unless figures can be written so."""
    check_choice("--figures", name, FORMATS)


def write_figures(posterior: Posterior, consensus: SummaryTree, folder: Path, suffix: str) -> list[Path]:
    """Write every figure as `name.suffix`; returns where they are."""
    paths = []
    for name, figure in _figures(posterior, consensus):
        paths.append(folder / f"{name}.{suffix}")
        plot.save(figure, paths[-1])
    return paths


def _figures(posterior: Posterior, consensus: SummaryTree) -> Iterator[tuple[str, plot.Figure]]:
    draws = posterior.summary["draws"]
    yield "consensus", plot.tree(consensus)
    yield "cloud", plot.cloud(posterior.sample(min(CLOUD_TREES, len(posterior.draws))), like=consensus)
    yield "topologies", plot.topologies(posterior.trees.topology_sample())
    yield "branch-lengths", plot.branch_lengths(consensus)
    yield "tree-lengths", plot.tree_lengths(posterior.trees)
    yield "training", plot.training(histories_of(posterior))
    yield (
        "weights",
        plot.weights(
            posterior.draws.log_weights,
            effective_samples=draws["effective_sample_size"],
            pareto_k=draws["pareto_shape"],
        ),
    )
    if len(posterior.runs) > 1:
        one, other = posterior.runs[:2]
        yield "clades", plot.clades(one.clades, other.clades, names=("run 1", "run 2"))


def write_report(
    directory: Path,
    out: Path | None = None,
    *,
    threshold: float = 0.5,
    outgroup: str = "",
    midpoint: bool = False,
    figures: str | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> list[str]:
    """Write the report and all exports of a run; returns what was done, in lines."""
    folder = out or directory
    if figures is not None:
        check_figure_format(figures)
    posterior = open_posterior(directory, progress=progress)
    exports = make_exports(posterior, TreeDisplay(threshold, named_taxa(outgroup, posterior.taxa), midpoint))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(folder, problem) from None
    exports.write(folder)
    lines = [] if posterior.is_finished else [f"not finished: this is step {posterior.summary['steps']:,}"]
    lines += [
        f"the report: {folder / 'report.html'}",
        f"for other programs: consensus.nex, posterior.nex and posterior.log in {folder}",
    ]
    if figures is not None:
        paths = write_figures(posterior, exports.trees["majority_rule"], folder, figures)
        lines.append(f"figures: {', '.join(path.name for path in paths)}")
    return lines


def named_taxa(text: str, taxa: Sequence[str]) -> list[str]:
    """Names with commas between them, or one name that has commas itself."""
    if text in taxa:
        return [text]
    names = [name.strip() for name in text.split(",") if name.strip()]
    if text and not names:
        raise BadArgument(f"--outgroup {quoted(text)}: names no taxon. Give one or more, with commas between them.")
    return names
