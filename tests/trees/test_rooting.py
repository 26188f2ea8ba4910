"""Roots for display, against DendroPy: paths between leaves, and what is known of each branch, stay."""

from itertools import combinations

import dendropy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument, TaxonMismatch
from phloem.trees.consensus import SummaryTree
from phloem.trees.rooting import RootedTree, root_at_midpoint, root_at_outgroup, root_on_branch
from phloem.trees.splits import split_bits, unpack_bits
from phloem.trees.tree import Tree, canonical_tree
from phloem.trees.writing import format_annotated
from reference import nested
from reference.dendropy_samples import splits_of
from support.strategies import nested_trees, topology_batches


def random_summary(tree: nested.Nested, seed: int) -> SummaryTree:
    """Made-up numbers for all branches; pendant ones have support 1."""
    random = np.random.default_rng(seed)
    taxa = len(nested.leaves(tree))
    canonical = canonical_tree(nested.to_parent(tree, taxa), taxa)
    support, length = random.random((2, len(canonical.parent)))
    support[:taxa] = 1
    length[random.random(len(length)) < 0.1] = 0
    support[-1] = length[-1] = np.nan
    names = tuple(f"t{number}" for number in range(taxa))
    return SummaryTree(names, canonical, support, length, length * 0.5, length * 1.7)


SUMMARIES = st.builds(random_summary, nested_trees(), st.integers(0, 2**32))


def dendropy_tree(summary: SummaryTree) -> dendropy.Tree:
    return dendropy.Tree.get(
        data=format_annotated(summary), schema="newick", rooting="force-unrooted", preserve_underscores=True
    )


def path_lengths(tree: dendropy.Tree) -> dict[frozenset[str], float]:
    matrix = tree.phylogenetic_distance_matrix()
    return {
        frozenset([one.label, other.label]): matrix.distance(one, other)
        for one, other in combinations(tree.taxon_namespace, 2)
    }


def known_by_split(summary: SummaryTree) -> dict[frozenset[int], list[np.ndarray]]:
    """Support, length and interval of each branch by the side without leaf 0; the root's two halves are two entries."""
    parent, taxa = summary.tree.parent.tolist(), len(summary.taxa)
    below = [{leaf} if leaf < taxa else set() for leaf in range(len(parent))]
    known: dict[frozenset[int], list[np.ndarray]] = {}
    for node, above in enumerate(parent[:-1]):
        below[above] |= below[node]
        side = frozenset(below[node] if 0 not in below[node] else set(range(taxa)) - below[node])
        row = [summary.support[node], summary.length[node], summary.lower[node], summary.upper[node]]
        known.setdefault(side, []).append(np.array(row))
    return known


def check_same_but_for_the_root(rooted: SummaryTree, summary: SummaryTree) -> frozenset[int]:
    """Every branch has what it had, but one in two halves, whose side without leaf 0 is returned."""
    assert rooted.is_rooted
    assert (rooted.tree.parent == len(rooted.tree.parent) - 1).sum() == 2
    before, after = known_by_split(summary), known_by_split(rooted)
    assert before.keys() == after.keys()
    divided = [side for side, rows in after.items() if len(rows) == 2]
    assert len(divided) == 1
    for side, rows in after.items():
        assert all(row[0] == before[side][0][0] for row in rows)
        np.testing.assert_allclose(sum(row[1:] for row in rows), before[side][0][1:], rtol=1e-12, atol=1e-15)
    return divided[0]


