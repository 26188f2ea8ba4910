"""Summary trees and clouds: every tip, support and tree where it should be, at any size."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from phloem.errors import BadArgument, TaxonMismatch
from phloem.plot import cloud, tree
from phloem.plot.style import styled
from phloem.random_streams import RandomStream
from phloem.trees.consensus import SummaryTree
from phloem.trees.generation import random_topologies
from phloem.trees.layout import ladder_order, lay_out
from phloem.trees.rooting import root_at_outgroup
from phloem.trees.tree import Tree
from reference.nested import leaves, to_parent
from support.every_figure import TAXA, consensus, legend, sample, segments, texts
from support.strategies import nested_trees


def made_up(parent: np.ndarray, leaf_count: int, seed: int = 1, name: str = "taxon_{}") -> SummaryTree:
    random = np.random.default_rng(seed)
    nodes = len(parent)
    length = random.gamma(2, 0.02, nodes)
    support = np.append(np.ones(leaf_count), random.uniform(0.4, 1, nodes - leaf_count))
    length[-1] = support[-1] = np.nan
    taxa = tuple(name.format(leaf) for leaf in range(leaf_count))
    return SummaryTree(taxa, Tree(parent, leaf_count), support, length, 0.8 * length, 1.3 * length)


def large(leaf_count: int, name: str = "taxon_{}") -> SummaryTree:
    topologies = random_topologies(leaf_count, 1, stream=RandomStream(1, "trees"))
    return made_up(topologies.parent[0], leaf_count, name=name)


def names_of(figure: Figure, taxa: tuple[str, ...]):
    """The texts that are names, by name."""
    return {text.get_text(): text for text in figure.axes[0].texts if text.get_text() in taxa}


def test_tips_supports_and_scale_bar_are_written():
    written = texts(tree(consensus()))
    assert set(TAXA) < set(written)
    assert {"70", "90", "100"} == {text for text in written if text.isdigit()}
    assert "0.05 substitutions per site" in written


@settings(max_examples=25)
@given(nested_trees(most=20), st.integers(0, 2**32))
def test_lines_are_the_tree(nested, seed):
    """Polytomies too: walking along the lines from the leaves, all nodes and branch lengths are found."""
    leaf_count = len(leaves(nested))
    summary = made_up(to_parent(nested, leaf_count), leaf_count, seed)
    figure = tree(summary)
    (lines,) = segments(figure)
    branches = len(summary.tree.parent) - 1
    along, across = lines[:branches], lines[branches:]
    np.testing.assert_allclose(along[:, 1, 0] - along[:, 0, 0], summary.length[:-1])
    np.testing.assert_array_equal(along[:, 0, 1], along[:, 1, 1])
    np.testing.assert_array_equal(across[:, 0, 0], across[:, 1, 0])
    for branch, parent in enumerate(summary.tree.parent[:-1]):
        x, low, high = across[parent - leaf_count, 0, 0], *across[parent - leaf_count, :, 1]
        assert along[branch, 0, 0] == x
        assert low <= along[branch, 0, 1] <= high
    names = names_of(figure, summary.taxa)
    for leaf, name in enumerate(summary.taxa):
        assert names[name].get_position() == tuple(along[leaf, 1])


@pytest.mark.parametrize("leaf_count", [3, 10, 40, 120, 500])
@pytest.mark.parametrize("name", ["t{}", "{} a very long name of a species from a far-off place, voucher 12345"])
def test_names_fit_at_any_number_of_taxa(leaf_count, name):
    summary = large(leaf_count, name)
    figure = tree(summary)
    with styled():
        figure.draw_without_rendering()
    names = names_of(figure, summary.taxa)
    assert len(names) == leaf_count
    boxes = [names[taxon].get_window_extent() for taxon in summary.taxa]
    assert all(box.x0 > 0 and box.x1 <= figure.bbox.x1 for box in boxes)
    rows = sorted((box.y0 + box.y1) / 2 for box in boxes)
    letters = min(text.get_size() for text in names.values()) / 72 * figure.dpi
    assert np.diff(rows).min() > 1.1 * letters
    if name == "t{}":
        assert 4.4 <= next(iter(names.values())).get_size() <= 7


def test_names_that_leave_no_room_for_the_tree_are_smaller():
    summary = large(10, "{}" + 300 * "x")
    figure = tree(summary)
    with styled():
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in names_of(figure, summary.taxa).values()]
    assert max(box.x1 for box in boxes) <= figure.bbox.x1
    assert max(box.width for box in boxes) <= 0.61 * figure.bbox.width
    assert names_of(figure, summary.taxa)[summary.taxa[0]].get_size() < 5


def test_the_figure_grows_with_the_taxa_and_not_with_the_width():
    heights = [tree(large(count)).get_figheight() for count in (10, 100, 500)]
    assert heights == sorted(heights)
    assert heights[0] < 2
    assert heights[2] > 30
    assert tree(large(10), width=3.5).get_size_inches().tolist() == [3.5, heights[0]]


def test_supports_are_numbers_up_to_a_hundred_taxa_and_colors_beyond():
    assert any(text.isdigit() for text in texts(tree(large(100))))
    figure = tree(large(101))
    assert not any(text.isdigit() for text in texts(figure))
    assert legend(figure) == ["≥ 95 %", "75–95 %", "50–75 %", "< 50 %"]


def test_every_interior_branch_has_one_dot_of_its_class():
    summary = large(60)
    figure = tree(summary, supports="colors")
    support = summary.support[60:-1]
    expected = [
        (support >= 0.95).sum(),
        ((support >= 0.75) & (support < 0.95)).sum(),
        ((support >= 0.5) & (support < 0.75)).sum(),
        (support < 0.5).sum(),
    ]
    assert [len(line.get_xdata()) for line in figure.axes[0].lines if line.get_marker() == "o"] == expected


def test_supports_can_be_left_out():
    figure = tree(consensus(), supports="none")
    assert not any(text.isdigit() for text in texts(figure))
    assert legend(figure) == []


def test_intervals_are_bars_from_where_the_branch_begins():
    summary = consensus()
    lines, bars = segments(tree(summary, intervals=True))
    starts = lines[: len(bars), 0, 0]
    np.testing.assert_allclose(bars[:, 0, 0] - starts, summary.lower[:-1])
    np.testing.assert_allclose(bars[:, 1, 0] - starts, summary.upper[:-1])
    assert len(segments(tree(summary))) == 1


def test_names_stand_right_of_the_intervals():
    summary = consensus()
    figure = tree(summary, intervals=True)
    _, bars = segments(figure)
    names = names_of(figure, summary.taxa)
    for leaf, name in enumerate(summary.taxa):
        assert names[name].get_position()[0] >= bars[leaf, 1, 0]


def test_a_tree_without_lengths_has_all_tips_in_line_and_no_scale():
    summary = consensus()
    figure = tree(replace(summary, length=np.full(len(summary.length), np.nan)), intervals=True)
    assert {text.get_position()[0] for text in names_of(figure, TAXA).values()} == {1.0}
    assert not any("substitutions" in text for text in texts(figure))


def test_a_tree_whose_lengths_are_all_zero_is_drawn():
    summary = consensus()
    zero = np.zeros(len(summary.length))
    assert set(TAXA) <= set(texts(tree(replace(summary, length=zero, lower=zero, upper=zero), intervals=True)))


def test_only_a_rooted_tree_has_a_stub():
    summary = consensus()
    counts = [len(tree(replace(summary, is_rooted=rooted)).axes[0].lines) for rooted in (False, True)]
    assert counts[1] == counts[0] + 1


def test_signs_of_formulas_and_line_breaks_are_written_as_they_are():
    taxa = ("$A_1$", "B\nC", *TAXA[2:])
    assert {"$A_1$", "B C"} <= set(texts(tree(replace(consensus(), taxa=taxa))))


def test_other_supports_are_refused():
    with pytest.raises(BadArgument, match=r"^tree plot: supports 'digits'\. Use one of numbers, colors, none\.$"):
        tree(consensus(), supports="digits")


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
