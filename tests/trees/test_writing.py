"""Writing trees: others read back what we write, and so do we, bit for bit."""

import io

import dendropy
import numpy as np
import pytest
from Bio import Phylo
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument, FileProblem
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.reading import parse_newick, read_trees
from phloem.trees.sample import TreeSample
from phloem.trees.splits import nontrivial_splits, split_bits, unpack_bits
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree
from phloem.trees.writing import format_newick, format_tree, quote_label, write_newick, write_nexus
from reference.ape import read_with_ape

ODD_NAMES = (
    "Homo sapiens",
    "it's",
    "a,b",
    "(c)",
    "[d]",
    "x:y",
    "1",
    "2-2",
    "HIV-1/x+y",
    "Ähre",
    "semi;colon",
    'dou"ble',
    "under_score",
)


def some_sample(names=ODD_NAMES, trees=5) -> TreeSample:
    topologies = random_topologies(len(names), trees, stream=RandomStream(4, "x"))
    random = np.random.default_rng(4)
    lengths = random.exponential(0.1, (trees, topologies.branch_count))
    return TreeSample(tuple(names), topologies, random.random(trees), lengths)


def splits_by_name(sample: TreeSample) -> list[set[frozenset[str]]]:
    taxa = np.array(sample.taxa)
    return [{frozenset(taxa[row].tolist()) for row in tree} for tree in nontrivial_splits(sample.topologies)]


def tips_below(tree: dendropy.Tree, first: str) -> set[frozenset[str]]:
    everything = {leaf.taxon.label for leaf in tree.leaf_node_iter()}
    sides = ({leaf.taxon.label for leaf in node.leaf_iter()} for node in tree.preorder_node_iter())
    sides = (everything - side if first in side else side for side in sides)
    return {frozenset(side) for side in sides if 1 < len(side) < len(everything) - 1}


@pytest.mark.parametrize("write", [write_newick, write_nexus])
def test_we_read_back_what_we_write_to_the_last_bit(tmp_path, write):
    sample = some_sample()
    write(sample, tmp_path / "trees")
    again = read_trees(tmp_path / "trees", taxa=sample.taxa)
    assert again.topologies.equal(sample.topologies).all()
    np.testing.assert_array_equal(again.branch_lengths, sample.branch_lengths)
    expected = sample.weights if write is write_nexus else np.ones(len(sample))
    np.testing.assert_array_equal(again.weights, expected)


def test_nexus_keeps_the_order_of_taxa(tmp_path):
    sample = some_sample()
    write_nexus(sample, tmp_path / "trees.nex")
    assert read_trees(tmp_path / "trees.nex").taxa == sample.taxa


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=4, max_size=8, unique=True
    )
)
def test_any_name_can_be_written_and_read(names):
    topologies = random_topologies(len(names), 1, stream=RandomStream(0, "x"))
    again = parse_newick(format_newick(topologies, names), taxa=names)
    assert again.topologies.equal(topologies).all()


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=4, max_size=8, unique=True
    )
)
def test_any_name_can_be_written_to_nexus_and_read(tmp_path_factory, names):
    topologies = random_topologies(len(names), 1, stream=RandomStream(0, "x"))
    path = tmp_path_factory.mktemp("names") / "trees.nex"
    write_nexus(TreeSample(tuple(names), topologies, np.ones(1), None), path)
    again = read_trees(path)
    assert again.taxa == tuple(names)
    assert again.topologies.equal(topologies).all()


@given(st.lists(st.just(0.0) | st.floats(1e-250, 1e6), min_size=5, max_size=5))
def test_any_length_can_be_written_and_read(lengths):
    topologies = random_topologies(4, 1, stream=RandomStream(0, "x"))
    again = parse_newick(format_newick(topologies, "ABCD", np.array([lengths])))
    np.testing.assert_array_equal(again.branch_lengths, [lengths])


def test_dendropy_reads_our_newick(tmp_path):
    sample = some_sample()
    write_newick(sample, tmp_path / "trees.nwk")
    trees = dendropy.TreeList.get(path=tmp_path / "trees.nwk", schema="newick", preserve_underscores=True)
    assert [tips_below(tree, sample.taxa[0]) for tree in trees] == splits_by_name(sample)
    assert sample.branch_lengths is not None
    np.testing.assert_allclose([tree.length() for tree in trees], sample.branch_lengths.sum(axis=1))


def test_dendropy_reads_our_nexus(tmp_path):
    sample = some_sample()
    write_nexus(sample, tmp_path / "trees.nex")
    trees = dendropy.TreeList.get(
        path=tmp_path / "trees.nex", schema="nexus", preserve_underscores=True, store_tree_weights=True
    )
    assert [tips_below(tree, sample.taxa[0]) for tree in trees] == splits_by_name(sample)
    assert not any(tree.is_rooted for tree in trees)
    np.testing.assert_allclose([tree.weight for tree in trees], sample.weights)
    assert sample.branch_lengths is not None
    np.testing.assert_allclose([tree.length() for tree in trees], sample.branch_lengths.sum(axis=1))


