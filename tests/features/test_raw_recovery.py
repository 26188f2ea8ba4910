"""Recovery ∘ embedding is the identity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phloem.errors import FeatureMismatch
from phloem.features.raw import dirichlet_features, random_tips, recover_topologies, recover_tree, tree_features
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.tree import Tree
from reference import nested
from support.strategies import nested_trees, topology_batches


def shuffle_interior(features: np.ndarray, leaf_count: int, seed: int) -> np.ndarray:
    order = leaf_count + np.random.default_rng(seed).permutation(features.shape[-2] - leaf_count)
    return np.concatenate([features[..., :leaf_count, :], features[..., order, :]], axis=-2)


def rooted_clades(tree: Tree) -> set[frozenset[int]]:
    return set(nested.clades(nested.from_parent(tree.parent.tolist(), tree.leaf_count)))


def test_all_10395_topologies_of_8_taxa_come_back_from_shuffled_rows():
    topologies = all_topologies(8)
    features = shuffle_interior(dirichlet_features(topologies), 8, seed=1)
    np.testing.assert_array_equal(recover_topologies(features, 8).parent, topologies.parent)


@pytest.mark.parametrize("taxa", [100, 300])
def test_random_trees_of_many_taxa_come_back(taxa):
    topologies = random_topologies(taxa, 20, stream=RandomStream(5, "many taxa"))
    features = shuffle_interior(dirichlet_features(topologies), taxa, seed=2)
    assert recover_topologies(features, taxa).equal(topologies).all()


def test_a_caterpillar_of_2000_taxa_comes_back_though_far_coefficients_underflow():
    taxa = 2000
    parent = np.concatenate(
        [[taxa], np.arange(taxa, 2 * taxa - 2), [2 * taxa - 3], np.arange(taxa + 1, 2 * taxa - 2), [-1]]
    )
    tree = Tree(parent.astype(np.int32), taxa)
    features = tree_features(tree)
    assert features.min() == 0  # 2.6^-2000
    recovered = recover_tree(shuffle_interior(features, taxa, seed=3), taxa)
    assert nested_splits(recovered) == nested_splits(tree)


def nested_splits(tree: Tree) -> set[bytes]:
    below = np.zeros((len(tree.parent), tree.leaf_count), bool)
    below[: tree.leaf_count] = np.eye(tree.leaf_count, dtype=bool)
    for node in range(len(tree.parent) - 1):
        below[tree.parent[node]] |= below[node]
    below ^= below[:, :1]  # the side without leaf 0
    return {row.tobytes() for row in below}


@given(topology_batches(most=30), st.integers(0, 2**32))
def test_any_linearly_independent_tips_will_do(topologies, seed):
    taxa = topologies.taxon_count
    tips = np.random.default_rng(seed).normal(size=(taxa, taxa + 3))
    for topology in topologies:
        features = tree_features(Tree(topology.parent[0], taxa), tips)
        recovered = recover_tree(shuffle_interior(features, taxa, seed), taxa)
        np.testing.assert_array_equal(recovered.parent, topology.parent[0])


@given(nested_trees(most=40), st.integers(0, 2**32))
def test_multifurcating_trees_come_back(tree, seed):
    taxa = len(nested.leaves(tree))
    features = tree_features(Tree(nested.to_parent(tree, taxa), taxa))
    recovered = recover_tree(shuffle_interior(features, taxa, seed), taxa)
    splits = nested.nontrivial_splits(nested.from_parent(recovered.parent.tolist(), taxa))
    assert splits == nested.nontrivial_splits(tree)
    assert len(recovered.parent) == len(features)


@given(nested_trees(most=40, rooted=True), st.integers(0, 2**32))
def test_rooted_trees_come_back_with_their_root(tree, seed):
    taxa = len(nested.leaves(tree))
    features = tree_features(Tree(nested.to_parent(tree, taxa), taxa))
    recovered = recover_tree(shuffle_interior(features, taxa, seed), taxa)
    assert rooted_clades(recovered) == set(nested.clades(tree))


def all_multifurcating(leaf_count: int) -> list[nested.Nested]:
    """All unrooted trees without nodes of degree two: a leaf goes onto a branch or to an interior node."""

    def grow(tree: nested.Nested, leaf: int) -> list[nested.Nested]:
        onto_branch: list[nested.Nested] = [(tree, leaf)]
        return onto_branch if isinstance(tree, int) else onto_branch + grow_inside(tree, leaf)

    def grow_inside(tree: nested.Nested, leaf: int) -> list[nested.Nested]:
        assert isinstance(tree, tuple)
        bigger: list[nested.Nested] = [(*tree, leaf)]
        for place, child in enumerate(tree):
            bigger += [(*tree[:place], grown, *tree[place + 1 :]) for grown in grow(child, leaf)]
        return bigger

    trees: list[nested.Nested] = [(0, 1, 2)]
    for leaf in range(3, leaf_count):
        trees = [bigger for tree in trees for bigger in grow_inside(tree, leaf)]
    return trees


@pytest.mark.parametrize(("taxa", "count"), [(3, 1), (4, 4), (5, 26), (6, 236), (7, 2752)])
def test_all_multifurcating_trees_of_few_taxa_come_back(taxa, count):
    trees = all_multifurcating(taxa)
    assert len({nested.nontrivial_splits(tree) for tree in trees}) == len(trees) == count
    for index, tree in enumerate(trees):
        features = tree_features(Tree(nested.to_parent(tree, taxa), taxa))
        recovered = recover_tree(shuffle_interior(features, taxa, index), taxa)
        splits = nested.nontrivial_splits(nested.from_parent(recovered.parent.tolist(), taxa))
        assert splits == nested.nontrivial_splits(tree)


def test_single_precision_features_are_enough():
    topologies = random_topologies(50, 20, stream=RandomStream(6, "single"))
    features = dirichlet_features(topologies).astype(np.float32)
    assert recover_topologies(features, 50).equal(topologies).all()
    assert recover_topologies(features.astype(">f4"), 50).equal(topologies).all()


def good_features() -> np.ndarray:
    return dirichlet_features(random_topologies(10, 1, stream=RandomStream(8, "good")))[0]


def test_noise_is_refused():
    with pytest.raises(FeatureMismatch, match="fit no tree"):
        recover_tree(good_features() + np.random.default_rng(0).normal(0, 1e-3, (18, 10)), 10)


@given(st.integers(0, 2**32))
def test_random_numbers_are_refused(seed):
    rows = np.random.default_rng(seed).dirichlet(np.ones(10), 18)
    rows[:10] = np.eye(10)
    with pytest.raises(FeatureMismatch, match="fit no tree"):
        recover_tree(rows, 10)


def test_a_row_that_stands_twice_is_refused():
    rows = good_features()
    rows[12] = rows[13]
    with pytest.raises(FeatureMismatch, match="fit no tree"):
        recover_tree(rows, 10)


def test_a_slightly_wrong_row_is_refused():
    rows = good_features()
    rows[12, 3] += 1e-7
    with pytest.raises(FeatureMismatch, match="fit no tree"):
        recover_tree(rows, 10)


def test_dependent_tips_are_refused():
    topology = random_topologies(10, 1, stream=RandomStream(8, "good"))
    tips = random_tips(10, 9, stream=RandomStream(0, "tips"))
    with pytest.raises(FeatureMismatch, match=r"linearly dependent \(rank 9\)"):
        recover_tree(tree_features(Tree(topology.parent[0], 10), tips), 10)


def test_a_node_outside_the_tips_span_is_refused():
    rows = np.hstack([good_features(), np.zeros((18, 1))])
    rows[15, 10] = 0.5
    with pytest.raises(FeatureMismatch, match="not a combination"):
        recover_tree(rows, 10)


def test_two_nodes_of_degree_two_are_refused():
    """A star of five leaves with a needless node on two of its branches."""
    laplacian = np.zeros((8, 8))
    for one, other in [(0, 6), (6, 5), (1, 7), (7, 5), (2, 5), (3, 5), (4, 5)]:
        laplacian[[one, other], [one, other]] += 1
        laplacian[[one, other], [other, one]] -= 1
    rows = np.vstack([np.eye(5), np.linalg.solve(laplacian[5:, 5:], -laplacian[5:, :5])])
    with pytest.raises(FeatureMismatch, match="2 nodes have only two neighbours"):
        recover_tree(rows, 5)


@pytest.mark.parametrize(
    ("shape", "taxa"), [((18, 10), 2), ((10, 10), 10), ((20, 10), 10), ((18,), 10), ((1, 18, 10), 10)]
)
def test_wrong_shapes_are_refused(shape, taxa):
    with pytest.raises(FeatureMismatch, match="one row per node"):
        recover_tree(np.ones(shape), taxa)


def test_values_that_are_not_finite_are_refused():
    rows = good_features()
    rows[11, 2] = np.nan
    with pytest.raises(FeatureMismatch, match="not finite"):
        recover_tree(rows, 10)


def test_a_batch_with_a_polytomy_is_refused():
    star = tree_features(Tree(np.array([4, 4, 4, 4, -1], np.int32), 4))
    with pytest.raises(FeatureMismatch, match="not binary"):
        recover_topologies(star[None], 4)
    rooted = tree_features(Tree(np.array([5, 5, 5, 6, 6, 7, 7, -1], np.int32), 5))  # as many nodes as a binary tree
    with pytest.raises(FeatureMismatch, match="tree 2: features: the tree is not binary"):
        recover_topologies(np.stack([dirichlet_features(all_topologies(5))[0], rooted]), 5)
    with pytest.raises(FeatureMismatch, match="tree 1: features: some values are not finite"):
        recover_topologies(np.full((1, 8, 5), np.nan), 5)


def test_no_features_are_no_trees():
    assert len(recover_topologies(np.empty((0, 8, 5)), 5)) == 0


def test_a_stars_centre_that_stands_twice_is_refused():
    rows = np.vstack([np.eye(4), np.full((2, 4), 0.25)])
    with pytest.raises(FeatureMismatch, match="fit no tree"):
        recover_tree(rows, 4)


@pytest.mark.parametrize(
    ("interior", "taxa"),
    [
        (np.repeat(np.eye(2), 3, axis=1) / 3, 6),  # two stars that do not touch
        ([[1 / 3, 1 / 3, 1 / 3, 0]], 4),  # a tip that no node knows
        ([[0.5, 0.25, 0.25]], 3),  # one node that is not the mean
    ],
)
def test_rows_that_are_nearly_a_tree_are_refused(interior, taxa):
    with pytest.raises(FeatureMismatch, match="fit no tree"):
        recover_tree(np.vstack([np.eye(taxa), interior]), taxa)


@pytest.mark.parametrize(("precision", "error"), [(np.float64, 5e-9), (np.float32, 1e-3)])
def test_errors_just_above_the_tolerance_are_refused(precision, error):
    rows = dirichlet_features(all_topologies(5))[0].astype(precision)
    rows[6, 3] += error
    with pytest.raises(FeatureMismatch, match="fit no tree"):
        recover_tree(rows, 5)


def test_tips_of_any_size_will_do():
    tree = Tree(all_topologies(5).parent[7], 5)
    tips = 1e9 * np.random.default_rng(0).normal(size=(5, 8))
    assert recover_tree(tree_features(tree, tips), 5).parent.tolist() == tree.parent.tolist()
