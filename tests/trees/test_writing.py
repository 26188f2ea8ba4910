"""Writing trees: phloem, DendroPy, Biopython and ape read back what is written, bit for bit."""

import io
import re
import subprocess
from dataclasses import replace
from io import StringIO

import dendropy
import numpy as np
import pytest
from Bio import Phylo
from hypothesis import given
from hypothesis import strategies as st

import phloem
from phloem.errors import BadArgument, FileProblem, TaxonMismatch
from phloem.random_streams import RandomStream
from phloem.trees.consensus import SummaryTree
from phloem.trees.generation import random_topologies
from phloem.trees.reading import parse_newick, read_any_trees, read_trees
from phloem.trees.rooting import root_at_midpoint, root_at_outgroup
from phloem.trees.sample import TreeSample
from phloem.trees.splits import nontrivial_splits, split_bits, unpack_bits
from phloem.trees.topology import TopologyBatch
from phloem.trees.tree import Tree, canonical_tree
from phloem.trees.writing import (
    format_annotated,
    format_newick,
    format_supported,
    format_tree,
    quote_label,
    write_annotated_newick,
    write_annotated_nexus,
    write_labelled_nexus,
    write_newick,
    write_nexus,
    write_supported,
)
from reference import nested
from reference.ape import read_with_ape
from support.strategies import nested_trees

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
        st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), min_size=1),
        min_size=4,
        max_size=8,
        unique=True,
    )
)
def test_any_name_can_be_written_and_read(names):
    topologies = random_topologies(len(names), 1, stream=RandomStream(0, "x"))
    again = parse_newick(format_newick(topologies, names), taxa=names)
    assert again.topologies.equal(topologies).all()


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), min_size=1),
        min_size=4,
        max_size=8,
        unique=True,
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


ANNOTATED_NAMES = ("Homo sapiens", "it's", "HIV-1/x+y", "A.1|x", "under_score", "7", "Ähre", "t8", "(c)", "friend")
SOME_TREE = (0, 1, ((2, 3), (4, 5, 6)), (7, (8, 9)))


def some_summary(
    tree: nested.Nested = SOME_TREE, names: tuple[str, ...] = ANNOTATED_NAMES, seed: int = 1
) -> SummaryTree:
    random = np.random.default_rng(seed)
    canonical = canonical_tree(nested.to_parent(tree, len(names)), len(names))
    support, length = random.random((2, len(canonical.parent)))
    support[: len(names)] = 1
    support[-1] = length[-1] = np.nan
    return SummaryTree(names, canonical, support, length, length * 0.5, length * 1.7)


def with_unknown(summary: SummaryTree) -> SummaryTree:
    """The same with nothing known of one pendant and one interior branch."""
    parts = np.stack([summary.support, summary.length, summary.lower, summary.upper])
    parts[1:, [1, len(summary.taxa)]] = np.nan
    parts[0, len(summary.taxa)] = np.nan
    return SummaryTree(summary.taxa, summary.tree, *parts, summary.is_rooted)


def trees_of_a_report() -> dict[str, SummaryTree]:
    summary = some_summary()
    return {
        "majority_rule": summary,
        "midpoint": root_at_midpoint(summary),
        "outgroup": root_at_outgroup(summary, ANNOTATED_NAMES[8:]),
        "unknown": with_unknown(summary),
    }


def branches_of(summary: SummaryTree, names=None) -> dict[frozenset[str], int]:
    """The number of each branch by the names below it."""
    names = names or summary.taxa
    below = [{names[node]} if node < len(names) else set() for node in range(len(summary.tree.parent))]
    for node, above in enumerate(summary.tree.parent[:-1]):
        below[above] |= below[node]
    return {frozenset(side): node for node, side in enumerate(below[:-1])}


def test_the_form_of_an_annotated_tree():
    tree = Tree(np.array([5, 5, 4, 4, 5, -1], np.int32), 4)
    nan = np.nan
    summary = SummaryTree(
        ("a", "b b", "c", "d"),
        tree,
        np.array([1, 1, 1, nan, 0.97, nan]),
        np.array([0.25, 1 / 3, 0.5, nan, 1e-9, nan]),
        np.array([0.125, 0.25, nan, nan, 0, nan]),
        np.array([0.5, 0.5, nan, nan, 2e-9, nan]),
    )
    assert format_annotated(summary) == (
        "(a[&prob=1,length_mean=0.25,length_95%HPD={0.125,0.5}]:0.25,"
        "'b b'[&prob=1,length_mean=0.333333,length_95%HPD={0.25,0.5}]:0.3333333333333333,"
        "(c[&prob=1,length_mean=0.5]:0.5,d)[&prob=0.97,length_mean=1e-09,length_95%HPD={0,2e-09}]:1e-09);"
    )


