"""Annotated trees: DendroPy, Biopython, ape and we ourselves read what is written."""

from dataclasses import replace

import dendropy
import numpy as np
import pytest
from Bio import Phylo
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument, TaxonMismatch
from phloem.trees.consensus import SummaryTree
from phloem.trees.reading import read_any_trees, read_trees
from phloem.trees.rooting import root_at_midpoint, root_at_outgroup
from phloem.trees.sample import TreeSample
from phloem.trees.tree import Tree, canonical_tree
from phloem.trees.writing import format_annotated, quote_label, write_annotated_newick, write_annotated_nexus
from reference import nested
from reference.ape import read_with_ape
from support.strategies import nested_trees

NAMES = ("Homo sapiens", "it's", "HIV-1/x+y", "A.1|x", "under_score", "7", "Ähre", "t8", "(c)", "friend")
SOME_TREE = (0, 1, ((2, 3), (4, 5, 6)), (7, (8, 9)))


def some_summary(tree: nested.Nested = SOME_TREE, names: tuple[str, ...] = NAMES, seed: int = 1) -> SummaryTree:
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
        "outgroup": root_at_outgroup(summary, NAMES[8:]),
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
        quoted = {"'" + name.replace("'", "''") + "'": name for name in NAMES}  # it keeps quotes in NEXUS
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


def test_ape_reads_annotated_nexus(tmp_path, rscript_ape):
    written = trees_of_a_report()
    write_annotated_nexus(written, tmp_path / "trees.nex")
    trees = read_with_ape(rscript_ape, tmp_path / "trees.nex", "nexus")
    assert [tree.name for tree in trees] == list(written)
    names = [name.replace("'", "") for name in NAMES]  # it leaves apostrophes out
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
    plain = tuple(name.replace("'", "") for name in NAMES)  # of doubled apostrophes it makes NA in Newick, not in NEXUS
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
    names = tuple(f"{NAMES[leaf % 10]} {leaf}" for leaf in range(len(nested.leaves(tree))))
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
    summary = some_summary((0, (1, 2), (3, (4, 5))), NAMES[:6])
    write_annotated_nexus({"tree": summary}, tmp_path / "tree.nex")
    np.testing.assert_array_equal(read_trees(tmp_path / "tree.nex").branch_lengths, [summary.length[:-1]])


def test_a_name_of_a_tree_that_needs_quotes_has_them(tmp_path):
    write_annotated_nexus({"95 % majority": some_summary()}, tmp_path / "tree.nex")
    (tree,) = dendropy.TreeList.get(path=tmp_path / "tree.nex", schema="nexus")
    assert tree.label == "95 % majority"


def test_files_of_no_trees_or_of_different_taxa_are_refused(tmp_path):
    with pytest.raises(BadArgument, match="no trees to write"):
        write_annotated_nexus({}, tmp_path / "tree.nex")
    other = renamed(some_summary(), NAMES[::-1])
    with pytest.raises(TaxonMismatch, match="same taxa in the same order"):
        write_annotated_nexus({"one": some_summary(), "two": other}, tmp_path / "tree.nex")
    assert not list(tmp_path.iterdir())
