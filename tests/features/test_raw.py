"""Raw features: the facts of the paper, and a dense linear solve as the oracle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.features.raw import dirichlet_features, random_tips, tree_features
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.tree import Tree
from reference import nested
from reference.laplacian import dense_features
from support.strategies import nested_trees, topology_batches

TOLERANCE = 1e-12


def as_tree(tree: nested.Nested) -> Tree:
    leaf_count = len(nested.leaves(tree))
    return Tree(nested.to_parent(tree, leaf_count), leaf_count)


def all_kinds() -> st.SearchStrategy[Tree]:
    """Binary, multifurcating and rooted trees."""
    binary = topology_batches(trees=1).map(lambda batch: Tree(batch.parent[0], batch.taxon_count))
    return st.one_of(binary, nested_trees().map(as_tree), nested_trees(rooted=True).map(as_tree))


@given(topology_batches(most=60))
def test_binary_features_solve_the_laplacian_system(topologies):
    features = dirichlet_features(topologies)
    for parent, rows in zip(topologies.parent, features, strict=True):
        exact = dense_features(parent, np.eye(topologies.taxon_count))
        assert np.abs(rows - exact).max() <= TOLERANCE


@given(all_kinds(), st.integers(1, 20), st.integers(0, 2**32))
def test_any_tree_with_any_tips_solves_the_laplacian_system(tree, channels, seed):
    tips = np.random.default_rng(seed).normal(size=(tree.leaf_count, channels))
    assert np.abs(tree_features(tree, tips) - dense_features(tree.parent, tips)).max() <= TOLERANCE


@given(topology_batches())
def test_the_two_kernels_agree(topologies):
    features = dirichlet_features(topologies)
    for parent, rows in zip(topologies.parent, features, strict=True):
        np.testing.assert_allclose(tree_features(Tree(parent, topologies.taxon_count)), rows, rtol=0, atol=1e-14)


@given(all_kinds())
def test_one_hot_tips_give_rows_strictly_inside_the_simplex(tree):
    interior = tree_features(tree)[tree.leaf_count :]
    np.testing.assert_allclose(interior.sum(axis=1), 1.0, rtol=0, atol=TOLERANCE)
    assert (interior > 0).all()
    assert (interior < 1).all()


@given(all_kinds(), st.integers(0, 2**32))
def test_extremum_principle_interior_values_lie_between_the_tips(tree, seed):
    tips = np.random.default_rng(seed).normal(size=(tree.leaf_count, 3))
    interior = tree_features(tree, tips)[tree.leaf_count :]
    assert (interior < tips.max(axis=0)).all()
    assert (interior > tips.min(axis=0)).all()


@given(all_kinds())
def test_a_tips_neighbour_has_the_largest_coefficient_for_it(tree):
    interior = tree_features(tree)[tree.leaf_count :]
    nearest = interior.argmax(axis=0) + tree.leaf_count
    np.testing.assert_array_equal(nearest, tree.parent[: tree.leaf_count])
    ordered = np.sort(interior, axis=0)
    if len(interior) > 1:
        assert (ordered[-1] > ordered[-2]).all()


@given(all_kinds())
def test_the_share_of_the_parent_is_at_most_one_over_the_least_degree_less_one(tree):
    """c_u, the weight of x_parent in x_u, is read off trees whose tips are all 0 below u and 1 elsewhere.

    Then d_u = 0, so x_u = c_u x_parent exactly.
    """
    nodes = len(tree.parent)
    degrees = np.bincount(tree.parent[:-1], minlength=nodes) + (tree.parent >= 0)
    inner = np.arange(tree.leaf_count, nodes - 1)
    if not len(inner):
        return
    bound = 1 / (degrees[inner].min() - 1)
    below = np.eye(nodes, dtype=bool)
    for node in range(nodes - 1):
        below[tree.parent[node]] |= below[node]
    for node in inner:
        features = tree_features(tree, np.where(below[node, : tree.leaf_count], 0.0, 1.0)[:, None])[:, 0]
        share = features[node] / features[tree.parent[node]]
        assert 0 <= share <= bound + TOLERANCE


@given(topology_batches(), st.integers(0, 2**32))
def test_permuting_taxa_permutes_features(topologies, seed):
    taxa = topologies.taxon_count
    leaves = np.random.default_rng(seed).permutation(taxa).astype(np.int32)
    renamed, _ = topologies.with_leaves(leaves)
    before, after = dirichlet_features(topologies), dirichlet_features(renamed)
    for one, other in zip(before, after, strict=True):
        expected = one[:, np.argsort(leaves)]  # column i of the renamed tree is the column of the taxon that became i
        rows_match = np.abs(other[:, None] - expected[None]).max(axis=2).min(axis=1)
        assert rows_match.max() < 1e-12
        np.testing.assert_allclose(other[leaves], expected[:taxa], atol=1e-14)


def test_features_of_different_topologies_differ():
    features = dirichlet_features(all_topologies(7))
    assert len({frozenset(map(tuple, rows.round(9).tolist())) for rows in features}) == 945


def test_a_star_and_a_rooted_cherry_by_hand():
    star = as_tree((0, 1, 2, 3, 4))
    np.testing.assert_allclose(tree_features(star)[5], np.full(5, 0.2))
    rooted = as_tree(((0, 1), 2))  # nodes 3 = (0, 1) and 4 = the root between it and 2
    np.testing.assert_allclose(tree_features(rooted)[3], [0.4, 0.4, 0.2])
    np.testing.assert_allclose(tree_features(rooted)[4], [0.2, 0.2, 0.6])


def test_a_caterpillar_of_100_000_leaves_is_no_deeper_than_any_tree():
    taxa = 100_000
    parent = np.concatenate(
        [[taxa], np.arange(taxa, 2 * taxa - 2), [2 * taxa - 3], np.arange(taxa + 1, 2 * taxa - 2), [-1]]
    )
    features = tree_features(Tree(parent.astype(np.int32), taxa), np.linspace(0, 1, taxa)[:, None])
    inner = features[taxa + 1 : -1, 0]
    left, right, own = features[taxa:-2, 0], features[taxa + 2 :, 0], features[2 : taxa - 2, 0]
    assert len(inner) == len(own) == taxa - 4
    np.testing.assert_allclose(inner, (left + right + own) / 3, atol=1e-14)


def test_random_tips_keep_the_length_and_angles_of_one_hot_tips_on_average():
    tips = random_tips(500, 4000, stream=RandomStream(3, "tips"))
    products = tips @ tips.T
    np.testing.assert_allclose(np.diag(products).mean(), 1, atol=0.01)
    assert np.abs(products - np.diag(np.diag(products))).max() < 0.12


def test_results_can_go_into_an_array_of_the_caller():
    topologies = random_topologies(30, 1, stream=RandomStream(1, "x"))
    tree, tips = Tree(topologies.parent[0], 30), random_tips(30, 5, stream=RandomStream(1, "y"))
    out = np.empty((58, 5))
    assert tree_features(tree, tips, out=out) is out
    np.testing.assert_array_equal(out, tree_features(tree, tips))


@given(topology_batches(), st.integers(1, 9), st.integers(0, 2**32))
def test_a_batch_with_given_tips_is_its_trees_one_by_one(topologies, channels, seed):
    tips = np.random.default_rng(seed).normal(size=(topologies.taxon_count, channels))
    features = dirichlet_features(topologies, tips)
    for parent, rows in zip(topologies.parent, features, strict=True):
        np.testing.assert_array_equal(rows, tree_features(Tree(parent, topologies.taxon_count), tips))


def test_bad_arguments_are_refused():
    tree = as_tree((0, 1, 2))
    read_only = np.empty((4, 3))
    read_only.setflags(write=False)
    with pytest.raises(BadArgument, match="writable"):
        tree_features(tree, out=read_only)
    with pytest.raises(BadArgument, match="one row per leaf"):
        dirichlet_features(all_topologies(4), np.eye(5))
    with pytest.raises(BadArgument, match="one row per leaf"):
        tree_features(tree, np.eye(4))
    with pytest.raises(BadArgument, match=r"shape \(4, 3\)"):
        tree_features(tree, out=np.empty((4, 4)))
    with pytest.raises(BadArgument, match="dimension 0"):
        random_tips(3, 0, stream=RandomStream(0, "x"))


def test_outputs_and_tips_of_the_wrong_kind_are_refused():
    tree = as_tree((0, 1, 2))
    for out in (np.empty((4, 3), np.float32), np.empty((3, 4)).T):
        with pytest.raises(BadArgument, match="contiguous float64"):
            tree_features(tree, out=out)
    with pytest.raises(BadArgument, match="one row per leaf"):
        tree_features(tree, np.ones(3))