def test_several_trees_in_one_file_have_names_and_rooted_ones_are_marked(tmp_path):
    write_annotated_nexus(trees_of_a_report(), tmp_path / "trees.nex")
    text = (tmp_path / "trees.nex").read_text()
    for start in ("majority_rule = [&U] (", "midpoint = [&R] (", "outgroup = [&R] (", "unknown = [&U] ("):
        assert f"\n    tree {start}" in text


def test_dendropy_reads_annotated_nexus_with_all_that_is_known(tmp_path):
    written = trees_of_a_report()
    write_annotated_nexus(written, tmp_path / "trees.nex")
    trees = dendropy.TreeList.get(path=tmp_path / "trees.nex", schema="nexus", preserve_underscores=True)
    assert [tree.label for tree in trees] == list(written)
    for tree, summary in zip(trees, written.values(), strict=True):
        assert tree.is_rooted == summary.is_rooted
        branches = branches_of(summary)
        for node in tree.preorder_node_iter():
            if node is tree.seed_node:
                continue
            branch = branches.pop(frozenset(leaf.taxon.label for leaf in node.leaf_iter()))
            length = summary.length[branch]
            assert node.edge.length == (None if np.isnan(length) else length)
            notes = node.annotations.values_as_dict()
            found = [
                float(notes.get("prob", "nan")),
                float(notes.get("length_mean", "nan")),
                *map(float, notes.get("length_95%HPD", ["nan", "nan"])),
            ]
            expected = [summary.support[branch], length, summary.lower[branch], summary.upper[branch]]
            np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert not branches


def test_biopython_reads_annotated_nexus(tmp_path):
    written = trees_of_a_report()
    write_annotated_nexus(written, tmp_path / "trees.nex")
    trees = list(Phylo.parse(tmp_path / "trees.nex", "nexus"))
    assert [tree.name for tree in trees] == list(written)
    for tree, summary in zip(trees, written.values(), strict=True):
        assert tree.rooted == summary.is_rooted
        quoted = {"'" + name.replace("'", "''") + "'": name for name in ANNOTATED_NAMES}  # it keeps quotes in NEXUS
        branches = branches_of(summary)
        for clade in tree.find_clades():
            if clade is not tree.root:
                side = frozenset(quoted.get(tip.name, tip.name) for tip in clade.get_terminals())
                branch = branches.pop(side)
                if not np.isnan(summary.length[branch]):
                    assert clade.branch_length == summary.length[branch]
                if not np.isnan(summary.support[branch]):
                    assert f"[&prob={summary.support[branch]:.6g}" in clade.comment
        assert not branches


def read_like_treeio(tree: str) -> list[dict[str, object]]:
    """What treeio's read.beast finds at each node, in the order of the text, by the rules that its manual shows.

    Nodes are told apart by their labels, which treeio makes up where an interior node has none. A comment comes after
    the label or bracket and before the colon; it has `name=value` or `name={value,value}`, with commas between them.
    """
    found = []
    for label, comment in re.findall(r"(\w*|\))(\[&[^\]]*\])?:[\d.e+-]+", tree):
        assert label, "every branch is that of a leaf with a name or of a bracket without one"
        values: dict[str, object] = {"label": label}
        for name, several, one in re.findall(r"([\w%]+)=(?:\{([^}]*)\}|([^,\]]*))", comment):
            values[name] = list(map(float, several.split(","))) if several else float(one)
        found.append(values)
    return found


def test_treeio_finds_the_supports_of_annotated_nexus(tmp_path):
    summary = some_summary()
    write_annotated_nexus({"majority_rule": summary}, tmp_path / "trees.nex", comments=["about; the trees"])
    lines = (tmp_path / "trees.nex").read_text().splitlines()
    [statement] = [line for line in lines[lines.index("begin trees;") :] if re.match(r"\s*tree", line)]
    found = read_like_treeio(re.sub(r"^[^(]*", "", statement))  # treeio drops what is before the first bracket
    assert len(found) == len(summary.tree.parent) - 1
    leaves = sorted(int(node["label"]) for node in found if node["label"] != ")")
    assert leaves == list(range(1, len(summary.taxa) + 1)), "numbers of the translate table"
    interior = [node["prob"] for node in found if node["label"] == ")"]
    assert sorted(interior) == pytest.approx(sorted(summary.support[len(summary.taxa) : -1]), rel=1e-5)
    assert all(len(node["length_95%HPD"]) == 2 for node in found)


