"""The maximum-likelihood tree as scripts get it: lengths, supports, and a search that can be interrupted."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

import phloem
from phloem.data.alignment import Alignment
from phloem.errors import AlignmentError, ConfigError
from phloem.trees.splits import nontrivial_splits


@pytest.fixture(scope="module")
def small() -> Alignment:
    primates = phloem.read_alignment("primates")
    return Alignment(primates.taxa[:8], primates.states[:8, :300])


@pytest.fixture(scope="module")
def found(small) -> phloem.search.SearchResult:
    return phloem.maximum_likelihood_tree(small, count=200, keep=4, within=100.0, seed=3)


def test_supports_are_shares_of_the_bootstrap_trees(found, small):
    tree = found.tree
    assert tree.taxa == small.taxa
    np.testing.assert_array_equal(tree.tree.parent, found.topology.parent[0])
    np.testing.assert_array_equal(tree.length[:-1], found.branch_lengths)
    assert (tree.support[:8] == 1).all()
    assert np.isnan(tree.support[-1])
    trees = [{row.tobytes() for row in splits} for splits in nontrivial_splits(found.bootstrap.topologies)]
    for row, support in zip(nontrivial_splits(found.topology)[0], tree.support[8:-1], strict=True):
        assert support == pytest.approx(np.mean([row.tobytes() in splits for splits in trees]))
    assert 0 < tree.support[8:-1].min() < 1


def test_a_branch_that_no_bootstrap_tree_has_gets_support_0(found):
    others = phloem.trees.random_topologies(8, 1, stream=phloem.RandomStream(1, "far"))
    tree = replace(found, topology=others, bootstrap=found.bootstrap[:1]).tree
    have = {row.tobytes() for row in nontrivial_splits(found.bootstrap.topologies[:1])[0]}
    expected = [float(row.tobytes() in have) for row in nontrivial_splits(others)[0]]
    assert tree.support[8:-1].tolist() == expected
    assert 0 in expected


def test_the_value_is_that_of_the_tree_with_its_lengths_under_the_model(found, small):
    likelihood = phloem.models.TreeLikelihood(phloem.data.compress(small), found.model)
    [value] = likelihood(found.topology, torch.from_numpy(found.branch_lengths[None]))
    assert float(value) == pytest.approx(found.log_likelihood, abs=1e-6)
    assert (len(found.bootstrap), len(found.best)) == (200, 4)
    np.testing.assert_array_equal(found.best.topologies.parent[0], found.topology.parent[0])


def test_the_result_depends_on_the_seed_and_not_on_threads(found, small):
    again = phloem.maximum_likelihood_tree(small, count=200, seed=3, threads=1)
    np.testing.assert_array_equal(again.bootstrap.topologies.parent, found.bootstrap.topologies.parent)
    np.testing.assert_array_equal(again.branch_lengths, found.branch_lengths)
    other = phloem.maximum_likelihood_tree(small, count=200, seed=4)
    assert not np.array_equal(other.bootstrap.topologies.parent, found.bootstrap.topologies.parent)
    assert other.log_likelihood == pytest.approx(found.log_likelihood, abs=1e-3)


def test_an_example_by_name_under_a_model_with_parameters(small):
    told = []
    found = phloem.maximum_likelihood_tree(
        "primates", count=10, model="HKY", progress=lambda n: told.append((n, here()))
    )
    assert found.model.name == "HKY85"
    assert found.log_likelihood == pytest.approx(-5984.54, abs=0.05)  # IQ-TREE's
    assert {thread for _, thread in told} == {here()}
    assert all(0 < news.fraction < 1 for news, _ in told)
    assert told[-1][0].log_likelihood == pytest.approx(found.log_likelihood, abs=5)


def here() -> threading.Thread:
    return threading.current_thread()


def test_an_interruption_leaves_no_busy_thread(small):
    def interrupt(_news):
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        phloem.maximum_likelihood_tree(small, count=1000, threads=1, progress=interrupt)
    assert threading.active_count() == before


def test_what_is_wrong_is_told_at_once():
    with pytest.raises(AlignmentError, match=r"3 taxa. A search needs at least 4"):
        phloem.maximum_likelihood_tree(Alignment.from_sequences("ABC", ["AC", "AG", "AT"]))
    with pytest.raises(ConfigError, match="--model 'MFP': give"):
        phloem.maximum_likelihood_tree("primates", model="MFP")
    with pytest.raises(ConfigError, match="--within -1"):
        phloem.maximum_likelihood_tree("primates", within=-1.0)
