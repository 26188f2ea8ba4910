"""Small data, and every figure drawn from it."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from phloem import plot
from phloem.experiments.density.figure import experiment_figure
from phloem.inference.training import Report
from phloem.trees.branch_lengths import split_lengths
from phloem.trees.consensus import SummaryTree, majority_rule, summary_tree
from phloem.trees.reading import parse_newick
from phloem.trees.sample import GroupedTrees, TreeSample
from phloem.trees.splits import split_frequencies
from support.made_up_density import small_experiment

TAXA = ("Tarsier", "Lemur", "Squirrel_monkey", "Human", "Chimp", "Gibbon")
NEWICKS = [
    "(Tarsier:.3,Lemur:.2,(Squirrel_monkey:.2,((Human:.05,Chimp:.06):.04,Gibbon:.1):.1):.1);",
    "(Tarsier:.2,Lemur:.3,(Squirrel_monkey:.3,((Human:.06,Chimp:.04):.03,Gibbon:.2):.1):.2);",
    "(Tarsier:.3,Lemur:.2,(Squirrel_monkey:.2,((Human:.05,Gibbon:.06):.01,Chimp:.1):.1):.1);",
    "(Tarsier:.3,Lemur:.1,(Squirrel_monkey:.2,(Human:.05,(Chimp:.06,Gibbon:.1):.1):.1):.1);",
    "(Tarsier:.1,(Lemur:.2,Squirrel_monkey:.2):.1,((Human:.07,Chimp:.06):.04,Gibbon:.1):.1);",
]


def sample() -> TreeSample:
    """Three topologies with shares 0.6, 0.2, 0.1 and 0.1."""
    trees = parse_newick(NEWICKS, taxa=TAXA)
    return TreeSample(trees.taxa, trees.topologies, np.array([0.4, 0.2, 0.2, 0.1, 0.1]), trees.branch_lengths)


def consensus(trees: TreeSample | None = None) -> SummaryTree:
    """Their majority-rule tree."""
    trees = trees or sample()
    return summary_tree(majority_rule(split_frequencies(trees)), split_lengths(GroupedTrees.from_sample(trees)))


def history(seed: int = 0, tempered: int = 5, reports: int = 20) -> list[Report]:
    """Bounds that rise, of a target that is tempered in the first reports."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(1, reports + 1):
        warmth = min(1.0, number / (tempered + 1))
        elbo = -100 - 5000 * np.exp(-number) + random.normal()
        rows.append(Report(100 * number, float(number), warmth, warmth * (elbo + 2), float(elbo), 3, 0))
    return rows


ON_AXES: dict[str, Callable[[Axes | None], Figure]] = {
    "tree": lambda ax: plot.tree(consensus(), intervals=True, ax=ax),
    "tree with colors": lambda ax: plot.tree(consensus(), supports="colors", ax=ax),
    "cloud": lambda ax: plot.cloud(sample(), like=consensus(), ax=ax),
    "topologies": lambda ax: plot.topologies(sample(), ax=ax),
    "branch_lengths": lambda ax: plot.branch_lengths(consensus(), ax=ax),
    "tree_lengths": lambda ax: plot.tree_lengths(GroupedTrees.from_sample(sample()), ax=ax),
    "clades": lambda ax: plot.clades(split_frequencies(sample()), split_frequencies(sample()[:3]), ax=ax),
    "training": lambda ax: plot.training([history(0), history(1)], ax=ax),
    "weights": lambda ax: plot.weights(np.random.default_rng(1).normal(size=200), pareto_k=0.3, ax=ax),
}
# With those that have several panels and cannot be drawn on axes that are given.
FIGURES = ON_AXES | {
    "density": lambda _: experiment_figure(small_experiment()),
    "parameters": lambda _: plot.parameters(parameter_values(), np.full(200, 1 / 200)),
}


def parameter_values() -> dict[str, np.ndarray]:
    """Eleven parameters in 200 draws."""
    random = np.random.default_rng(1)
    return {f"r({number})": random.normal(number, 0.1, 200) for number in range(11)}


def texts(figure: Figure) -> list[str]:
    """All that is written into the axes themselves, legends aside."""
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def legend(figure: Figure) -> list[str]:
    """The words of the legend."""
    found = figure.axes[0].get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]


def segments(figure: Figure) -> list[np.ndarray]:
    """The lines of every collection of lines, each (lines, 2, 2), in the order drawn."""
    return [np.array(part.get_segments()) for part in figure.axes[0].collections if isinstance(part, LineCollection)]
