"""Files for other programs and people: posterior trees, traces, annotated consensus trees, figures, the report."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phloem import plot
from phloem.arrays import AnyArray
from phloem.config.settings import check_choice
from phloem.errors import BadArgument, quoted
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
from phloem.tasks.run_files import EXPORTS, infer_run, stars
from phloem.trees.branch_lengths import topology_lengths
from phloem.trees.consensus import SummaryTree
from phloem.trees.sample import credible_set_size
from phloem.trees.splits import split_bits, unpack_bits
from phloem.trees.writing import is_nexus_name, write_annotated_nexus, write_nexus, write_trees

LENGTH_COLUMNS = ("topology", "probability", "members", "mean", "deviation", "median", "lower", "upper")
MOST_TOPOLOGIES = 1000  # with branch lengths of their own
FORMATS = ("pdf", "svg", "png")


def format_trace(columns: Mapping[str, AnyArray], title: str) -> str:
    """A trace that Tracer, R and pandas read, with tabs between columns.

    `# title`, the names of the columns after `state`, then the rows, numbered from 0.
    """
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise BadArgument("trace: one or more columns of the same length are needed.")
    lines = ["# " + " ".join(title.split()), "\t".join(["state", *columns])]
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines += ("\t".join([str(number), *map(_cell, row)]) for number, row in enumerate(rows))
    return "\n".join(lines) + "\n"


def _cell(value: float | int) -> str:
    return str(value) if isinstance(value, int) else f"{value:.10g}"


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


def make_exports(posterior: Posterior, display: TreeDisplay = UNROOTED) -> Exports:
    """Everything for other programs and for people."""
    trees = summary_trees(posterior, display)
    report = render_report(report_contents(posterior, trees["majority_rule"], display.threshold))
    return Exports(trees, sample_posterior(posterior), report)


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
        infer_run(directory).refuse_overwriting(path)
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
        yield f"not finished: these are of step {posterior.summary.steps:,}"
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
    yield "training", plot.training(histories_of(posterior))
    yield (
        "weights",
        plot.weights(
            posterior.draws.log_weights,
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
    exports = make_exports(posterior, TreeDisplay(threshold, named_taxa(outgroup, posterior.taxa), midpoint))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(folder, problem) from None
    refuse_links(folder, EXPORTS)
    exports.write(folder)
    if folder.resolve() == directory.resolve():
        infer_run(directory).seal_exports()
    lines = [] if posterior.is_finished else [f"not finished: this is step {posterior.summary.steps:,}"]
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
