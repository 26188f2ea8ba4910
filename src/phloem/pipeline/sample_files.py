"""Posterior trees as files: trees, a trace, and tables of branch lengths."""

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phloem.errors import BadArgument
from phloem.files import check_can_write, write_text
from phloem.pipeline.exports import write_trace
from phloem.pipeline.opening import open_posterior
from phloem.pipeline.posterior import Posterior
from phloem.pipeline.run_directory import RunDirectory
from phloem.pipeline.sampling import PosteriorSample, sample_posterior
from phloem.pipeline.tables import stars
from phloem.trees.branch_lengths import topology_lengths
from phloem.trees.credible import credible_set_size
from phloem.trees.splits import split_bits, unpack_bits
from phloem.trees.writing import is_nexus_name, write_trees

LENGTH_COLUMNS = ("topology", "probability", "members", "mean", "deviation", "median", "lower", "upper")
MOST_TOPOLOGIES = 1000  # with branch lengths of their own


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
