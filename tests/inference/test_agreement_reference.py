"""Distances to a reference sample, against sums over all topologies."""

import numpy as np
import pytest
import torch

from phloem.inference.agreement import compare_with_reference
from phloem.tasks.support import read_samples
from phloem.trees.generation import all_topologies
from phloem.trees.sample import TreeSample, credible_set_size, pool
from phloem.trees.splits import split_frequencies
from phloem.variational.sbn import SubsplitNetwork, support_of

TAXA = tuple("abcde")
EVERYTHING = all_topologies(5)  # 15


def network(topologies, seed: int) -> SubsplitNetwork:
    support = support_of(TAXA, topologies)
    torch.manual_seed(seed)
    return SubsplitNetwork(support, torch.randn(support.parameter_count, dtype=torch.float64))


def probabilities(net: SubsplitNetwork) -> np.ndarray:
    return net.log_prob(EVERYTHING).detach().exp().numpy()


@pytest.fixture(scope="module")
def reference() -> TreeSample:
    return TreeSample(TAXA, EVERYTHING, np.random.default_rng(3).dirichlet(np.full(15, 0.5)), None)


@pytest.fixture(scope="module")
def posterior() -> TreeSample:
    weights = np.random.default_rng(4).dirichlet(np.full(15, 0.5))
    order = np.argsort(-weights)
    return TreeSample(TAXA, EVERYTHING[order], weights[order], None)


def test_divergence_and_total_variation_of_a_whole_support(reference, posterior):
    net = network(EVERYTHING, 1)
    p, q = reference.weights, probabilities(net)
    assert q.sum() == pytest.approx(1)
    found = compare_with_reference(reference, [net], [1.0], posterior)
    assert found.topologies == 15
    assert found.outside_support == pytest.approx(0, abs=1e-12)
    assert found.divergence == pytest.approx(p @ np.log(p / q))
    assert found.total_variation == pytest.approx(0.5 * np.abs(p - q).sum())


def test_what_the_support_lacks_is_told_and_left_out_of_the_divergence(reference, posterior):
    net = network(EVERYTHING[:4], 2)
    p, q = reference.weights, probabilities(net)
    inside = q > 0
    assert 0 < inside.sum() < 15
    found = compare_with_reference(reference, [net], [1.0], posterior)
    assert found.outside_support == pytest.approx(p[~inside].sum())
    renormalized = p[inside] / p[inside].sum()
    assert found.divergence == pytest.approx(renormalized @ np.log(renormalized / q[inside]))
    assert found.total_variation == pytest.approx(0.5 * np.abs(p - q).sum())


def test_probability_that_the_reference_has_not_seen_counts_as_well(reference, posterior):
    net = network(EVERYTHING, 1)
    q = probabilities(net)
    part = reference[:5]
    p = np.zeros(15)
    p[:5] = part.weights / part.weights.sum()
    found = compare_with_reference(part, [net], [1.0], posterior)
    assert found.total_variation == pytest.approx(0.5 * np.abs(p - q).sum())


def test_a_reference_that_is_all_outside_has_no_divergence(posterior):
    net = network(EVERYTHING[:1], 1)
    outside = TreeSample(TAXA, EVERYTHING[1:2], np.ones(1), None)
    found = compare_with_reference(outside, [net], [1.0], posterior)
    assert found.divergence is None
    assert found.outside_support == found.total_variation == pytest.approx(1)


def test_several_networks_are_mixed_by_their_shares(reference, posterior):
    nets = [network(EVERYTHING, 1), network(EVERYTHING[:4], 2), network(EVERYTHING, 3)]
    p = reference.weights
    q = 0.7 * probabilities(nets[0]) + 0.3 * probabilities(nets[1])
    found = compare_with_reference(reference, nets, [0.7, 0.3, 0.0], posterior)
    assert found.divergence == pytest.approx(p @ np.log(p / q))
    assert found.outside_support == pytest.approx(0, abs=1e-12)


def test_weighted_draws_are_compared_by_topologies_splits_and_credible_sets(reference, posterior):
    found = compare_with_reference(reference, [network(EVERYTHING, 1)], [1.0], posterior)
    ours = np.zeros(15)
    places = {row.tobytes(): place for place, row in enumerate(EVERYTHING.parent)}
    for row, weight in zip(posterior.topologies.parent, posterior.weights, strict=True):
        ours[places[row.tobytes()]] = weight
    assert found.weighted_total_variation == pytest.approx(0.5 * np.abs(reference.weights - ours).sum())
    frequencies = [
        {members.tobytes(): share for members, share in zip(found.members, found.frequencies, strict=True)}
        for found in map(split_frequencies, (reference, posterior))
    ]
    largest = max(abs(frequencies[0].get(key, 0) - frequencies[1].get(key, 0)) for key in frequencies[0])
    assert found.weighted_splits.largest_difference == pytest.approx(largest)
    sizes = [int((np.cumsum(np.sort(w)[::-1]) < 0.95).sum()) + 1 for w in (reference.weights, posterior.weights)]
    assert found.credible_sets == tuple(sizes)


def test_mrbayes_credible_set_of_ds1_has_42_topologies(real_data):
    """As its authors count: ten replicates, each weighing the same, and the topology that crosses the line is in."""
    reference = pool(read_samples([real_data / "mrbayes" / "DS1"]))
    weights = np.sort(reference.distinct().normalized().weights)[::-1]
    assert len(weights) == 2784
    assert credible_set_size(weights, 0.95) == 42


def test_equal_topologies_of_the_reference_count_together_and_those_without_weight_add_nothing(reference, posterior):
    weights = reference.weights.copy()
    weights[[2, 6]] = 0
    merged = TreeSample(TAXA, EVERYTHING, weights, None)
    places = np.random.default_rng(5).permutation(np.tile(np.arange(15), 2))
    split_up = TreeSample(TAXA, EVERYTHING[places], 350 * weights[places], None)
    net = network(EVERYTHING, 1)
    expected, found = (compare_with_reference(one, [net], [1.0], posterior) for one in (merged, split_up))
    p, q = weights / weights.sum(), probabilities(net)
    seen = p > 0
    assert expected.divergence == pytest.approx(p[seen] @ np.log(p[seen] / q[seen]))
    assert found.topologies == 15
    assert found.divergence == pytest.approx(expected.divergence)
    assert found.total_variation == pytest.approx(expected.total_variation)
    assert found.weighted_total_variation == pytest.approx(expected.weighted_total_variation)
    assert found.credible_sets == expected.credible_sets
