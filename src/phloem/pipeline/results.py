"""What a run leaves: the trained model, its draws, topologies and clades with their probabilities, and a summary."""

from typing import Any, NamedTuple

from phloem.config import EvaluationConfig, InferConfig
from phloem.inference.diagnostics import effective_sample_size, pareto_shape, smooth
from phloem.inference.draws import Draws
from phloem.inference.draws_file import write_draws
from phloem.inference.evaluation import Evaluation
from phloem.inference.history import History, Report
from phloem.inference.parameters import write_parameters
from phloem.inference.training import Training
from phloem.inference.trust import Finding, Trust, judge
from phloem.pipeline.history_file import HistoryFile
from phloem.pipeline.run_directory import DRAWS, RunDirectory
from phloem.pipeline.tables import format_clades, format_topologies
from phloem.trees.branch_lengths import split_lengths, tree_lengths
from phloem.trees.credible import credible_set_size
from phloem.trees.grouped import GroupedTrees
from phloem.trees.intervals import shortest_interval
from phloem.trees.sample import TreeSample
from phloem.trees.writing import format_newick

BEST = 10  # topologies in the summary
CREDIBLE_SHARES = (0.5, 0.9, 0.95, 0.99)


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
