"""What a finished run leaves: the trained model, topologies and clades with their probabilities, and a summary."""

from typing import Any, NamedTuple

from phloem.config import InferConfig
from phloem.inference.evaluation import Evaluation
from phloem.inference.history import History
from phloem.inference.parameters import write_parameters
from phloem.inference.tally import TopologyTally
from phloem.inference.training import Training
from phloem.pipeline.history_file import HistoryFile
from phloem.pipeline.run_directory import RunDirectory
from phloem.pipeline.tables import format_clades, format_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.splits import split_frequencies
from phloem.trees.writing import format_newick

BEST = 10  # topologies in the summary


class Results(NamedTuple):
    """All that was found out."""

    config: InferConfig
    training: Training
    history: History
    evaluation: Evaluation
    tally: TopologyTally


def write_results(run: RunDirectory, results: Results) -> None:
    """Write the results, the summary last: where it is, all else is. No byte of them depends on time."""
    model = results.training.model
    topologies = results.tally.sample(model.network.support.taxa)
    write_parameters(model, run.path / "parameters.safetensors")
    HistoryFile(run.path / "history.csv").rewrite(results.history.reports)
    run.write("topologies.csv", format_topologies(topologies))
    run.write("clades.csv", format_clades(split_frequencies(topologies)))
    run.write_json("summary.json", summarize(results, topologies))


def summarize(results: Results, topologies: TreeSample) -> dict[str, Any]:
    """The result in a few numbers."""
    training, config = results.training, results.config
    support = training.model.network.support
    patterns = training.target.likelihood.patterns
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
        "steps": training.steps_done,
        "stopped_early": training.steps_done < config.training.steps,
        "skipped_steps": training.skipped,
        "evaluation": {"repeats": config.evaluation.repeats, "samples": config.evaluation.samples},
        **{name: estimated._asdict() for name, estimated in results.evaluation._asdict().items()},
        **describe_topologies(topologies),
    }


def describe_topologies(topologies: TreeSample) -> dict[str, Any]:
    """How many topologies there are, and the best of them."""
    best = topologies[:BEST]
    trees = format_newick(best.topologies, best.taxa)
    return {
        "distinct_topologies": len(topologies),
        "best_topologies": [
            {"probability": probability, "newick": tree}
            for probability, tree in zip(best.weights.tolist(), trees, strict=True)
        ],
    }
