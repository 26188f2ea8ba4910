"""Branch lengths with their intervals, and tree lengths."""

from dataclasses import replace

import numpy as np
import pytest

from phloem.errors import BadArgument
from phloem.plot import branch_lengths, tree_lengths
from phloem.trees.branch_lengths import split_lengths
from phloem.trees.sample import GroupedTrees
from support.every_figure import TAXA, consensus, legend, sample, segments, texts


def labels(figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].get_yticklabels()]


def rows(figure) -> dict[str, tuple[float, ...]]:
    """Mean, lower and upper end by label."""
    means = {y: x for line in figure.axes[0].lines for x, y in zip(*line.get_data(), strict=True)}
    bars = {bar[0, 1]: bar[:, 0] for lines in segments(figure) for bar in lines}
    return {label: (means[row], *bars[row]) for row, label in enumerate(labels(figure))}


def test_a_tree_and_its_sample_give_the_same_branches():
    """The tree has three interior branches; the sample says the same of them, and has no others as frequent."""
    of_tree = rows(branch_lengths(consensus()))
    of_sample = rows(branch_lengths(split_lengths(GroupedTrees.from_sample(sample()))))
    assert of_tree == of_sample
    assert len(of_tree) == 9
    assert "Human, Chimp (70 %)" in of_tree
    assert "Tarsier, Lemur (90 %)" in of_tree


def test_rows_are_the_numbers_of_the_record_longest_first():
    summary = consensus()
    drawn = rows(branch_lengths(summary))
    assert [mean for mean, _, _ in drawn.values()] == sorted(summary.length[:-1], reverse=True)
    for leaf, name in enumerate(TAXA):
        assert drawn[name] == (summary.length[leaf], summary.lower[leaf], summary.upper[leaf])


def test_only_the_longest_are_drawn_and_that_is_said():
    figure = branch_lengths(consensus(), most=3)
    assert len(labels(figure)) == 3
    assert figure.axes[0].get_title("left") == "The 3 longest of 9 branches"
    assert branch_lengths(consensus()).axes[0].get_title("left") == ""


def test_rarer_branches_are_drawn_on_demand():
    lengths = split_lengths(GroupedTrees.from_sample(sample()))
    assert len(labels(branch_lengths(lengths, frequency=0))) == len(lengths.mean)


def test_the_legend_tells_pendant_from_interior_branches():
    assert legend(branch_lengths(consensus())) == ["leading to a taxon", "interior"]
    assert legend(branch_lengths(consensus(), most=1)) == ["leading to a taxon"]


def test_branches_without_interval_are_drawn_as_dots():
    summary = consensus()
    nothing = np.full(len(summary.length), np.nan)
    assert len(labels(branch_lengths(replace(summary, lower=nothing, upper=nothing)))) == 9


def test_bad_input_is_one_line():
    summary = consensus()
    with pytest.raises(BadArgument, match=r"^branch length plot: 0 branches. Draw at least 1.$"):
        branch_lengths(summary, most=0)
    with pytest.raises(BadArgument, match=r"^branch length plot: frequency 2. Give a number from 0 to 1.$"):
        branch_lengths(summary, frequency=2)
    with pytest.raises(BadArgument, match=r"^branch length plot: no branch .* has a length"):
        branch_lengths(replace(summary, length=np.full(len(summary.length), np.nan)))


def test_the_histogram_of_tree_lengths_has_all_the_weight():
    trees = GroupedTrees.from_sample(sample())
    figure = tree_lengths(trees)
    heights, edges, _ = figure.axes[0].patches[0].get_data()
    assert (heights * np.diff(edges)).sum() == pytest.approx(1)
    sums = trees.branch_lengths.sum(axis=1)
    first = (sums >= edges[0]) & (sums < edges[1])
    assert heights[0] * (edges[1] - edges[0]) == pytest.approx(trees.weights[first].sum())


def test_mean_and_interval_of_tree_lengths_are_written():
    trees = GroupedTrees.from_sample(sample())
    sums = trees.branch_lengths.sum(axis=1)
    mean, interval = texts(tree_lengths(trees))
    assert mean == f"mean {np.average(sums, weights=trees.weights):.3g}"
    assert interval == f"95 % within {sums.min():.3g} to {sums.max():.3g}"


def test_trees_without_weight_do_not_stretch_the_axis():
    trees = GroupedTrees.from_sample(sample())
    weights = np.array([0.5, 0.5, 0, 0, 0])
    light = replace(trees, weights=weights)
    edges = tree_lengths(light).axes[0].patches[0].get_data().edges
    sums = trees.branch_lengths[:2].sum(axis=1)
    assert (edges[0], edges[-1]) == (sums.min(), sums.max())


def test_trees_of_one_length_are_drawn():
    trees = GroupedTrees.from_sample(sample()[[0, 0]])
    assert texts(tree_lengths(trees))[0].startswith("mean")
