"""Feature files: what they hold, and that damaged ones are refused."""

import zipfile

import numpy as np
import pytest

from phloem.errors import FeatureMismatch, FileProblem
from phloem.features import archive
from phloem.features.raw import dirichlet_features, tree_features
from phloem.random_streams import RandomStream
from phloem.trees.generation import random_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.tree import Tree, WeightedTrees

TAXA = tuple(f"t{number}" for number in range(9))


@pytest.fixture
def sample() -> TreeSample:
    return TreeSample(TAXA, random_topologies(9, 20, stream=RandomStream(1, "x")), np.arange(20.0), None)


def test_stacked_arrays_hold_no_objects_and_need_no_phloem(tmp_path, sample):
    archive.write_stacked(tmp_path / "f.npz", sample, dirichlet_features, 9)
    with np.load(tmp_path / "f.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"taxa", "weights", "parent", "features"}
        assert arrays["taxa"].tolist() == list(TAXA)
        np.testing.assert_array_equal(arrays["weights"], sample.weights)
        np.testing.assert_array_equal(arrays["parent"], sample.topologies.parent)
        np.testing.assert_array_equal(arrays["features"], dirichlet_features(sample.topologies))
        assert arrays["features"].shape == (20, 16, 9)


def test_many_small_chunks_make_the_same_file(tmp_path, sample, monkeypatch):
    archive.write_stacked(tmp_path / "one.npz", sample, dirichlet_features, 9)
    monkeypatch.setattr(archive, "CHUNK_BYTES", 3 * 16 * 9 * 8)
    archive.write_stacked(tmp_path / "many.npz", sample, dirichlet_features, 9)
    one, many = np.load(tmp_path / "one.npz"), np.load(tmp_path / "many.npz")
    np.testing.assert_array_equal(one["features"], many["features"])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_files_saved_by_numpy_are_read(tmp_path, sample, save, order):
    features = dirichlet_features(sample.topologies)
    save(tmp_path / "f.npz", taxa=np.array(TAXA), features=np.asarray(features, order=order))
    taxa, rows = archive.read_features(tmp_path / "f.npz")
    assert taxa == TAXA
    np.testing.assert_array_equal(list(rows), features)


def test_trees_of_any_degrees_have_their_own_arrays(tmp_path):
    trees = (Tree(np.array([4, 4, 4, 4, -1], np.int32), 4), Tree(np.array([5, 5, 4, 4, 5, -1], np.int32), 4))
    archive.write_separately(tmp_path / "f.npz", WeightedTrees(tuple("ABCD"), trees, np.ones(2)), tree_features)
    with np.load(tmp_path / "f.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"taxa", "weights", "parent_0", "features_0", "parent_1", "features_1"}
    taxa, rows = archive.read_features(tmp_path / "f.npz")
    assert taxa == tuple("ABCD")
    for tree, features in zip(trees, rows, strict=True):
        np.testing.assert_array_equal(features, tree_features(tree))


def read_all(path) -> None:
    list(archive.read_features(path)[1])


def test_what_is_no_feature_file_is_refused(tmp_path, sample):
    path = tmp_path / "f.npz"
    with pytest.raises(FileProblem, match="no such file"):
        read_all(path)
    with pytest.raises(FileProblem, match="is a directory"):
        read_all(tmp_path)
    path.write_bytes(b"not a zip file")
    with pytest.raises(FileProblem, match=r"not an \.npz file"):
        read_all(path)
    np.savez(path, features=np.ones((1, 4, 3)))
    with pytest.raises(FileProblem, match="no arrays `taxa` and `features`"):
        read_all(path)
    np.savez(path, taxa=np.array(["A", "B", "A"]), features=np.ones((1, 4, 3)))
    with pytest.raises(FeatureMismatch, match="distinct names"):
        read_all(path)
    np.savez(path, taxa=np.array(["A", "B", "C"]), features=np.ones((4, 3)))
    with pytest.raises(FileProblem, match=r"array `features` cannot be read .*\(trees, nodes, channels\)"):
        read_all(path)
    np.savez(path, taxa=np.array(["A", "B", "C"]), features=np.ones((1, 4, 3), np.complex128))
    with pytest.raises(FileProblem, match="instead of floats"):
        read_all(path)


@pytest.mark.parametrize("rows", [np.array(["x"]), np.ones(3), np.ones((1, 4, 3))])
def test_single_trees_of_the_wrong_kind_are_refused(tmp_path, rows):
    np.savez(tmp_path / "f.npz", taxa=np.array(["A", "B", "C"]), features_0=rows)
    with pytest.raises(FileProblem, match=r"array `features_0` cannot be read .*\(nodes, channels\)"):
        read_all(tmp_path / "f.npz")


def test_a_gap_in_the_trees_is_refused(tmp_path):
    np.savez(tmp_path / "f.npz", taxa=np.array(["A", "B", "C"]), features_0=np.ones((4, 3)), features_2=np.ones((4, 3)))
    with pytest.raises(FileProblem, match="has no array `features_1`"):
        read_all(tmp_path / "f.npz")


def test_pickled_objects_are_never_loaded(tmp_path):
    path = tmp_path / "f.npz"
    np.savez(path, taxa=np.array([{"a": 1}, None, []], object), features=np.ones((1, 4, 3)))
    with pytest.raises(FileProblem, match="array `taxa` cannot be read"):
        read_all(path)


def test_arrays_that_expand_without_end_are_stopped_at_a_stated_size(tmp_path, monkeypatch):
    path = tmp_path / "f.npz"
    monkeypatch.setattr("phloem.storage.arrays.LARGEST_UNPACKED", 100_000)
    np.savez_compressed(path, taxa=np.array(["A", "B", "C"]), features=np.zeros((1, 4, 30_000)))
    with pytest.raises(FileProblem, match=r"f\.npz: array `features` unpacks to more than 0\.0001 GB"):
        read_all(path)
    np.savez(path, taxa=np.array(["A", "B", "C"]), features=np.zeros((1, 4, 30_000)))
    read_all(path)


def test_damaged_files_are_refused(tmp_path, sample):
    path = tmp_path / "f.npz"
    archive.write_stacked(path, sample, dirichlet_features, 9)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileProblem, match=r"not an \.npz file"):
        read_all(path)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + b"????" + whole[middle + 4 :])
    with pytest.raises(FileProblem, match="array `features` cannot be read"):
        read_all(path)
    with zipfile.ZipFile(path, "w") as damaged:
        damaged.writestr("taxa.npy", whole[:10])
        damaged.writestr("features.npy", b"")
    with pytest.raises(FileProblem, match="array `taxa` cannot be read"):
        read_all(path)