def test_ape_reads_labelled_nexus_with_supports_as_labels(tmp_path, rscript_ape):
    written = trees_of_a_report()
    write_labelled_nexus(written, tmp_path / "trees.nex", comments=["about the trees", "more [of] them; end;"])
    trees = read_with_ape(rscript_ape, tmp_path / "trees.nex", "nexus")
    assert [tree.name for tree in trees] == list(written)
    names = [name.replace("'", "") for name in ANNOTATED_NAMES]  # it leaves apostrophes out
    for tree, summary in zip(trees, written.values(), strict=True):
        assert sorted(tree.tips) == sorted(names)
        for side, branch in branches_of(summary, names).items():
            if len(side) > 1:
                support = summary.support[branch]
                label = tree.labels[side]
                assert label == "" if np.isnan(support) else float(label) == pytest.approx(support, abs=1e-6)


def test_dendropy_and_biopython_read_labelled_nexus(tmp_path):
    written = trees_of_a_report()
    write_labelled_nexus(written, tmp_path / "trees.nex", comments=["about the trees"])
    for tree, summary in zip(
        dendropy.TreeList.get(path=tmp_path / "trees.nex", schema="nexus", preserve_underscores=True),
        written.values(),
        strict=True,
    ):
        branches = branches_of(summary)
        for node in tree.postorder_internal_node_iter(exclude_seed_node=True):
            support = summary.support[branches[frozenset(leaf.taxon.label for leaf in node.leaf_iter())]]
            if np.isnan(support):
                assert node.label is None
            else:
                assert float(node.label) == pytest.approx(support, abs=1e-6)
    assert [tree.name for tree in Phylo.parse(tmp_path / "trees.nex", "nexus")] == list(written)


def test_a_label_is_never_a_number_of_the_translate_table(tmp_path, rscript_ape):
    """Of 120 taxa, one is number 100 and one number 1: a support of 1 is neither."""
    names = tuple(f"taxon{number}" for number in range(120))
    topology = random_topologies(120, 1, stream=RandomStream(3, "x"))
    nodes = topology.node_count
    support = np.array([1.0] * 120 + [1.0, 0.0, 0.5, 1e-7, 0.123456789] * 24)[: nodes - 1]
    summary = SummaryTree(
        names, Tree(topology.parent[0], 120), np.append(support, np.nan), *np.full((3, nodes), np.nan)
    )
    write_labelled_nexus({"tree": summary}, tmp_path / "tree.nex")
    statement = (tmp_path / "tree.nex").read_text().splitlines()[-2]
    labels = re.findall(r"\)([^,():;]+)", statement)
    assert set(labels) == {"1.0", "0.0", "0.5", "0.123457"}
    [tree] = read_with_ape(rscript_ape, tmp_path / "tree.nex", "nexus")
    assert sorted(tree.tips) == sorted(names)
    assert sorted(filter(None, tree.labels.values())) == sorted(labels)


def test_comments_are_read_over_by_all(tmp_path, rscript_ape):
    sample = some_sample(("a", "b", "c", "d", "e"))
    write_nexus(sample, tmp_path / "plain.nex")
    write_nexus(sample, tmp_path / "said.nex", comments=["what they are; begin trees;", "tree [one] = (a,b)\nend;"])
    lines = (tmp_path / "said.nex").read_text().splitlines()
    assert lines[:3] == ["#NEXUS", "[what they are; begin trees;]", "[tree (one) = (a,b) end;]"]
    assert lines[3:] == (tmp_path / "plain.nex").read_text().splitlines()[1:]
    again = read_trees(tmp_path / "said.nex")
    np.testing.assert_array_equal(again.topologies.parent, sample.topologies.parent)
    assert len(dendropy.TreeList.get(path=tmp_path / "said.nex", schema="nexus")) == len(sample)
    assert len(list(Phylo.parse(tmp_path / "said.nex", "nexus"))) == len(sample)
    assert len(read_with_ape(rscript_ape, tmp_path / "said.nex", "nexus")) == len(sample)