@given(SUMMARIES)
def test_the_midpoint_agrees_with_dendropy(summary):
    rooted = root_at_midpoint(summary)
    check_same_but_for_the_root(rooted, summary)
    ours, theirs, before = dendropy_tree(rooted), dendropy_tree(summary), dendropy_tree(summary)
    theirs.reroot_at_midpoint(suppress_unifurcations=True, collapse_unrooted_basal_bifurcation=False)
    assert splits_of(ours, "t0") == splits_of(theirs, "t0") == splits_of(before, "t0")
    assert ours.length() == pytest.approx(theirs.length(), abs=1e-9)
    assert path_lengths(ours) == pytest.approx(path_lengths(before), abs=1e-9)
    depths = [sorted(tree.calc_node_root_distances()) for tree in (ours, theirs)]
    longest = max(path_lengths(before).values())
    assert depths[0][-1] == pytest.approx(longest / 2, abs=1e-9)
    assert depths[0] == pytest.approx(depths[1], abs=1e-9)


@given(SUMMARIES, st.data())
def test_any_clade_can_be_the_outgroup_and_so_can_its_complement(summary, data):
    taxa = len(summary.taxa)
    side = data.draw(st.sampled_from(sorted(known_by_split(summary), key=sorted)))
    if data.draw(st.booleans()):
        side = frozenset(range(taxa)) - side
    names = {summary.taxa[leaf] for leaf in side}
    rooted = root_at_outgroup(summary, names)
    assert check_same_but_for_the_root(rooted, summary) == (frozenset(range(taxa)) - side if 0 in side else side)
    one, other = known_by_split(rooted)[frozenset(range(taxa)) - side if 0 in side else side]
    np.testing.assert_array_equal(one, other)
    assert path_lengths(dendropy_tree(rooted)) == pytest.approx(path_lengths(dendropy_tree(summary)), abs=1e-9)
    theirs = dendropy_tree(summary)
    if len(names) == 1:
        theirs.to_outgroup_position(theirs.find_node_with_taxon_label(*names), update_bipartitions=False)
        assert splits_of(theirs, "t0") == splits_of(dendropy_tree(rooted), "t0")
        assert theirs.length() == pytest.approx(dendropy_tree(rooted).length())
    children = {
        frozenset(leaf.taxon.label for leaf in node.leaf_iter())
        for node in dendropy_tree(rooted).seed_node.child_nodes()
    }
    assert children == {frozenset(names), frozenset(summary.taxa) - names}


@given(SUMMARIES, st.data())
def test_a_root_that_moves_leaves_nothing_behind(summary, data):
    name, other = (data.draw(st.sampled_from(summary.taxa)) for _ in range(2))
    moved = root_at_outgroup(root_at_outgroup(root_at_midpoint(summary), other), name)
    direct = root_at_outgroup(summary, name)
    np.testing.assert_array_equal(moved.tree.parent, direct.tree.parent)
    for one, two in zip(
        (moved.support, moved.length, moved.lower, moved.upper),
        (direct.support, direct.length, direct.lower, direct.upper),
        strict=True,
    ):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-15)


@given(SUMMARIES)
def test_rooted_trees_are_numbered_in_one_way(summary):
    rooted = root_at_midpoint(summary)
    taxa = len(summary.taxa)
    order = nested.to_parent(nested.from_parent(rooted.tree.parent.tolist(), taxa), taxa)
    np.testing.assert_array_equal(order, rooted.tree.parent)
    for part in (rooted.support, rooted.length, rooted.lower, rooted.upper):
        assert np.isnan(part[-1])
        assert not np.isnan(part[:-1]).any()


def example() -> SummaryTree:
    """(a:1,b:1,(c:1,(d:1,e:1):1):1)"""
    tree = Tree(np.array([7, 7, 6, 5, 5, 6, 7, -1], np.int32), 5)
    length = np.array([1.0] * 7 + [np.nan])
    return SummaryTree(tuple("abcde"), tree, np.array([1, 1, 1, 1, 1, 0.8, 0.6, np.nan]), length, length, length)


def test_a_name_alone_is_an_outgroup_and_so_is_a_list():
    assert format_annotated(root_at_outgroup(example(), "c")) == format_annotated(root_at_outgroup(example(), ["c"]))


