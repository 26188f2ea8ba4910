"""Files for other programs and people: posterior trees, traces, annotated consensus trees, figures, the report."""

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phloem import plot
from phloem.arrays import AnyArray, FloatArray
from phloem.config.settings import check_choice
from phloem.errors import BadArgument, counted, quoted
from phloem.report.html import render_report
from phloem.storage.files import cannot_write, check_can_write, refuse_links, write_text
from phloem.tasks.opening import open_posterior
from phloem.tasks.posterior import (
    CLOUD_TREES,
    UNROOTED,
    Posterior,
    PosteriorSample,
    TreeDisplay,
    histories_of,
    report_contents,
    sample_posterior,
    summary_trees,
)
from phloem.tasks.run_files import EXPORTS, InferRun, infer_run, stars
from phloem.trees.branch_lengths import SplitLengths, topology_lengths
from phloem.trees.consensus import SummaryTree
from phloem.trees.sample import GroupedTrees, TreeSample, credible_set_size
from phloem.trees.splits import split_bits, unpack_bits
from phloem.trees.writing import (
    is_nexus_name,
    write_annotated_nexus,
    write_labelled_nexus,
    write_newick,
    write_nexus,
)

LENGTH_COLUMNS = ("topology", "probability", "members", "mean", "deviation", "median", "lower", "upper")
MOST_TOPOLOGIES = 1000  # with branch lengths of their own
FORMATS = ("pdf", "svg", "png")


def format_trace(columns: Mapping[str, AnyArray], *comments: str) -> str:
    """A trace that Tracer, R and pandas read, with tabs between columns.

    Comments on lines with `#`, the names of the columns after `state`, then the rows, numbered from 0.
    """
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise BadArgument("trace: one or more columns of the same length are needed.")
    lines = ["# " + " ".join(comment.split()) for comment in comments]
    lines.append("\t".join(["state", *columns]))
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines += ("\t".join([str(number), *map(_cell, row)]) for number, row in enumerate(rows))
    return "\n".join(lines) + "\n"


def _cell(value: float | int) -> str:
    if value == -math.inf:
        return "-Infinity"  # which all of them read
    return str(value) if isinstance(value, int) else f"{value:.10g}"


class Exports(NamedTuple):
    """All that is to be written, made beforehand: what is wrong with it is known while nothing is written yet."""

    trees: dict[str, SummaryTree]
    about_trees: list[str]  # lines
    sample: PosteriorSample
    about_sample: list[str]
    report: str

    def write(self, folder: Path) -> None:
        """Write posterior.nex, posterior.log, consensus.nex, consensus-labels.nex and report.html."""
        write_nexus(self.sample.trees, folder / "posterior.nex", comments=self.about_sample)
        write_trace(self.sample, folder / "posterior.log", self.about_sample)
        write_annotated_nexus(self.trees, folder / "consensus.nex", comments=self.about_trees)
        write_labelled_nexus(self.trees, folder / "consensus-labels.nex", comments=self.about_trees)
        write_text(folder / "report.html", self.report)

    def write_to_run(self, run: InferRun) -> None:
        """The same in a run's own directory, with their checksums."""
        self.write(run.path)
        run.seal_exports()


def usual_display(posterior: Posterior, threshold: float = UNROOTED.threshold) -> TreeDisplay:
    """Rooted at the run's own outgroup, if it has one."""
    outgroup = posterior.config.outgroup
    names = () if outgroup is None else named_taxa(outgroup, posterior.taxa)
    return TreeDisplay(threshold, names, is_usual=True)


def make_exports(posterior: Posterior, display: TreeDisplay | None = None) -> Exports:
    """Everything for other programs and for people, by default with the run's own outgroup."""
    display = display or usual_display(posterior)
    trees = summary_trees(posterior, display)
    report = render_report(report_contents(posterior, trees["majority_rule"], display.threshold))
    sample = sample_posterior(posterior)
    return Exports(trees, about_summary_trees(posterior), sample, about_sample(posterior, sample), report)


