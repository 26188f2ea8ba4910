"""The picture of the consensus: its lines, supports, names and scale bar."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import phloem.report
from phloem.report.consensus import DIGIT_WIDTH, ROOMS, draw_consensus, room_for_numbers
from phloem.trees.consensus import SummaryTree
from phloem.trees.tree import Tree
from reference.nested import Nested, leaves, to_parent
from support.strategies import nested_trees


def as_tree(nested: Nested) -> Tree:
    leaf_count = len(leaves(nested))
    return Tree(to_parent(nested, leaf_count), leaf_count)


def summary(tree: Tree, lengths: np.ndarray, supports: np.ndarray | None = None) -> SummaryTree:
    taxa = tuple(f"t{number}" for number in range(tree.leaf_count))
    supports = np.full(len(tree.parent), 0.9) if supports is None else supports
    return SummaryTree(taxa, tree, supports, lengths, lengths * 0.8, lengths * 1.2)


def random_lengths(tree: Tree, seed: int) -> np.ndarray:
    lengths = np.random.default_rng(seed).gamma(1.0, 0.1, len(tree.parent))
    lengths[-1] = np.nan
    return lengths


@given(nested_trees(least=4, most=60), st.integers(0, 2**32))
def test_numbers_never_run_into_each_other_in_any_drawing_that_is_wide_enough(nested, seed):
    tree = as_tree(nested)
    consensus = summary(tree, random_lengths(tree, seed))
    picture = draw_consensus(consensus, with_lengths=True)
    widths = ROOMS
    for width in (*widths.values(), 640, 1200):
        boxes = []
        for branch in picture.branches:
            if branch.room and widths[branch.room] <= width:
                right, bottom = float(branch.end[:-1]) / 100 * width - 4, float(branch.y) - 3
                boxes.append((right - DIGIT_WIDTH * len(branch.number), bottom - 8, right, bottom))
        for number, (left, top, right, bottom) in enumerate(boxes):
            for other in boxes[:number]:
                assert left >= other[2] - 0.2 or other[0] >= right - 0.2 or top >= other[3] or other[1] >= bottom


def test_a_number_needs_most_of_its_width_on_its_branch():
    start, end, row = np.array([0.0, 0.0]), np.array([0.5, 0.05]), np.array([0.0, 8.0])
    assert room_for_numbers({0: "100", 1: "100"}, start, end, row, width=100, row_height=20) == {0}


def test_a_polytomy_is_one_line_down_with_a_branch_for_each_child():
    tree = as_tree((0, 1, 2, (3, 4, 5, 6)))
    consensus = summary(tree, np.array([0.1] * 7 + [0.2, np.nan]))
    picture = draw_consensus(consensus, with_lengths=True)
    assert len(picture.joints) == 2
    assert len(picture.branches) == 8
    assert {branch.start for branch in picture.branches if branch.parent == 7} == {picture.joints[0].x}
    assert {branch.end for branch in picture.branches if branch.parent == 7} == {"100%"}


def test_a_length_that_is_not_known_counts_as_nothing_and_is_said_to_be_unknown():
    tree = as_tree((0, 1, (2, 3)))
    lengths = np.array([0.1, 0.2, 0.1, np.nan, np.nan, np.nan])
    consensus = summary(tree, lengths, np.array([1, 1, 1, 1, np.nan, np.nan]))
    branches = {branch.node: branch for branch in draw_consensus(consensus, with_lengths=True).branches}
    assert branches[3].end == "0%"
    interior = branches[4]
    assert "Length not known" in interior.words
    assert interior.look == "unknown"
    assert interior.number == "?"


@pytest.mark.parametrize(
    ("support", "look", "number"),
    [
        (1.0, "strong", "100"),
        (0.999, "strong", "99"),
        (0.95, "strong", "95"),
        (0.9, "fair", "90"),
        (0.51, "weak", "51"),
        (0.2, "poor", "20"),
        (0.001, "poor", "<1"),
        (0.0, "poor", "0"),
    ],
)
def test_supports_have_classes_and_whole_percents_of_which_100_is_for_the_certain(support, look, number):
    tree = as_tree((0, 1, (2, 3)))
    consensus = summary(tree, np.full(6, 0.1), np.array([1, 1, 1, 1, support, np.nan]))
    interior = draw_consensus(consensus, with_lengths=False)
    assert [(one.look, one.number) for one in interior.branches if one.node == 4] == [(look, number)]


def test_the_scale_bar_is_a_round_length_of_a_tenth_to_a_fifth_of_the_tree():
    tree = as_tree((0, 1, (2, 3)))
    for largest in (0.013, 0.4, 7.0, 123.0):
        consensus = summary(tree, np.array([largest, 0, 0, 0, 0, np.nan]))
        scale = draw_consensus(consensus, with_lengths=True).scale
        assert scale is not None
        assert float(scale.width[:-1]) == pytest.approx(100 * float(scale.label) / largest, abs=0.01)
        assert 0.08 * largest <= float(scale.label) <= 0.2 * largest
        assert scale.label.strip("0.")[0] in "125"


def test_the_style_sheet_hides_the_numbers_that_narrow_drawings_have_no_room_for():
    styles = (Path(phloem.report.__file__).parent / "templates" / "figures.css").read_text()
    least, *others = ROOMS.items()
    for room, width in others:
        assert f"@container (max-width: {width - 1}px) {{ .tree .number.{room} {{ display: none; }} }}" in styles
    assert least[0] not in styles
