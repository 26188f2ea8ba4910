"""The figures of a posterior as files, for a paper."""

from collections.abc import Iterator
from pathlib import Path

from phloem import plot
from phloem.config.checks import check_choice
from phloem.pipeline.exports import CLOUD_TREES, histories_of
from phloem.pipeline.posterior import Posterior
from phloem.trees.summary_tree import SummaryTree

FORMATS = ("pdf", "svg", "png")


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