def about_summary_trees(posterior: Posterior) -> list[str]:
    """What a file of summary trees says of them, in lines of ASCII."""
    draws = posterior.summary.draws
    worth = counted(round(draws.effective_sample_size), "independent posterior tree")
    return [f"{release()}: summary trees of {draws.count:,} weighted draws, worth {worth}", *_verdict(posterior)]


def about_sample(posterior: Posterior, sample: PosteriorSample) -> list[str]:
    """What a file of posterior trees, or their trace, says of them, in lines of ASCII."""
    count, worth = len(sample.trees), round(sample.effective_size)
    trees, draws = counted(count, "tree"), counted(len(posterior.draws), "draw")
    if sample.is_weighted:
        lines = [
            f"{trees} of {draws}, each once, with its importance weight; no burn-in",
            f"With their weights they are worth {counted(worth, 'independent tree')}.",
            "Tracer reads no weights: what it shows of these rows is not the posterior.",
        ]
    elif sample.distinct == count:
        lines = [f"{count:,} independent draws, no burn-in: chosen from {draws} by importance weight, none twice"]
    else:
        lines = [
            f"{trees}, resampled from {draws} by importance weight; no burn-in",
            repeats(sample),
            f"Tracer counts repeats as independent and will show an ESS near {count:,}: take {worth:,} instead.",
        ]
    return [f"{release()}: {lines[0]}", *lines[1:], *_verdict(posterior)]


def repeats(sample: PosteriorSample) -> str:
    """How far resampled trees are from being independent."""
    return (
        f"{sample.distinct:,} of the {len(sample.trees):,} are distinct and one comes {sample.most_repeats:,} times: "
        f"they are worth {counted(round(sample.effective_size), 'independent tree')}."
    )


def release() -> str:
    """What files say that they are from."""
    return f"phloem {version('phloem')}"


def _verdict(posterior: Posterior) -> list[str]:
    return [f"Can it be trusted? {posterior.trust.level.capitalize()}. {posterior.trust.advice}"]


def write_trace(sample: PosteriorSample, path: Path, about: Sequence[str]) -> None:
    """Write what is known of every tree, for Tracer: its length and model parameters under MrBayes' names."""
    lengths = sample.trees.branch_lengths
    assert lengths is not None
    columns = {
        "posterior": sample.log_likelihood + sample.log_prior,  # up to the marginal likelihood, as everywhere
        "likelihood": sample.log_likelihood,
        "prior": sample.log_prior,
        length_name(sample.parameters): lengths.sum(axis=1),
        **sample.parameters,
        "log_q": sample.log_q,
        "topology": sample.topology,
    }
    if sample.is_weighted:
        columns["weight"] = sample.trees.weights
    write_text(path, format_trace(columns, *about))


def length_name(parameters: Mapping[str, FloatArray]) -> str:
    """What MrBayes calls the tree length beside these parameters: with a partition, it is that of all parts."""
    return "TL{all}" if any(name.endswith("}") for name in parameters) else "TL"


class SampleFiles(NamedTuple):
    """Where trees go and, if it is wanted, what else is said of them."""

    trees: Path
    trace: Path | None = None
    lengths: Path | None = None


def check_sample_files(directory: Path, files: SampleFiles) -> None:
    """Raise unless all of them can be written, and none is in the place of another or of the run's own."""
    wanted = [path for path in files if path is not None]
    if len({path.resolve() for path in wanted}) < len(wanted):
        raise BadArgument("--out, --log and --lengths: name different files.")
    is_nexus_name(files.trees)
    for path in wanted:
        infer_run(directory).refuse_overwriting(path)
        check_can_write(path)


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
    check_sample_files(directory, files)
    posterior = open_posterior(directory, progress=progress)
    sample = sample_posterior(posterior, count, seed=seed, weighted=weighted)
    about = about_sample(posterior, sample)
    write_tree_file(sample.trees, files.trees, about)
    if files.trace is not None:
        write_trace(sample, files.trace, about)
    if files.lengths is not None:
        write_text(files.lengths, format_lengths(posterior.trees, posterior.branch_lengths))
    return list(_report(posterior, sample, files))


