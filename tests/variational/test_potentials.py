"""Split potentials: products over the splits of every tree, summed by enumeration, and fits to frequencies."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies
from phloem.trees.sample import TreeSample
from phloem.trees.topology import TopologyBatch
from phloem.variational.fitting import fit_network
from phloem.variational.potentials import fit_potentials, network_from_potentials
from phloem.variational.sbn import SubsplitSupport, closed_support, support_of
from support.strategies import related_topologies, topology_batches

seeds = st.integers(0, 2**32)
batches = related_topologies(most=8, trees=8) | topology_batches(least=4, most=7, trees=8)


def sample_of(topologies: TopologyBatch, seed: int) -> TreeSample:
    weights = np.random.default_rng(seed).exponential(size=len(topologies))
    return TreeSample(tuple(map(str, range(topologies.taxon_count))), topologies, weights, None).normalized()


def every_tree(support: SubsplitSupport) -> TopologyBatch:
    everything = all_topologies(len(support.taxa))
    return everything[support.generates(everything)]


def products(support: SubsplitSupport, trees: TopologyBatch, potentials: np.ndarray) -> np.ndarray:
    """The probabilities of trees, which are all that there are."""
    weights = np.exp([potentials[splits].sum() for splits in support.indices(trees).splits])
    return np.asarray(weights / weights.sum())


def frequencies_of(support: SubsplitSupport, trees: TopologyBatch, weights: np.ndarray) -> np.ndarray:
    found = np.zeros(len(support.splits))
    for splits, weight in zip(support.indices(trees).splits, weights, strict=True):
        found[splits] += weight
    return np.minimum(found, 1)


@given(batches, seeds)
@settings(max_examples=25)
def test_trees_are_as_probable_as_the_products_of_their_splits_weights(topologies, seed):
    support = closed_support(sample_of(topologies, seed).distinct())
    trees = every_tree(support)
    potentials = 2 * np.random.default_rng(seed).normal(size=len(support.splits))
    network = network_from_potentials(support, potentials)
    found = network.log_prob(trees).exp().detach().numpy()
    np.testing.assert_allclose(found, products(support, trees, potentials), rtol=1e-9)


@given(batches, seeds)
@settings(max_examples=15)
def test_a_tree_is_as_probable_with_its_root_on_any_branch(topologies, seed):
    sample = sample_of(topologies, seed).distinct()
    support = closed_support(sample)
    network = network_from_potentials(support, np.random.default_rng(seed).normal(size=len(support.splits)))
    tree = sample.topologies[:1]
    branches = np.arange(tree.branch_count)
    rooted = network.log_prob_rooted(tree.take(np.zeros_like(branches)), branches).detach().numpy()
    np.testing.assert_allclose(rooted, rooted[0], atol=1e-9)


@given(batches, seeds, st.sampled_from([0.3, 0.01, 1e-4]))
@settings(max_examples=20)
def test_the_fit_is_where_the_gradient_of_likelihood_and_prior_vanishes(topologies, seed, smoothing):
    sample = sample_of(topologies, seed).distinct()
    support = closed_support(sample)
    wanted = frequencies_of(support, sample.topologies, sample.weights)
    fit = fit_potentials(support, wanted, smoothing=smoothing)
    trees = every_tree(support)
    probabilities = products(support, trees, fit.potentials)
    center = np.log((wanted + smoothing / 2) / (1 + smoothing / 2))
    change = fit.potentials - center
    found = frequencies_of(support, trees, probabilities)
    np.testing.assert_allclose(wanted - found - smoothing * change, 0, atol=2e-5)
    assert fit.converged
    log_total = np.log(np.exp([fit.potentials[splits].sum() for splits in support.indices(trees).splits]).sum())
    expected = wanted @ fit.potentials - log_total - 0.5 * smoothing * (change @ change)
    assert fit.objective == pytest.approx(expected, abs=1e-9)


def test_with_little_smoothing_splits_are_as_frequent_as_in_the_sample():
    sample = sample_of(random_topologies(8, 60, stream=RandomStream(2, "trees")), 3)
    fit = fit_network(sample, method="splits", smoothing=1e-5, closure="clades")
    support = fit.network.support
    trees = every_tree(support)
    found = frequencies_of(support, trees, fit.network.log_prob(trees).exp().detach().numpy())
    distinct = sample.distinct()
    np.testing.assert_allclose(found, frequencies_of(support, distinct.topologies, distinct.weights), atol=1e-4)
    assert fit.converged
    assert len(fit.iterations) == 1


def test_of_all_distributions_with_these_splits_it_has_the_largest_entropy():
    trees = all_topologies(6)
    sample = sample_of(trees, 4)
    fit = fit_network(sample, method="splits", smoothing=1e-7, closure="clades")
    probabilities = fit.network.log_prob(trees).exp().detach().numpy()
    splits = fit.network.support.indices(trees).splits
    design = np.zeros((len(trees), len(fit.network.support.splits)))
    np.put_along_axis(design, splits, 1, axis=1)
    np.testing.assert_allclose(design.T @ probabilities, design.T @ sample.weights, atol=1e-4)
    # log-probabilities are sums over splits: in their span, up to a constant
    residual = np.linalg.lstsq(design, np.log(probabilities), rcond=None)[1]
    assert residual.size == 0 or residual.max() < 1e-12
    rank = np.linalg.matrix_rank(design)
    assert np.linalg.matrix_rank(np.column_stack([design, np.log(probabilities)]), tol=1e-6) == rank


def test_half_of_a_wide_sample_predicts_the_other_half_better_than_tables_do():
    network = fit_network(
        sample_of(all_topologies(7)[::9], 1), method="splits", smoothing=0.1, closure="clades"
    ).network
    trees = network.sample(600, stream=RandomStream(5, "sample"))
    halves = [TreeSample(network.support.taxa, half, np.ones(300), None) for half in (trees[:300], trees[300:])]
    by_splits = fit_network(halves[0], method="splits", smoothing=1 / 300, closure="clades").network
    other = halves[1].topologies[by_splits.support.generates(halves[1].topologies)]
    best_tables = max(
        fit_network(halves[0], smoothing=smoothing, closure="clades").network.log_prob(other).mean().item()
        for smoothing in (1e-5, 1e-4, 1e-3, 1e-2)
    )
    assert by_splits.log_prob(other).mean().item() > best_tables + 0.05


def test_a_single_tree_is_certain():
    sample = sample_of(random_topologies(9, 1, stream=RandomStream(1, "tree")), 1)
    fit = fit_network(sample, method="splits", smoothing=0.1, closure="clades")
    assert fit.network.log_prob(sample.topologies).item() == pytest.approx(0)


def test_what_cannot_be_fitted_is_refused():
    sample = sample_of(all_topologies(5)[:6], 1)
    with pytest.raises(BadArgument, match="must be closed"):
        fit_network(sample, method="splits", smoothing=0.1)
    with pytest.raises(BadArgument, match="some smoothing"):
        fit_network(sample, method="splits", closure="clades")
    pairs = support_of(sample.taxa, sample.topologies)
    with pytest.raises(BadArgument, match="not closed"):
        fit_potentials(pairs, np.ones(len(pairs.splits)), smoothing=0.1)
    support = closed_support(sample)
    for frequencies, smoothing in ((np.ones(3), 0.1), (np.full(len(support.splits), 1.5), 0.1)):
        with pytest.raises(BadArgument, match="frequency from 0 to 1"):
            fit_potentials(support, frequencies, smoothing=smoothing)
    with pytest.raises(BadArgument, match="smoothing 0"):
        fit_potentials(support, np.ones(len(support.splits)), smoothing=0.0)
    with pytest.raises(BadArgument, match="finite number"):
        network_from_potentials(support, np.full(len(support.splits), np.nan))
    assert torch.isfinite(network_from_potentials(support, np.zeros(len(support.splits))).logits).all()