def test_ape_reads_annotated_nexus(tmp_path, rscript_ape):
    written = trees_of_a_report()
    write_annotated_nexus(written, tmp_path / "trees.nex")
    trees = read_with_ape(rscript_ape, tmp_path / "trees.nex", "nexus")
    assert [tree.name for tree in trees] == list(written)
    names = [name.replace("'", "") for name in ANNOTATED_NAMES]  # it leaves apostrophes out
    for tree, summary in zip(trees, written.values(), strict=True):
        assert sorted(tree.tips) == sorted(names)
        lengths = {side: summary.length[branch] for side, branch in branches_of(summary, names).items()}
        assert tree.lengths.keys() == lengths.keys()
        for side, length in lengths.items():
            if not np.isnan(length):
                assert tree.lengths[side] == pytest.approx(length, rel=1e-12)


def renamed(summary: SummaryTree, names: tuple[str, ...]) -> SummaryTree:
    return replace(summary, taxa=names)


@pytest.mark.parametrize("name", trees_of_a_report())
def test_ape_reads_annotated_newick_with_supports_as_labels(tmp_path, rscript_ape, name):
    plain = tuple(
        name.replace("'", "") for name in ANNOTATED_NAMES
    )  # of doubled apostrophes it makes NA in Newick, not in NEXUS
    summary = renamed(trees_of_a_report()[name], plain)
    write_annotated_newick(summary, tmp_path / "tree.nwk")
    (tree,) = read_with_ape(rscript_ape, tmp_path / "tree.nwk", "newick")
    for side, branch in branches_of(summary, [quote_label(name) for name in plain]).items():  # it keeps the quotes
        assert tree.lengths[side] == (
            None if np.isnan(summary.length[branch]) else pytest.approx(summary.length[branch])
        )
        if len(side) > 1:
            support = summary.support[branch]
            assert tree.labels[side] == ("" if np.isnan(support) else f"{support:.6g}")


@pytest.mark.parametrize("name", trees_of_a_report())
def test_dendropy_and_biopython_read_annotated_newick_with_supports_as_labels(tmp_path, name):
    summary = trees_of_a_report()[name]
    write_annotated_newick(summary, tmp_path / "tree.nwk")
    assert "[" not in (tmp_path / "tree.nwk").read_text()
    tree = dendropy.Tree.get(path=tmp_path / "tree.nwk", schema="newick", preserve_underscores=True)
    dendropy_says = {
        frozenset(leaf.taxon.label for leaf in node.leaf_iter()): (node.edge.length, node.label)
        for node in tree.preorder_node_iter()
    }
    tree = Phylo.read(tmp_path / "tree.nwk", "newick")
    biopython_says = {
        frozenset(tip.name for tip in clade.get_terminals()): (clade.branch_length, clade.confidence)
        for clade in tree.find_clades()
    }
    for says in (dendropy_says, biopython_says):
        for side, branch in branches_of(summary).items():
            length, support = says[side]
            assert length == (None if np.isnan(summary.length[branch]) else summary.length[branch])
            if len(side) > 1 and not np.isnan(summary.support[branch]):
                assert float(support) == pytest.approx(summary.support[branch], rel=1e-5)
            else:
                assert support is None


@given(nested_trees(), st.integers(0, 2**32))
def test_we_read_back_both_forms(tmp_path_factory, tree, seed):
    names = tuple(f"{ANNOTATED_NAMES[leaf % 10]} {leaf}" for leaf in range(len(nested.leaves(tree))))
    summary = some_summary(tree, names, seed)
    rooted = root_at_midpoint(summary)
    folder = tmp_path_factory.mktemp("trees")
    write_annotated_nexus({"one": summary, "two": rooted}, folder / "trees.nex")
    for keep_root, expected in ((False, [summary, summary]), (True, [summary, rooted])):
        again = read_any_trees(folder / "trees.nex", keep_root=keep_root)
        assert again.taxa == names
        parents = again.topologies.parent if isinstance(again, TreeSample) else [tree.parent for tree in again.trees]
        for parent, written in zip(parents, expected, strict=True):
            np.testing.assert_array_equal(parent, written.tree.parent)
    write_annotated_newick(rooted, folder / "tree.nwk")
    again = read_any_trees(folder / "tree.nwk", taxa=names, keep_root=True)
    np.testing.assert_array_equal(again.trees[0].parent, rooted.tree.parent)


