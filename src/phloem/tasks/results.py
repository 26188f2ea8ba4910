"""What a run leaves: the trained model, its draws, topologies and clades with their probabilities, and a summary."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phloem.arrays import BoolArray
from phloem.config import EvaluationConfig, InferConfig
from phloem.errors import FileProblem, PhloemError
from phloem.inference.diagnostics import effective_sample_size, pareto_shape, smooth
from phloem.inference.draws import Draws, write_draws
from phloem.inference.evaluation import Evaluation
from phloem.inference.training import Training
from phloem.inference.trust import Finding, Trust, judge
from phloem.runs.history import History, HistoryFile, Report
from phloem.storage.files import read_bytes
from phloem.tasks.run_directory import DRAWS, RunDirectory
from phloem.trees.branch_lengths import SplitLengths, shortest_interval, split_lengths, tree_lengths
from phloem.trees.reading import parse_newick
from phloem.trees.sample import GroupedTrees, TreeSample, credible_set_size
from phloem.trees.splits import SplitFrequencies
from phloem.trees.writing import format_newick
from phloem.variational.joint import write_parameters

MOST_TOPOLOGIES = 10_000  # rows; the cumulative probability says what is left
TOPOLOGY_COLUMNS = ("rank", "probability", "cumulative", "newick")
CLADE_COLUMNS = ("probability", "taxa", "members", "mean_length", "deviation", "median", "lower", "upper")
INSIDE, OUTSIDE = "*", "."
BEST = 10  # topologies in the summary
CREDIBLE_SHARES = (0.5, 0.9, 0.95, 0.99)


def format_topologies(topologies: TreeSample) -> str:
    """The most probable topologies of a sample that is ordered by probability."""
    shown = topologies[:MOST_TOPOLOGIES]
    trees = format_newick(shown.topologies, shown.taxa)
    rows = zip(range(1, len(shown) + 1), shown.weights.tolist(), np.cumsum(shown.weights).tolist(), trees, strict=True)
    return _format(TOPOLOGY_COLUMNS, rows)


def read_topologies(path: Path, taxa: tuple[str, ...]) -> TreeSample:
    """The topologies of a table, with their probabilities as weights."""
    rows = _read(path, TOPOLOGY_COLUMNS)
    try:
        parsed = parse_newick([row[3] for row in rows], taxa=taxa)
        return TreeSample(taxa, parsed.topologies, np.array([float(row[1]) for row in rows]), None)
    except (ValueError, PhloemError):
        raise _damaged(path) from None


def format_clades(splits: SplitLengths) -> str:
    """Every split with its probability and the length of its branch, the single taxa after the others.

    Members are on the side without the first taxon, as stars.
    """
    count = len(splits.taxa)
    columns = (splits.mean, splits.deviation, splits.median, splits.lower, splits.upper)
    statistics = np.stack(columns, axis=1).tolist()
    order = [*range(count, len(splits.members)), *range(count)]
    rows = (
        (splits.frequency[row], int(splits.members[row].sum()), stars(splits.members[row]), *statistics[row])
        for row in order
    )
    return _format(CLADE_COLUMNS, rows)


def stars(members: BoolArray) -> str:
    """A split as MrBayes writes it: a star for every member, a dot for every other taxon."""
    return "".join(INSIDE if member else OUTSIDE for member in members.tolist())


def read_clades(path: Path, taxa: tuple[str, ...]) -> SplitFrequencies:
    """The splits of a table that divide the taxa into more than one and the rest."""
    rows = [row for row in _read(path, CLADE_COLUMNS) if row[1] != "1"]
    try:
        members = np.array([[sign == INSIDE for sign in row[2]] for row in rows], np.bool_).reshape(
            len(rows), len(taxa)
        )
        return SplitFrequencies(taxa, members, np.array([float(row[0]) for row in rows]))
    except ValueError:
        raise _damaged(path) from None


def _format(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return table.getvalue()


def _read(path: Path, columns: tuple[str, ...]) -> list[list[str]]:
    try:
        header, *rows = [*csv.reader(io.StringIO(read_bytes(path).decode(errors="replace")))] or [[""]]
    except csv.Error:
        raise _damaged(path) from None
    if tuple(header) != columns or any(len(row) != len(columns) for row in rows):
        raise _damaged(path)
    return rows


def _damaged(path: Path) -> FileProblem:
    return FileProblem(f"{path}: is damaged, or no table of phloem's. Make it again with --resume.")


class Results(NamedTuple):
    """All that was found out. A run that has not ended can be looked at as well."""

    config: InferConfig
    training: Training
    history: History
    finished: bool
    evaluated: EvaluationConfig
    evaluation: Evaluation
    draws: Draws


def write_results(run: RunDirectory, results: Results) -> None:
    """Write the results, the summary last: where it is, all else is. No byte of them depends on time."""
    write_parameters(results.training.model, run.path / "parameters.safetensors")
    HistoryFile(run.path / "history.csv", Report).rewrite(results.history.reports)
    write_draws(results.draws, run.path / DRAWS)
    write_tables(run, results.draws.weighted())
    run.write_summary(summarize(results))


def write_tables(run: RunDirectory, trees: GroupedTrees) -> None:
    """Write the topologies and the clades of weighted trees."""
    run.write("topologies.csv", format_topologies(trees.topology_sample()))
    run.write("clades.csv", format_clades(split_lengths(trees)))


def summarize(results: Results) -> dict[str, Any]:
    """The result in a few numbers."""
    training, config = results.training, results.config
    support = training.model.network.support
    patterns = training.target.likelihood.patterns
    log_weights = results.draws.log_weights
    trust = judge(
        log_weights, None, steps_done=training.steps_done, steps=config.training.steps, finished=results.finished
    )
    return {
        "names": list(support.taxa),
        "taxa": len(support.taxa),
        "sites": len(patterns.pattern_of_site),
        "patterns": len(patterns),
        "model": training.target.likelihood.model.describe()["name"],
        "branches": config.branches,
        "seed": config.seed,
        "support": {
            "topologies": support.topology_count,
            "splits": len(support.splits),
            "parameters": support.parameter_count,
        },
        "finished": results.finished,
        "steps": training.steps_done,
        "stopped_early": results.finished and training.steps_done < config.training.steps,
        "skipped_steps": training.skipped,
        "evaluation": {"repeats": results.evaluated.repeats, "samples": results.evaluated.samples},
        **{name: estimated._asdict() for name, estimated in results.evaluation._asdict().items()},
        **describe_draws(results.draws, trust),
    }


def describe_draws(draws: Draws, trust: Trust) -> dict[str, Any]:
    """What weighted draws say: how far they can be trusted, and which trees are probable."""
    trees = draws.weighted()
    log_weights = draws.log_weights
    topologies = trees.topology_sample()
    lengths = tree_lengths(trees)
    lower, upper = shortest_interval(lengths, trees.weights)
    return {
        "draws": {
            "count": len(draws),
            "effective_sample_size": effective_sample_size(smooth(log_weights)),
            "unsmoothed_effective_sample_size": effective_sample_size(log_weights),
            "pareto_shape": pareto_shape(log_weights),
        },
        "trust": {
            "level": trust.level,
            "advice": trust.advice,
            "findings": [finding._asdict() for finding in trust.findings],
        },
        "tree_length": {"mean": float(lengths @ trees.weights), "lower": lower, "upper": upper},
        "credible_sets": [
            {"share": share, "topologies": credible_set_size(topologies.weights, share)} for share in CREDIBLE_SHARES
        ],
        **_describe_topologies(topologies),
    }


def read_trust(summary: dict[str, Any]) -> Trust:
    """The verdict that a summary holds."""
    found = summary["trust"]
    return Trust(found["level"], tuple(Finding(**finding) for finding in found["findings"]), found["advice"])


def _describe_topologies(topologies: TreeSample) -> dict[str, Any]:
    best = topologies[:BEST]
    trees = format_newick(best.topologies, best.taxa)
    return {
        "distinct_topologies": len(topologies),
        "best_topologies": [
            {"probability": probability, "newick": tree}
            for probability, tree in zip(best.weights.tolist(), trees, strict=True)
        ],
    }
