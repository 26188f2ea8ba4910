"""Clouds of trees: every tree is in them, as strong as its weight."""

from dataclasses import replace

import numpy as np
import pytest

from phloem.errors import BadArgument, TaxonMismatch
from phloem.plot import cloud
from phloem.trees.layout import ladder_order, lay_out
from phloem.trees.rooting import root_at_outgroup
from support.every_figure import TAXA, consensus, legend, sample, segments, texts


def rows_of(figure) -> list[str]:
    """The names from the top down."""
    names = [text for text in figure.axes[0].texts if text.get_text() in TAXA]
    return [text.get_text() for text in sorted(names, key=lambda text: text.get_position()[1])]


def lines_and_colors(figure):
    trees = next(part for part in figure.axes[0].collections if len(part.get_segments()) == 5 * 9)
    return np.array(trees.get_segments()), np.array(trees.get_colors())


def test_every_branch_of_every_tree_is_a_line_as_long_as_the_branch():
    trees = sample()
    lines, _ = lines_and_colors(cloud(trees))
    across = np.sort((lines[:, 1, 0] - lines[:, 0, 0]).reshape(5, 9), axis=1)
    expected = np.sort(trees.branch_lengths, axis=1)
    assert sorted(map(tuple, across.round(9))) == sorted(map(tuple, expected.round(9)))


def test_heavier_trees_are_stronger_and_the_best_topologies_have_colors():
    _, colors = lines_and_colors(cloud(sample(), colored=2))
    trees = colors.reshape(5, 9, 4)
    assert (trees == trees[:, :1]).all()
    opacity = trees[:, 0, 3]
    assert len(np.unique(opacity.round(6))) == 3  # for weights 0.1, 0.2 and 0.4
    assert len(np.unique(trees[:, 0, :3], axis=0)) == 3  # first, second, others
    assert opacity.argmax() >= 3  # the best topology's trees are drawn last


def test_the_legend_has_the_shares():
    assert legend(cloud(sample(), colored=2)) == ["60.0 %", "20.0 %", "20.0 % in 2 others"]
    assert legend(cloud(sample(), colored=9)) == ["60.0 %", "20.0 %", "10.0 %", "10.0 %"]
    assert legend(cloud(sample(), colored=0)) == []


def test_leaves_are_in_the_order_of_the_most_probable_topology():
    trees = sample()
    order = ladder_order(trees.topologies.parent[0], len(TAXA))
    assert rows_of(cloud(trees)) == [TAXA[leaf] for leaf in order]


def test_leaves_are_in_the_order_of_a_tree_that_is_given():
    rooted = root_at_outgroup(consensus(), ["Gibbon"])
    order = ladder_order(rooted.tree.parent, len(TAXA))
    assert rows_of(cloud(sample(), like=rooted)) == [rooted.taxa[leaf] for leaf in order]
    assert rows_of(cloud(sample(), like=rooted)) != rows_of(cloud(sample()))


def test_trees_without_lengths_end_in_line():
    figure = cloud(replace(sample(), branch_lengths=None))
    assert not any("substitutions" in text for text in texts(figure))
    assert {text.get_position()[0] for text in figure.axes[0].texts} == {1.0}


def test_very_many_lines_are_a_picture_in_vector_files():
    few, many = sample(), sample()[[0, 1, 2, 3, 4] * 500]
    assert [cloud(trees).axes[0].collections[-1].get_rasterized() for trees in (few, many)] == [False, True]


def test_bad_input_is_one_line():
    trees = sample()
    with pytest.raises(BadArgument, match=r"^cloud plot: no tree with a weight was given.$"):
        cloud(trees[:0])
    with pytest.raises(BadArgument, match=r"^cloud plot: no tree with a weight was given.$"):
        cloud(replace(trees, weights=np.zeros(5)))
    with pytest.raises(BadArgument, match=r"^cloud plot: -1 topologies in colour. Give 0 or more.$"):
        cloud(trees, colored=-1)
    with pytest.raises(TaxonMismatch, match=r"^cloud plot: lacks 'Lemur'"):
        cloud(trees, like=replace(consensus(), taxa=("Tarsier", "Loris", *TAXA[2:])))


def test_guides_lead_from_the_shortest_tip_to_the_name():
    trees = sample()
    figure = cloud(trees)
    guides = next(lines for lines in segments(figure) if len(lines) == len(TAXA))
    place = lay_out(trees.topologies.parent, len(TAXA), trees.branch_lengths).x[:, : len(TAXA)]
    np.testing.assert_allclose(guides[:, 0, 0], place.min(axis=0))
    np.testing.assert_allclose(guides[:, 1, 0], place.max())