def test_a_binary_tree_is_read_back_with_its_lengths(tmp_path):
    summary = some_summary((0, (1, 2), (3, (4, 5))), ANNOTATED_NAMES[:6])
    write_annotated_nexus({"tree": summary}, tmp_path / "tree.nex")
    np.testing.assert_array_equal(read_trees(tmp_path / "tree.nex").branch_lengths, [summary.length[:-1]])


def test_a_name_of_a_tree_that_needs_quotes_has_them(tmp_path):
    write_annotated_nexus({"95 % majority": some_summary()}, tmp_path / "tree.nex")
    (tree,) = dendropy.TreeList.get(path=tmp_path / "tree.nex", schema="nexus")
    assert tree.label == "95 % majority"


def test_files_of_no_trees_or_of_different_taxa_are_refused(tmp_path):
    with pytest.raises(BadArgument, match="no trees to write"):
        write_annotated_nexus({}, tmp_path / "tree.nex")
    other = renamed(some_summary(), ANNOTATED_NAMES[::-1])
    with pytest.raises(TaxonMismatch, match="same taxa in the same order"):
        write_annotated_nexus({"one": some_summary(), "two": other}, tmp_path / "tree.nex")
    assert not list(tmp_path.iterdir())


NAMES = ("A", "B c", "C'd", "D", "E")


@pytest.fixture
def tree() -> SummaryTree:
    """(A,B,((C,D),E)) with supports 97.3 % of {C, D} and 0 % of {C, D, E}."""
    topology = phloem.trees.parse_newick("(A,B,((C,D),E));", taxa="ABCDE").topologies
    nodes = topology.node_count
    nothing = np.full(nodes, np.nan)
    return SummaryTree(
        NAMES,
        phloem.trees.Tree(topology.parent[0], 5),
        np.array([1, 1, 1, 1, 1, 0.973, 0, np.nan]),
        np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, np.nan]),
        nothing,
        nothing,
    )


def test_supports_are_labels_in_percent(tree):
    assert format_supported(tree) == "(A:0.1,'B c':0.2,(('C''d':0.3,D:0.4)97.3:0.6,E:0.5)0:0.7);"


def test_newick_is_read_by_us_and_by_biopython(tree, tmp_path):
    write_supported(tree, tmp_path / "best.nwk")
    text = (tmp_path / "best.nwk").read_text()
    assert text == format_supported(tree) + "\n"
    sample = phloem.read_trees(tmp_path / "best.nwk", taxa=NAMES)
    np.testing.assert_array_equal(sample.topologies.parent[0], tree.tree.parent)
    np.testing.assert_array_equal(sample.branch_lengths[0], tree.length[:-1])
    found = Phylo.read(StringIO(text), "newick")
    assert sorted(clade.confidence for clade in found.get_nonterminals() if clade.confidence is not None) == [0, 97.3]


def test_nexus_has_comments_for_figtree(tree, tmp_path):
    write_supported(tree, tmp_path / "best.nex")
    text = (tmp_path / "best.nex").read_text()
    assert "tree best = [&U] (1:0.1,2:0.2,((3:0.3,4:0.4)[&support=97.3]:0.6,5:0.5)[&support=0]:0.7);" in text
    sample = phloem.read_trees(tmp_path / "best.nex", taxa=NAMES)
    np.testing.assert_array_equal(sample.branch_lengths[0], tree.length[:-1])
    [found] = Phylo.parse(tmp_path / "best.nex", "nexus")
    assert {clade.name.strip("'") for clade in found.get_terminals()} >= {"A", "D", "E"}


def test_ape_reads_both(tree, tmp_path, rscript_ape):
    for name, read in (("best.nwk", "read.tree"), ("best.nex", "read.nexus")):
        write_supported(tree, tmp_path / name)
        script = f"library(ape); t <- {read}('{tmp_path / name}'); cat(Ntip(t), sum(t$edge.length), t$node.label)"
        shown = subprocess.run([rscript_ape, "-e", script], capture_output=True, text=True, check=True).stdout
        assert shown.split()[:2] == ["5", "2.8"]
        if name == "best.nwk":
            assert {"97.3", "0"} <= set(shown.split()[2:])


def test_a_compressed_file_is_refused(tree, tmp_path):
    with pytest.raises(BadArgument, match=r"best.nwk.gz: trees are written as plain text"):
        write_supported(tree, tmp_path / "best.nwk.gz")