def test_taxa_that_are_no_clade_are_refused_with_those_that_would_be_among_them():
    with pytest.raises(BadArgument, match=r"outgroup 'c', 'd': not a clade .* also has 'e'\."):
        root_at_outgroup(example(), ["d", "c"])
    with pytest.raises(BadArgument, match=r"outgroup 'a', 'd', 'e': not a clade .* also has 'c'\."):
        root_at_outgroup(example(), ["a", "d", "e"])


def test_names_must_be_some_of_the_taxa():
    with pytest.raises(TaxonMismatch, match="outgroup: 'x' not in the tree"):
        root_at_outgroup(example(), ["a", "x"])
    for names in ([], list("abcde")):
        with pytest.raises(BadArgument, match="at least one of the taxa, but not all"):
            root_at_outgroup(example(), names)


def test_a_star_has_its_midpoint_at_the_end_of_a_branch():
    star = SummaryTree(tuple("abc"), Tree(np.array([3, 3, 3, -1], np.int32), 3), *np.array([[1, 1, 1, np.nan]] * 4))
    rooted = root_at_midpoint(star)
    assert sorted(rooted.length[:-1].tolist()) == [0, 1, 1, 1]
    assert format_annotated(rooted) == format_annotated(root_at_midpoint(star))


def test_a_tree_without_lengths_has_no_midpoint_but_may_have_an_outgroup():
    full = example()
    bare = SummaryTree(full.taxa, full.tree, full.support, *[np.full(8, np.nan)] * 3)
    with pytest.raises(BadArgument, match="every branch needs a length"):
        root_at_midpoint(bare)
    assert np.isnan(root_at_outgroup(bare, ["d", "e"]).length).all()


def test_all_lengths_zero():
    full = example()
    zero = np.where(np.isnan(full.length), np.nan, 0.0)
    flat = SummaryTree(full.taxa, full.tree, full.support, zero, zero, zero)
    assert (root_at_midpoint(flat).length[:-1] == 0).all()


def test_a_caterpillar_of_5000_taxa_is_rooted():
    taxa = 5000
    parent = np.concatenate(
        [
            [2 * taxa - 3, 2 * taxa - 3],
            np.arange(2 * taxa - 4, taxa - 1, -1),
            [taxa],
            np.arange(taxa + 1, 2 * taxa - 2),
            [-1],
        ]
    )
    tree = Tree(parent.astype(np.int32), taxa)
    length = np.append(np.ones(2 * taxa - 3), np.nan)
    summary = SummaryTree(tuple(map(str, range(taxa))), tree, length, length, length, length)
    assert root_at_midpoint(summary).is_rooted
    assert root_at_outgroup(summary, "2500").is_rooted


def below(rooted: RootedTree, leaf_count: int) -> list[frozenset[int]]:
    """The leaves below each node, by climbing from every leaf."""
    found: list[set[int]] = [set() for _ in rooted.parent]
    for leaf in range(leaf_count):
        node = leaf
        while node >= 0:
            found[node].add(leaf)
            node = int(rooted.parent[node])
    return [frozenset(one) for one in found]


@given(topology_batches(trees=1), st.data())
def test_a_cut_branch_leaves_every_branch_as_it_divides_the_taxa(batch, data):
    cut = data.draw(st.integers(0, batch.branch_count - 1))
    rooted = root_on_branch(batch.parent[0], cut)
    n = batch.taxon_count
    splits = [frozenset(np.flatnonzero(row).tolist()) for row in unpack_bits(split_bits(batch)[0], n)]
    everything = frozenset(range(n))
    clades = below(rooted, n)
    assert clades[-1] == everything
    for node in range(len(rooted.parent) - 1):
        assert clades[node] in (splits[rooted.branch[node]], everything - splits[rooted.branch[node]])
    # Every branch is there once; the one that is cut has two halves.
    lengths = np.bincount(rooted.branch[:-1], rooted.share[:-1], minlength=batch.branch_count)
    assert lengths == pytest.approx(np.ones(batch.branch_count))
    assert np.flatnonzero(rooted.parent == len(rooted.parent) - 1).size == 2
