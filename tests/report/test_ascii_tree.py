"""Trees in lines of text: nothing is lost, nothing is too wide, and the drawing is the tree."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.report.text import draw_tree
from phloem.trees.generation import random_topologies
from phloem.trees.reading import parse_newick
from phloem.trees.splits import nontrivial_splits
from phloem.trees.topology import TopologyBatch
from support.strategies import topology_batches

REFERENCE = re.compile(r"→ \[(\d+)\]")
Clades = dict[frozenset[str], str]


def caterpillar(leaf_count: int) -> TopologyBatch:
    """Every interior node has a leaf of its own."""
    newick = f"(t{leaf_count - 2},t{leaf_count - 1})"
    for leaf in range(leaf_count - 3, 0, -1):
        newick = f"(t{leaf},{newick})"
    return parse_newick(f"(t0,{newick[1:]};", taxa=[f"t{leaf}" for leaf in range(leaf_count)]).topologies


def clades_of_drawing(lines: list[str]) -> Clades:
    """The taxa below every interior branch of a drawing and what is written on it, by walking along the lines."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        if re.fullmatch(r"\[\d+\]", line):
            assert blocks[-1].pop() == ""
            assert line == f"[{len(blocks)}]"
            blocks.append([])
        else:
            blocks[-1].append(line)
    whole: dict[int, frozenset[str]] = {}
    clades: Clades = {}
    for number in reversed(range(len(blocks))):  # a block refers to later ones only
        whole[number] = walk(blocks[number], whole, clades)
    return clades


def walk(lines: list[str], whole: dict[int, frozenset[str]], clades: Clades) -> frozenset[str]:
    """All taxa of a block, bottom up: every node is a ┬, and its later children start at a ├ or └ right below."""
    waiting: dict[int, list[frozenset[str]]] = {}  # by column, the children that were found below
    taxa: frozenset[str] = frozenset()
    for line in reversed(lines):
        found = re.fullmatch(r"([ │]*)([├└┬])([^ ]*) (.+)", line)
        assert found, line
        before, corner, run, tip = found.groups()
        assert all(line[column] == "│" for column in waiting if column < len(before)), line
        assert all(sign == " " or column in waiting for column, sign in enumerate(before)), line
        corners = [(len(before), corner), *((len(before) + 1 + m.start(), "┬") for m in re.finditer("┬", run))]
        reference = REFERENCE.fullmatch(tip)
        taxa = whole[int(reference[1])] if reference else frozenset([tip])
        end = len(line) - len(tip) - 1
        for place, (column, sign) in reversed(list(enumerate(corners))):
            label = line[column + 1 : end].replace("─", "")
            if len(taxa) > 1:
                assert label.isdigit()
                assert taxa not in clades
                clades[taxa] = label
            else:
                assert label == ""
            if sign == "┬":
                taxa = taxa.union(*waiting.pop(column))
            else:
                assert (sign == "└") == (column not in waiting)
                waiting.setdefault(column, []).append(taxa)
                assert place == 0
            end = column
    assert not waiting
    return taxa


def clades_of_tree(topology: TopologyBatch, taxa: list[str], percents: list[int]) -> Clades:
    return {
        frozenset(name for name, is_member in zip(taxa, members, strict=True) if is_member): str(percent)
        for members, percent in zip(nontrivial_splits(topology)[0].tolist(), percents, strict=True)
    }


@given(topology_batches(least=4, most=60, trees=1), st.integers(40, 160), st.integers(0, 2**32))
def test_the_drawing_is_the_tree(topology, width, seed):
    random = np.random.default_rng(seed)
    taxa = [f"{leaf}{'x' * random.integers(9)}" for leaf in range(topology.taxon_count)]
    percents = random.integers(0, 101, topology.taxon_count - 3).tolist()
    lines = draw_tree(topology, taxa, np.array(percents) / 100, width=width)
    assert max(map(len, lines)) <= width
    assert sorted(name for line in lines if (name := line.split(" ")[-1]) in taxa) == sorted(taxa)
    assert clades_of_drawing(lines) == clades_of_tree(topology, taxa, percents)


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("leaf_count", [4, 20, 100, 500])
def test_a_caterpillar_of_any_depth_is_drawn_whole(leaf_count, width):
    topology, taxa = caterpillar(leaf_count), [f"t{leaf}" for leaf in range(leaf_count)]
    percents = [leaf % 101 for leaf in range(leaf_count - 3)]
    lines = draw_tree(topology, taxa, np.array(percents) / 100, width=width)
    assert max(map(len, lines)) <= width
    assert clades_of_drawing(lines) == clades_of_tree(topology, taxa, percents)


def test_a_small_tree_looks_like_this():
    taxa = ["Tarsier", "Lemur", "Squirrel_monkey", "Human", "Chimp", "Gibbon"]
    tree = parse_newick("(Tarsier,Lemur,(Squirrel_monkey,((Human,Chimp),Gibbon)));", taxa=taxa).topologies
    assert draw_tree(tree, taxa, [1.0, 0.876, 0.5]) == [
        "┬─────────────────────────────── Tarsier",
        "├─────────────────────────────── Lemur",
        "└──50───┬─────────────────────── Squirrel_monkey",
        "        └──88───┬─────────────── Gibbon",
        "                └──100──┬─────── Human",
        "                        └─────── Chimp",
    ]


def test_a_deep_clade_is_drawn_below():
    lines = draw_tree(caterpillar(14), [f"taxon_{leaf:02}" for leaf in range(14)], [0.9] * 11, width=40)
    assert lines == [
        "┬─────────────────────────── taxon_00",
        "├─────────────────────────── taxon_01",
        "└90─┬─────────────────────── taxon_02",
        "    └90─┬─────────────────── taxon_03",
        "        └90─┬─────────────── taxon_04",
        "            └90─┬─────────── taxon_05",
        "                └90───────── → [1]",
        "",
        "[1]",
        "┬─────────────────────────── taxon_06",
        "└90─┬─────────────────────── taxon_07",
        "    └90─┬─────────────────── taxon_08",
        "        └90─┬─────────────── taxon_09",
        "            └90─┬─────────── taxon_10",
        "                └90─┬─────── taxon_11",
        "                    └90─┬─── taxon_12",
        "                        └─── taxon_13",
    ]


@pytest.mark.parametrize("leaf_count", [4, 30, 500])
@pytest.mark.parametrize("letter", ["x", "\t", "字"])
def test_long_names_are_cut(leaf_count, letter):
    topology = random_topologies(leaf_count, 1, stream=RandomStream(1, "trees"))
    lines = draw_tree(topology, [f"{leaf} {letter * 90}" for leaf in range(leaf_count)], [0.5] * (leaf_count - 3))
    cells = 2 if letter == "字" else 1
    assert max(len(line) + (cells - 1) * line.count(letter) for line in lines) <= 80
    assert sum(line.endswith("…") for line in lines) == leaf_count
    assert all(line.isprintable() for line in lines)


def test_an_unknown_support_is_a_question_mark():
    assert "?" in "".join(draw_tree(caterpillar(4), "ABCD", [float("nan")]))


def test_what_does_not_fit_together_is_refused():
    tree = caterpillar(5)
    for topology, taxa, supports, width in [
        (tree, "ABCD", [1, 1], 80),
        (tree, "ABCDE", [1], 80),
        (TopologyBatch.concatenate([tree, tree]), "ABCDE", [1, 1], 80),
        (tree, "ABCDE", [1, 1], 39),
    ]:
        with pytest.raises(BadArgument, match="tree drawing"):
            draw_tree(topology, taxa, supports, width=width)