@pytest.mark.parametrize("schema", ["newick", "nexus"])
def test_biopython_reads_what_we_write(tmp_path, schema):
    odd = (
        ["HIV-1", "a/b", "x+y"] if schema == "newick" else ["C", "D", "E"]
    )  # its NEXUS reader keeps such names' quotes
    sample = some_sample(["species_A", *odd, "A.1|x", "7", "B", "c#"])
    (write_newick if schema == "newick" else write_nexus)(sample, tmp_path / "trees")
    trees = list(Phylo.parse(tmp_path / "trees", schema))
    assert len(trees) == len(sample)
    assert sample.branch_lengths is not None
    for tree, lengths, splits in zip(trees, sample.branch_lengths, splits_by_name(sample), strict=True):
        assert sorted(tip.name for tip in tree.get_terminals()) == sorted(sample.taxa)
        assert tree.total_branch_length() == pytest.approx(lengths.sum())
        found = {frozenset(tip.name for tip in clade.get_terminals()) for clade in tree.get_nonterminals()}
        assert splits <= found | {frozenset(sample.taxa) - side for side in found}


def test_biopython_reads_odd_names():
    text = format_newick(some_sample().topologies[:1], ODD_NAMES)[0]
    tree = Phylo.read(io.StringIO(text), "newick")
    readable = [name for name in ODD_NAMES if "'" not in name]  # Biopython does not undouble apostrophes
    assert set(readable) <= {tip.name for tip in tree.get_terminals()}


@pytest.mark.parametrize("schema", ["newick", "nexus"])
def test_ape_reads_what_we_write(tmp_path, rscript_ape, schema):
    names = ["Homo sapiens", "HIV-1/x+y", "Ähre", "7", "A.1|x", "(c)", "under_score", "friend"]
    if schema == "nexus":  # of doubled apostrophes ape makes NA in Newick; in NEXUS it leaves them out
        names.insert(0, "it's")
    sample = some_sample(names)
    (write_newick if schema == "newick" else write_nexus)(sample, tmp_path / "trees")
    trees = read_with_ape(rscript_ape, tmp_path / "trees", schema)
    assert len(trees) == len(sample)
    assert sample.branch_lengths is not None
    read_as = np.array([quote_label(name) if schema == "newick" else name.replace("'", "") for name in names])
    below = unpack_bits(split_bits(sample.topologies), len(names))
    for tree, lengths, sides in zip(trees, sample.branch_lengths, below, strict=True):
        expected = {frozenset(read_as[side].tolist()): length for side, length in zip(sides, lengths, strict=True)}
        assert tree.lengths == pytest.approx(expected)


def test_the_form_of_a_tree():
    topologies = parse_newick("((C,D),(B,A));").topologies
    assert format_newick(topologies, "ABCD") == ["(A,B,(C,D));"]
    assert format_newick(topologies, "ABCD", np.array([[1, 0.5, 1e-9, 2, np.nan]])) == [
        "(A:1.0,B:0.5,(C:1e-09,D:2.0));"
    ]


def test_a_rooted_tree_and_a_star():
    assert format_tree(Tree(np.array([3, 3, 4, 4, -1], np.int32), 3), "ABC") == "((A,B),C);"
    assert format_tree(Tree(np.array([5, 5, 5, 5, 5, -1], np.int32), 5), "ABCDE") == "(A,B,C,D,E);"


def test_quotes_only_where_needed():
    assert [quote_label(name) for name in ("Homo_sapiens", "A.1|x", "it's", "a b", "HIV-1/x+y")] == [
        "Homo_sapiens",
        "A.1|x",
        "'it''s'",
        "'a b'",
        "HIV-1/x+y",
    ]


def test_a_tree_of_100_000_leaves_is_written_in_linear_time():
    taxa = 100_000
    parent = np.concatenate([[2 * taxa - 3, taxa], np.arange(taxa, 2 * taxa - 3), [2 * taxa - 3]])
    parent = np.concatenate([parent[:taxa], np.arange(taxa + 1, 2 * taxa - 2), [-1]]).astype(np.int32)
    topologies = TopologyBatch.from_parents(parent)
    text = format_newick(topologies, [str(number) for number in range(taxa)])[0]
    assert text.count("(") == taxa - 2


def test_names_must_fit():
    topologies = parse_newick("(A,B,(C,D));").topologies
    with pytest.raises(BadArgument, match="4 taxa need as many names"):
        format_newick(topologies, "ABC")
    with pytest.raises(BadArgument, match="none empty"):
        format_newick(topologies, ["A", "B", "C", ""])
    with pytest.raises(BadArgument, match="no two alike"):
        format_newick(topologies, "ABCC")
    with pytest.raises(BadArgument, match="do not fit"):
        format_newick(topologies, "ABCD", np.ones((1, 4)))


@pytest.mark.parametrize("write", [write_newick, write_nexus])
def test_nothing_is_left_behind_when_writing_fails(tmp_path, write, monkeypatch):
    sample = some_sample()
    monkeypatch.setattr("phloem.trees.writing.format_newick", lambda *_: ["(A,B);", 1 / 0])
    with pytest.raises(ZeroDivisionError):
        write(sample, tmp_path / "trees")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_does_not_exist(tmp_path):
    with pytest.raises(FileProblem, match="directory does not exist"):
        write_newick(some_sample(), tmp_path / "nowhere" / "trees.nwk")


@pytest.mark.parametrize("sign", "()[]{},;:='")
def test_signs_that_mean_something_are_quoted(sign):
    assert quote_label(f"a{sign}b") == "'a" + sign.replace("'", "''") + "b'"


def test_nexus_trees_are_marked_unrooted(tmp_path):
    write_nexus(parse_newick("(A,B,C);"), tmp_path / "trees.nex")
    assert "= [&U] " in (tmp_path / "trees.nex").read_text()