def test_arrays_of_single_trees_are_what_they_were(tmp_path):
    star = Tree(np.array([4, 4, 4, 4, -1], np.int32), 4)
    archive.write_separately(tmp_path / "f.npz", WeightedTrees(tuple("ABCD"), (star,), np.array([3.0])), tree_features)
    arrays = np.load(tmp_path / "f.npz")
    assert arrays["parent_0"].tolist() == [4, 4, 4, 4, -1]
    assert arrays["weights"].tolist() == [3]


def test_a_tree_larger_than_a_chunk_is_written(tmp_path, sample, monkeypatch):
    monkeypatch.setattr(archive, "CHUNK_BYTES", 1)
    archive.write_stacked(tmp_path / "f.npz", sample, dirichlet_features, 9)
    np.testing.assert_array_equal(np.load(tmp_path / "f.npz")["features"], dirichlet_features(sample.topologies))


@pytest.mark.parametrize("taxa", [np.arange(3), np.array([["A", "B"]])])
def test_taxa_must_be_a_list_of_names(tmp_path, taxa):
    np.savez(tmp_path / "f.npz", taxa=taxa, features=np.ones((1, 4, 3)))
    with pytest.raises(FeatureMismatch, match="distinct names"):
        read_all(tmp_path / "f.npz")


def test_pickled_features_are_never_loaded(tmp_path):
    np.savez(tmp_path / "f.npz", taxa=np.array(["A", "B", "C"]), features_0=np.array([{}, 1, 2, 3], object))
    with pytest.raises(FileProblem, match="features_0"):
        read_all(tmp_path / "f.npz")
