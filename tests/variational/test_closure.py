"""Closed supports: all pairs of clades tried by hand, every tree that consists of seen splits, and no other."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import phloem.config.infer
from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, nni_neighbors, random_topologies
from phloem.trees.reading import parse_newick, read_trees
from phloem.trees.sample import TreeSample, pool
from phloem.trees.splits import distinct_splits, unpack_bits
from phloem.trees.topology import TopologyBatch
from phloem.variational.fitting import first_network, fit_network, refit
from phloem.variational.sbn import (
    CLOSURES,
    SubsplitNetwork,
    SubsplitSupport,
    closed_support,
    collect_support,
    frequent_topologies,
    read_support,
    support_of,
    write_support,
)
from reference.dictionary_sbn import close, em_step, probability, rootings, subsplits_of
from reference.nested import from_parent, leaves
from support.sbn_tables import as_dictionary
from support.strategies import related_topologies, topology_batches

seeds = st.integers(0, 2**32)
batches = related_topologies(most=8, trees=8) | topology_batches(least=4, most=8, trees=8)


def sample_of(topologies: TopologyBatch, weights: np.ndarray | None = None) -> TreeSample:
    taxa = tuple(f"taxon {number}" for number in range(topologies.taxon_count))
    return TreeSample(taxa, topologies, np.ones(len(topologies)) if weights is None else weights, None)


def closed(topologies: TopologyBatch) -> SubsplitSupport:
    return collect_support([sample_of(topologies)], closure="clades")


def random_network(topologies: TopologyBatch, seed: int, scale: float = 1.0) -> SubsplitNetwork:
    support = closed(topologies)
    logits = scale * np.random.default_rng(seed).normal(size=support.parameter_count)
    return SubsplitNetwork(support, torch.from_numpy(logits))


def splits_of(parent: np.ndarray, taxon_count: int) -> set[frozenset[frozenset[int]]]:
    return {frozenset(map(leaves, rooted)) for rooted in rootings(from_parent(parent, taxon_count))}


def split_of(members: np.ndarray, taxon_count: int) -> frozenset[frozenset[int]]:
    below = frozenset(members.nonzero()[0].tolist())
    return frozenset([below, frozenset(range(taxon_count)) - below])


def seen_in(topologies: TopologyBatch) -> set[frozenset[frozenset[int]]]:
    return set().union(*(splits_of(parent, topologies.taxon_count) for parent in topologies.parent))


def tables_of(support: SubsplitSupport) -> dict:
    entries = as_dictionary(support, np.zeros(support.entry_count))
    return {parent: set(table) for parent, table in entries.items()}


@given(batches)
@settings(max_examples=60)
def test_tables_are_those_of_all_pairs_of_clades(topologies):
    assert tables_of(closed(topologies)) == close(seen_in(topologies))


@pytest.mark.parametrize("taxa", [64, 65, 130])
def test_tables_of_many_taxa_are_those_of_all_pairs_of_clades(taxa):
    tree = random_topologies(taxa, 1, stream=RandomStream(taxa, "tree"))
    neighbors = nni_neighbors(tree)
    topologies = TopologyBatch.concatenate([tree, neighbors[:: len(neighbors) // 30]])
    support = closed(topologies)
    assert tables_of(support) == close(seen_in(topologies))
    assert support.generates(topologies).all()
    network = SubsplitNetwork(support)
    draw = network.draw(200, stream=RandomStream(1, "draw"))
    assert torch.isfinite(draw.log_prob).all()
    assert not support_of(support.taxa, topologies).generates(draw.topologies).all()


@given(batches)
@settings(max_examples=25)
def test_exactly_the_trees_with_seen_splits_are_generated_and_they_sum_to_one(topologies):
    everything = all_topologies(topologies.taxon_count)
    network = random_network(topologies, 3)
    seen = seen_in(topologies)
    expected = [splits_of(parent, topologies.taxon_count) <= seen for parent in everything.parent]
    probabilities = network.log_prob(everything).exp()
    assert abs(probabilities.sum().item() - 1) <= 1e-12
    np.testing.assert_array_equal(probabilities.detach().numpy() > 0, expected)
    np.testing.assert_array_equal(network.support.generates(everything), expected)


@given(batches, seeds)
@settings(max_examples=25)
def test_log_probabilities_are_those_of_dictionaries_without_sisters(topologies, seed):
    network = random_network(topologies, seed)
    tables = as_dictionary(network.support, network.tables().probabilities)
    others = random_topologies(topologies.taxon_count, 5, stream=RandomStream(seed, "others"))
    batch = TopologyBatch.concatenate([topologies, nni_neighbors(topologies[:2]), others])
    trees = [from_parent(parent, batch.taxon_count) for parent in batch.parent]
    with np.errstate(divide="ignore"):
        expected = np.log([probability(tree, tables, closed=True) for tree in trees])
    np.testing.assert_allclose(network.log_prob(batch).detach(), expected, rtol=1e-10, atol=1e-12)


@given(related_topologies(most=30, trees=10), seeds)
@settings(max_examples=25)
def test_every_rooting_of_a_drawn_tree_is_possible(topologies, seed):
    network = random_network(topologies, seed)
    draw = network.draw(10, stream=RandomStream(seed, "draw"))
    branches = draw.topologies.branch_count
    repeated = draw.topologies[np.repeat(np.arange(10), branches)]
    rooted = network.log_prob_rooted(repeated, np.tile(np.arange(branches), 10))
    assert torch.isfinite(rooted).all()
    np.testing.assert_allclose(rooted.reshape(10, -1).logsumexp(1).detach(), draw.log_prob.detach(), rtol=1e-12)


@given(related_topologies(most=9, trees=8), seeds)
@settings(max_examples=15)
def test_gradients_by_finite_differences(topologies, seed):
    network = random_network(topologies, seed)
    if network.support.parameter_count == 0:
        return
    weights = torch.linspace(-1, 2, len(topologies), dtype=torch.float64)
    (network.log_prob(topologies) @ weights).backward()
    start = network.logits.detach().clone()
    for parameter in np.random.default_rng(seed).integers(len(start), size=12):
        values = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                network.logits.copy_(start)
                network.logits[parameter] += step
                values.append(network.log_prob(topologies) @ weights)
        slope = (values[0] - values[1]).item() / 2e-6
        assert network.logits.grad[parameter].item() == pytest.approx(slope, abs=1e-7)


def test_draws_have_the_exact_probabilities():
    everything = all_topologies(7)
    network = random_network(random_topologies(7, 12, stream=RandomStream(1, "trees")), 3)
    count = 300_000
    draws = network.sample(count, stream=RandomStream(7, "draws"))
    drawn = Counter(row.tobytes() for row in draws.parent)
    observed = np.array([drawn[row.tobytes()] for row in everything.parent])
    expected = count * network.log_prob(everything).exp().detach().numpy()
    assert (observed[expected == 0] == 0).all()
    often = expected > 5
    assert often.sum() > 40
    statistic = ((observed - expected)[often] ** 2 / expected[often]).sum()
    assert chi2.sf(statistic, often.sum()) > 1e-4


@given(batches, seeds)
@settings(max_examples=30)
def test_the_rarest_splits_are_left_out_and_what_is_part_of_no_tree_without_them(topologies, seed):
    taxa = topologies.taxon_count
    random = np.random.default_rng(seed)
    sample = sample_of(topologies, random.integers(1, 4, size=len(topologies)).astype(float)).distinct()
    trees = [splits_of(parent, taxa) for parent in sample.topologies.parent]
    count = Counter[frozenset[frozenset[int]]]()
    for tree, weight in zip(trees, sample.weights, strict=True):
        count.update(dict.fromkeys(tree, int(weight)))
    appearance = [split_of(row, taxa) for row in unpack_bits(distinct_splits(sample.topologies)[0], taxa)]
    likely = [math.prod(count[split] for split in tree) for tree in trees]
    whole = closed_support(sample, most_entries=10**6)
    assert whole.splits_left_out == 0
    assert closed_support(sample, most_entries=whole.entry_count).entry_count == whole.entry_count
    for most in (1, whole.entry_count // 2, whole.entry_count - 1):
        support = closed_support(sample, most_entries=most)
        possible = []
        for tree, product in zip(trees, likely, strict=True):
            if product == max(likely):
                others = sorted((split for split in appearance if split not in tree), key=lambda split: -count[split])
                choices = [tree | {*others[:kept]} for kept in range(len(others) + 1)]
                within = [splits for splits in choices if len(splits) + len(subsplits_of(splits)) <= most]
                possible.append(close(within[-1] if within else tree))
        assert tables_of(support) in possible
        assert support.splits_left_out == len(count) - len(support.splits)
        assert support.entry_count <= max(most, 5 * taxa - 9)  # one tree stays
        assert torch.isfinite(SubsplitNetwork(support).draw(20, stream=RandomStream(seed, "draw")).log_prob).all()


def test_of_equally_frequent_splits_the_last_to_appear_is_left_out_first():
    topologies = all_topologies(5)[:7]
    sample = sample_of(topologies, np.array([9.0, 1, 1, 1, 1, 1, 1]))
    whole = closed_support(sample)
    support = closed_support(sample, most_entries=whole.entry_count - 1)
    assert 0 < support.splits_left_out < len(whole.splits)
    assert support.generates(topologies[:2]).all()
    assert not support.generates(topologies[-1:]).any()


def test_a_bound_of_one_leaves_one_tree_without_parameters():
    topologies = random_topologies(9, 20, stream=RandomStream(1, "trees"))
    support = closed_support(sample_of(topologies), most_entries=1)
    assert (support.topology_count, support.parameter_count, support.entry_count) == (20, 0, 15 + 3 * 7)
    draws = SubsplitNetwork(support).sample(10, stream=RandomStream(1, "draw"))
    assert (draws.parent == draws.parent[0]).all()
    assert support.generates(topologies).sum() == 1


def test_cuts_come_before_the_closure():
    topologies = all_topologies(5)
    sample = sample_of(topologies[:3], np.array([60.0, 36, 4]))
    options = {"credible": 0.95, "minimum_count": 10.0}
    assert len(frequent_topologies([sample, sample], **options)) == 1
    support = collect_support([sample, sample], **options, closure="clades")
    assert support.closed
    assert support.generates(topologies).sum() == 1
    assert not collect_support([sample]).closed
    assert ("auto", *CLOSURES) == phloem.config.infer.CLOSURES
    with pytest.raises(BadArgument, match="unknown closure splits: choose one of none, clades"):
        collect_support([sample], closure="splits")
    with pytest.raises(BadArgument, match="at least 4"):
        closed_support(sample_of(all_topologies(3)))


samples = st.builds(
    lambda topologies, seed: sample_of(topologies, np.random.default_rng(seed).exponential(size=len(topologies))),
    related_topologies(most=7, trees=6),
    seeds,
)


@given(samples, st.sampled_from([0.0, 1e-3, 0.1]))
@settings(max_examples=20)
def test_em_never_lowers_its_objective_and_averages_are_those_of_dictionaries(sample, smoothing):
    fit = fit_network(sample, smoothing=smoothing, closure="clades", tolerance=1e-300, most_iterations=40)
    assert (np.diff([step.objective for step in fit.iterations]) >= -1e-12).all()
    average = fit_network(sample, smoothing=smoothing, closure="clades", method="average").network
    trees = [from_parent(parent, len(sample.taxa)) for parent in sample.topologies.parent]
    entries = as_dictionary(average.support, np.ones(average.support.entry_count))
    expected = em_step(trees, sample.weights.tolist(), None, smoothing, entries, closed=True)
    found = as_dictionary(average.support, average.tables().probabilities)
    for parent, table in found.items():
        if average.support.parameter_count and any(expected[parent].values()):
            assert table == pytest.approx(expected[parent], abs=1e-10)


def test_em_does_not_stay_at_averages_where_all_rootings_are_equally_probable():
    sample = sample_of(all_topologies(6)[::7], np.random.default_rng(5).exponential(size=15))
    average = fit_network(sample, method="average", closure="clades")
    branches = np.arange(9)
    rooted = average.network.log_prob_rooted(sample.topologies[[3] * 9], branches).detach()
    np.testing.assert_allclose(rooted, rooted[0].item())
    em = fit_network(sample, closure="clades")
    assert em.iterations[-1].log_likelihood > average.iterations[0].log_likelihood + 0.01


def test_trees_with_splits_that_are_left_out_do_not_count_in_a_fit(monkeypatch):
    topologies = random_topologies(9, 20, stream=RandomStream(1, "trees"))
    monkeypatch.setattr("phloem.variational.sbn.MOST_CLOSED_ENTRIES", 100)
    fit = fit_network(sample_of(topologies), closure="clades", smoothing=1e-3)
    support = fit.network.support
    assert support.splits_left_out
    assert 0 < support.generates(topologies).sum() < 20
    assert np.isfinite(fit.iterations[-1].log_likelihood)


def test_a_closed_network_is_refitted():
    network = random_network(random_topologies(7, 12, stream=RandomStream(1, "trees")), 3)
    trees = network.sample(50, stream=RandomStream(1, "draws"))
    sample = sample_of(trees).distinct().normalized()
    fitted = refit(network, sample.topologies, sample.weights, prior=1e-3)
    gain = fitted.log_prob(sample.topologies) - network.log_prob(sample.topologies)
    assert sample.weights @ gain.detach().numpy() > 0.1
    assert abs(fitted.log_prob(all_topologies(7)).exp().sum().item() - 1) < 1e-12


def test_the_closed_support_of_bootstrap_trees_of_ds1_generates_them_from_fewer_entries(real_data):
    replicates = [read_trees(path) for path in sorted((real_data / "ufboot" / "DS1").glob("*.gz"))[:2]]
    support = collect_support(replicates, closure="clades")
    pairs = collect_support(replicates)
    assert support.entry_count < pairs.entry_count
    assert support.generates(pool(replicates).topologies).all()


@pytest.mark.parametrize(
    ("groups", "trees"),
    [([], 1), ([(4, 5, 6)], 3), ([(0, 1, 2)], 3), ([(0, 1), (3, 5)], 1), ([(0, 1, 2), (3, 4, 5, 6)], 45)],
)
def test_taxa_with_equal_data_may_be_arranged_in_any_way(groups, trees):
    tree = parse_newick(["(t0,t1,(t2,(t3,(t4,(t5,t6)))));"]).topologies
    support = closed_support(sample_of(tree), identical=[np.array(group) for group in groups])
    everything = all_topologies(7)
    wanted = seen_in(tree)
    for group in groups:
        for size in range(2, len(group) + 1):
            for part in combinations(group, size):
                wanted.add(frozenset([frozenset(part), frozenset(range(7)) - frozenset(part)]))
    expected = [splits_of(parent, 7) <= wanted for parent in everything.parent]
    np.testing.assert_array_equal(support.generates(everything), expected)
    assert sum(expected) == trees


def test_a_support_of_one_tree_with_identical_taxa_is_read_back(tmp_path):
    tree = random_topologies(7, 1, stream=RandomStream(3, "tree"))
    support = closed_support(sample_of(tree), identical=[np.array([4, 5, 6])])
    write_support(support, tmp_path / "support.npz")
    found = read_support(tmp_path / "support.npz")
    assert found.closed
    np.testing.assert_array_equal(found.divisions, support.divisions)


def test_of_a_group_too_large_only_what_was_seen_counts(monkeypatch):
    monkeypatch.setattr("phloem.variational.closure.MOST_IDENTICAL", 3)
    tree = random_topologies(9, 1, stream=RandomStream(4, "tree"))
    assert len(closed_support(sample_of(tree), identical=[np.arange(4)]).splits) == 15
    monkeypatch.setattr("phloem.variational.closure.MOST_IDENTICAL", 4)
    assert len(closed_support(sample_of(tree), identical=[np.arange(4)]).splits) > 15


def test_the_best_tree_and_all_parts_of_groups_stay_where_rare_splits_are_left_out():
    trees = TopologyBatch.concatenate([random_topologies(9, 1, stream=RandomStream(n, "tree")) for n in range(20)])
    sample = sample_of(trees, np.array([5.0] + 19 * [1.0]))
    small = closed_support(sample, identical=[np.array([0, 3, 5])], most_entries=60)
    assert small.splits_left_out > 0
    assert small.generates(trees[:1]).all()


@given(batches, seeds)
@settings(max_examples=10)
def test_training_starts_near_the_trees_with_every_tree_possible(topologies, seed):
    weights = np.random.default_rng(seed).exponential(size=len(topologies))
    sample = sample_of(topologies, weights).distinct()
    support = closed_support(sample)
    network = first_network(support, sample)
    uniform = SubsplitNetwork(support)
    shares = sample.normalized().weights
    with torch.no_grad():
        assert shares @ (network.log_prob(sample.topologies) - uniform.log_prob(sample.topologies)).numpy() >= -1e-6
        assert torch.isfinite(network.log_prob(network.sample(50, stream=RandomStream(seed, "draw")))).all()
        assert network.log_prob(all_topologies(topologies.taxon_count)).exp().sum().item() == pytest.approx(1)
