"""Subsplit networks: exact sums, a dictionary oracle, finite differences, a million draws."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from phloem.errors import BadArgument
from phloem.kernels.variational.sbn import draw_entry
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, nni_neighbors, random_topologies
from phloem.trees.topology import TopologyBatch
from phloem.variational.sbn import SubsplitNetwork, support_of
from reference.dictionary_sbn import probability, rooted_probability, rootings
from reference.nested import from_parent, leaves
from support.sbn_tables import as_dictionary
from support.strategies import related_topologies

seeds = st.integers(0, 2**32)


def random_network(topologies: TopologyBatch, seed: int, scale: float = 2.0) -> SubsplitNetwork:
    support = support_of(tuple(map(str, range(topologies.taxon_count))), topologies)
    logits = scale * np.random.default_rng(seed).normal(size=support.parameter_count)
    return SubsplitNetwork(support, torch.from_numpy(logits))


@given(related_topologies(trees=12), seeds, st.sampled_from([0.0, 1.0, 30.0]))
@settings(max_examples=40)
def test_probabilities_sum_to_one_over_all_topologies(topologies, seed, scale):
    network = random_network(topologies, seed, scale)
    total = network.log_prob(all_topologies(topologies.taxon_count)).exp().sum()
    assert abs(total.item() - 1) <= 1e-12


@given(st.integers(4, 8), seeds)
@settings(max_examples=15)
def test_probabilities_sum_to_one_on_supports_of_unrelated_trees(taxa, seed):
    stream = RandomStream(seed, "trees")
    network = random_network(random_topologies(taxa, 20, stream=stream), seed)
    assert abs(network.log_prob(all_topologies(taxa)).exp().sum().item() - 1) <= 1e-12


@given(related_topologies(most=7, trees=8), seeds)
@settings(max_examples=25)
def test_log_probabilities_are_those_of_the_dictionary_oracle(topologies, seed):
    network = random_network(topologies, seed)
    tables = as_dictionary(network.support, network.tables().probabilities)
    others = random_topologies(topologies.taxon_count, 10, stream=RandomStream(seed, "others"))
    batch = TopologyBatch.concatenate([topologies, nni_neighbors(topologies), others])
    expected = [probability(from_parent(parent, batch.taxon_count), tables) for parent in batch.parent]
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(network.log_prob(batch).detach(), np.log(expected), rtol=1e-10, atol=1e-12)


@given(related_topologies(most=7, trees=6), seeds)
@settings(max_examples=15)
def test_rooted_log_probabilities_are_those_of_the_dictionary_oracle(topologies, seed):
    network = random_network(topologies, seed)
    tables = as_dictionary(network.support, network.tables().probabilities)
    members = network.support.splits[network.support.indices(topologies).splits, 0]
    sets = as_sets(network, members)
    for tree, parent in enumerate(topologies.parent):
        expected = {}
        for rooted in rootings(from_parent(parent, topologies.taxon_count)):
            expected[frozenset(map(leaves, rooted))] = rooted_probability(rooted, tables)
        everything = frozenset(range(topologies.taxon_count))
        branches = np.arange(topologies.branch_count)
        batch = topologies[[tree] * len(branches)]
        found = network.log_prob_rooted(batch, branches).exp().detach().numpy()
        for branch in branches:
            below = sets[tree][branch]
            assert found[branch] == pytest.approx(expected[frozenset([below, everything - below])], rel=1e-10)


def as_sets(network, clades):
    bits = network.support.clades[clades][..., 0]
    return [[frozenset(t for t in range(64) if int(word) >> t & 1) for word in row] for row in bits]


@given(related_topologies(most=9, trees=6), seeds)
@settings(max_examples=15)
def test_gradients_by_finite_differences(topologies, seed):
    network = random_network(topologies, seed, 1.0)
    roots = np.arange(len(topologies)) % topologies.branch_count

    def both(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            network.logits.copy_(logits)
        return network.log_prob(topologies), network.log_prob_rooted(topologies, roots)

    if network.support.parameter_count == 0:
        return
    start = network.logits.detach().clone()
    for which in (0, 1):
        network.zero_grad()
        values = both(start)[which]
        weights = torch.linspace(-1, 2, len(values), dtype=torch.float64)
        (values @ weights).backward()
        step = 1e-6
        for parameter in np.random.default_rng(seed).integers(len(start), size=12):
            shift = torch.zeros_like(start)
            shift[parameter] = step
            with torch.no_grad():
                slope = ((both(start + shift)[which] - both(start - shift)[which]) @ weights) / (2 * step)
            assert network.logits.grad[parameter].item() == pytest.approx(slope.item(), abs=1e-7)


def test_gradients_of_impossible_trees_are_zero_and_of_possible_ones_finite():
    topologies = all_topologies(6)
    network = random_network(topologies[[0, 17]], 1)
    values = network.log_prob(topologies)
    assert torch.isneginf(values).sum() > 90
    values[torch.isfinite(values)].sum().backward()
    assert torch.isfinite(network.logits.grad).all()
    assert network.logits.grad.abs().max() > 0
    network.zero_grad()
    rooted = network.log_prob_rooted(topologies, np.zeros(len(topologies), int))
    impossible = torch.isneginf(rooted)
    assert 90 < impossible.sum() < 105
    rooted.backward(impossible.double())
    assert (network.logits.grad == 0).all()


def test_a_million_draws_have_the_exact_probabilities():
    taxa = 6
    everything = all_topologies(taxa)
    seen = np.random.default_rng(1).permutation(len(everything))[:40]
    network = random_network(everything[seen], 3, 1.0)
    draws = network.sample(1_000_000, stream=RandomStream(7, "draws"))
    number = {row.tobytes(): index for index, row in enumerate(everything.parent)}
    found, counts = np.unique(draws.parent, axis=0, return_counts=True)
    observed = np.zeros(len(everything))
    observed[[number[row.tobytes()] for row in found]] = counts
    expected = 1e6 * network.log_prob(everything).exp().detach().numpy()
    assert (observed[expected == 0] == 0).all()
    often = expected > 5
    rest = expected[~often].sum()
    statistic = ((observed - expected)[often] ** 2 / expected[often]).sum()
    if rest > 5:
        statistic += (observed[~often].sum() - rest) ** 2 / rest
    assert often.sum() > len(seen)  # trees that were never seen too
    assert chi2.sf(statistic, often.sum() - 1 + (rest > 5)) > 1e-4


@given(related_topologies(most=30, trees=10), seeds)
@settings(max_examples=30)
def test_drawn_trees_are_canonical_and_their_splits_and_primary_subsplits_known(topologies, seed):
    network = random_network(topologies, seed)
    draw = network.draw(20, stream=RandomStream(seed, "draw"))
    again = TopologyBatch.from_parents(draw.topologies.parent)
    np.testing.assert_array_equal(draw.topologies.parent, again.parent)
    np.testing.assert_array_equal(draw.topologies.neighbors, again.neighbors)
    leaf_count = topologies.taxon_count
    assert (draw.indices.splits >= 0).all()
    assert (draw.indices.subsplits[:, :, 1] >= 0).all()
    assert (draw.indices.subsplits[:, leaf_count:, 0] >= 0).all()
    assert (draw.indices.subsplits[:, :leaf_count, 0] == -1).all()
    assert torch.isfinite(draw.log_prob).all()
    assert torch.equal(draw.log_prob, network.log_prob(draw.topologies))


def test_a_draw_depends_on_its_particle_alone():
    network = random_network(random_topologies(20, 30, stream=RandomStream(2, "trees")), 3)
    stream = RandomStream(5, "draws", step=9)
    ten = network.sample(10, stream=stream)
    assert (network.sample(4, stream=stream.at(9, 6)).parent == ten[6:].parent).all()
    assert (network.sample(10, stream=stream).parent == ten.parent).all()
    assert (network.sample(10, stream=stream.at(10)).parent != ten.parent).any()
    assert len(network.sample(0, stream=stream)) == 0


def test_an_entry_of_probability_zero_is_never_drawn():
    network = random_network(all_topologies(5), 1)
    with torch.no_grad():
        for first in network.support.free_starts[:-1]:
            network.logits[first] = -torch.inf
    draws = network.sample(2000, stream=RandomStream(1, "draws"))
    assert torch.isfinite(network.log_prob(draws)).all()
    assert abs(network.log_prob(all_topologies(5)).exp().sum().item() - 1) < 1e-12


@pytest.mark.parametrize(
    ("probabilities", "uniform", "drawn"),
    [
        ([0.25, 0.25, 0.5], 0.25, 1),  # on the boundary: the next one
        ([0.25, 0.25, 0.5], np.nextafter(0.25, 0), 0),
        ([0.1] * 9 + [0.0999999], np.nextafter(1, 0), 9),  # rounding: the last one
        ([0.5, 0.4999999, 0.0], np.nextafter(1, 0), 1),  # but never an impossible one
        ([0.0, 1.0], 0.0, 1),
    ],
)
def test_an_entry_is_drawn_where_the_running_sum_exceeds_the_number(probabilities, uniform, drawn):
    padded = np.array([9.0, *probabilities, 9.0])
    assert draw_entry(padded, 1, len(probabilities) + 1, uniform) == drawn + 1


def test_logits_need_not_lie_in_a_row_in_memory():
    topologies = all_topologies(5)
    support = support_of(tuple("abcde"), topologies)
    spread = torch.randn(2 * support.parameter_count, dtype=torch.float64)[::2]
    strided, dense = SubsplitNetwork(support, spread), SubsplitNetwork(support, spread.clone())
    assert not strided.logits.is_contiguous()
    assert torch.equal(strided.log_prob(topologies), dense.log_prob(topologies))


def test_a_table_that_cannot_be_reached_may_have_no_possible_entry():
    topologies = all_topologies(5)
    network = random_network(topologies, 1)
    starts = network.support.free_starts
    last = len(starts) - 2
    with torch.no_grad():
        network.logits[starts[last] : starts[last + 1]] = -torch.inf
    assert np.isfinite(network.tables().log_probabilities).all()
    assert abs(network.log_prob(topologies).exp().sum().item() - 1) < 1e-12


def test_one_tree_has_probability_one_and_no_parameters():
    tree = random_topologies(9, 1, stream=RandomStream(4, "tree"))
    network = random_network(tree, 0)
    assert network.support.parameter_count == 0
    assert network.log_prob(tree).item() == pytest.approx(0, abs=1e-14)
    assert (network.sample(50, stream=RandomStream(1, "draws")).parent == tree.parent).all()
    branches = np.arange(tree.branch_count)
    rooted = network.log_prob_rooted(tree[[0] * len(branches)], branches)
    np.testing.assert_allclose(rooted.exp().detach(), 1 / len(branches))
    network.log_prob(tree).sum().backward()
    assert network.logits.grad.shape == (0,)


def test_large_logits_do_not_overflow_and_many_taxa_do_not_underflow():
    tree = random_topologies(400, 1, stream=RandomStream(1, "tree"))
    topologies = TopologyBatch.concatenate([tree, nni_neighbors(tree)])
    network = random_network(topologies, 1, 300.0)
    draw = network.draw(5, stream=RandomStream(1, "draw"))
    assert torch.isfinite(draw.log_prob).all()
    draw.log_prob.sum().backward()
    assert torch.isfinite(network.logits.grad).all()


def test_bad_arguments_are_refused():
    network = random_network(all_topologies(5), 1)
    trees = all_topologies(5)[:2]
    with pytest.raises(BadArgument, match="-1 topologies"):
        network.sample(-1, stream=RandomStream(1, "draws"))
    with pytest.raises(BadArgument, match="one branch number per topology"):
        network.log_prob_rooted(trees, np.array([0]))
    with pytest.raises(BadArgument, match="from 0 to 6"):
        network.log_prob_rooted(trees, np.array([0, 7]))
    with pytest.raises(BadArgument, match="logits of shape"):
        SubsplitNetwork(network.support, torch.zeros(3, dtype=torch.float64))
    with pytest.raises(BadArgument, match="double precision"):
        SubsplitNetwork(network.support, torch.zeros(network.support.parameter_count))