def write_tree_file(trees: TreeSample, path: Path, about: Sequence[str]) -> None:
    """Write trees as NEXUS, with comments, or as Newick, by the file's name."""
    if is_nexus_name(path):
        write_nexus(trees, path, comments=about)
    else:
        write_newick(trees, path)


def format_lengths(trees: GroupedTrees, splits: SplitLengths) -> str:
    """Branch lengths over all trees that have the branch (`all`), and on each topology of the 95 % credible set.

    Members are on the side without the first taxon, as stars; the first taxon's own branch has itself alone.
    """
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(LENGTH_COLUMNS)
    columns = (splits.mean, splits.deviation, splits.median, splits.lower, splits.upper)
    for members, frequency, *row in zip(splits.members, splits.frequency.tolist(), *columns, strict=True):
        writer.writerow(["all", frequency, stars(members), *map(float, row)])
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
    if not posterior.is_finished:
        yield f"not finished: these are of step {posterior.summary.steps:,}"
    how = "with weights" if sample.is_weighted else "equally weighted"
    yield f"{counted(len(sample.trees), 'posterior tree')}, {how}: {files.trees}"
    if sample.is_weighted:
        yield f"with their weights they are worth {counted(round(sample.effective_size), 'independent tree')}"
    elif sample.distinct < len(sample.trees):
        yield repeats(sample)
    if files.trace is not None:
        yield f"their trace: {files.trace}"
    if files.lengths is not None:
        yield f"branch lengths: {files.lengths}"
    if posterior.trust.level != "good":
        yield f"can they be trusted? {posterior.trust.level.upper()}. {posterior.trust.advice}"


def check_figure_format(name: str) -> None:
    """Raise unless figures can be written so."""
    check_choice("--figures", name, FORMATS)


def write_figures(posterior: Posterior, consensus: SummaryTree, folder: Path, suffix: str) -> list[Path]:
    """Write every figure as `name.suffix`; returns where they are."""
    paths = []
    for name, figure in _figures(posterior, consensus):
        paths.append(folder / f"{name}.{suffix}")
        refuse_links(folder, [paths[-1].name])
        plot.save(figure, paths[-1])
    return paths


def _figures(posterior: Posterior, consensus: SummaryTree) -> Iterator[tuple[str, plot.Figure]]:
    draws = posterior.summary.draws
    yield "consensus", plot.tree(consensus)
    yield "cloud", plot.cloud(posterior.sample(min(CLOUD_TREES, len(posterior.draws))), like=consensus)
    yield "topologies", plot.topologies(posterior.trees.topology_sample())
    yield "branch-lengths", plot.branch_lengths(consensus)
    yield "tree-lengths", plot.tree_lengths(posterior.trees)
    if posterior.parameters:
        yield "parameters", plot.parameters(posterior.parameter_values, posterior.trees.weights)
    yield "training", plot.training(histories_of(posterior))
    yield (
        "weights",
        plot.weights(
            posterior.draws.own_log_weights,
            effective_samples=draws.effective_sample_size,
            pareto_k=draws.pareto_shape,
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
    display = TreeDisplay(threshold, named_taxa(outgroup, posterior.taxa), midpoint)
    if not outgroup and not midpoint:
        display = usual_display(posterior, threshold)
    exports = make_exports(posterior, display)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(folder, problem) from None
    refuse_links(folder, EXPORTS)
    if folder.resolve() == directory.resolve():
        exports.write_to_run(infer_run(directory))
    else:
        exports.write(folder)
    lines = [] if posterior.is_finished else [f"not finished: this is step {posterior.summary.steps:,}"]
    lines += [
        f"the report: {folder / 'report.html'}",
        f"for other programs: consensus.nex, consensus-labels.nex, posterior.nex and posterior.log in {folder}",
    ]
    if posterior.trust.level != "good":
        lines.append(f"can it be trusted? {posterior.trust.level.upper()}. {posterior.trust.advice}")
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
