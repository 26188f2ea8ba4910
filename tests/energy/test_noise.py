"""Noise: what each kind draws is what it says, and what it says sums to one."""

import math

import numpy as np
import pytest

from phloem.energy.noise import ListedNoise, Noise, SubsplitNoise, UniformNoise
from phloem.errors import BadArgument
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, nni_neighbors, topology_count
from phloem.trees.topology import TopologyBatch
from phloem.variational.fitting import fit_network
from reference.dictionary_sbn import probability
from reference.nested import from_parent
from support.sbn_tables import as_dictionary
from support.small_densities import fit_of, sample_of

KINDS = ("uniform", "listed", "sbn")
STREAM = RandomStream(3, "noise")


def noise_of(kind: str, taxa: int, share: float = 0.2) -> Noise:
    topologies = all_topologies(taxa)
    if kind == "uniform":
        return UniformNoise(taxa)
    if kind == "listed":
        return ListedNoise(topologies[:: max(1, taxa - 3)])
    trees = TopologyBatch.concatenate([topologies[1], nni_neighbors(topologies[1])])
    weights = np.random.default_rng(1).exponential(size=len(trees))
    return SubsplitNoise(fit_network(sample_of(trees, weights), smoothing=1e-3).network, share)


@pytest.mark.parametrize("taxa", [4, 5, 6, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_sum_to_one_over_all_topologies(kind, taxa):
    log_prob = noise_of(kind, taxa).log_prob(all_topologies(taxa))
    assert np.exp(log_prob).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("taxa", [4, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_draws_are_as_frequent_as_their_probabilities_say(kind, taxa):
    noise, topologies = noise_of(kind, taxa), all_topologies(taxa)
    assert noise.taxon_count == taxa
    drawn = noise.draw(20_000, stream=STREAM)
    assert fit_of(drawn.topologies, topologies, np.exp(noise.log_prob(topologies))) > 1e-4
    np.testing.assert_allclose(drawn.log_prob, noise.log_prob(drawn.topologies), atol=1e-12)
    if noise.listed is not None:
        places = noise.places(20_000, stream=STREAM)
        assert fit_of(noise.listed[places], topologies, np.exp(noise.log_prob(topologies))) > 1e-4


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_a_networks_noise_is_a_mixture_of_the_dictionary_twin_and_of_all_topologies(share):
    noise = noise_of("sbn", 6, share)
    network = noise.network
    tables = as_dictionary(network.support, network.tables().probabilities)
    topologies = all_topologies(6)
    expected = [
        (1 - share) * probability(from_parent(parent, 6), tables) + share / 105 for parent in topologies.parent.tolist()
    ]
    assert min(expected) == share / 105  # there are topologies outside the support
    np.testing.assert_allclose(np.exp(noise.log_prob(topologies)), expected, rtol=1e-9)


def test_a_listed_noise_knows_nothing_else():
    topologies = all_topologies(6)
    noise = ListedNoise(topologies[[5, 2, 9, 2]])
    assert noise.listed.equal(topologies[[5, 2, 9]]).all()
    log_prob = noise.log_prob(topologies)
    np.testing.assert_allclose(log_prob[[2, 5, 9]], -math.log(3))
    assert (np.delete(log_prob, [2, 5, 9]) == -np.inf).all()
    with pytest.raises(BadArgument, match="on 5 taxa"):
        noise.log_prob(all_topologies(5))


def test_topologies_are_listed_up_to_eight_taxa():
    assert len(UniformNoise(8).listed) == 10_395
    many = UniformNoise(9)
    assert many.listed is None
    drawn = many.draw(3, stream=STREAM)
    np.testing.assert_array_equal(drawn.log_prob, np.full(3, -math.log(topology_count(9))))
    np.testing.assert_array_equal(many.log_prob(drawn.topologies), drawn.log_prob)


@pytest.mark.parametrize("kind", KINDS)
def test_the_draws_of_a_step_do_not_depend_on_what_was_drawn_before(kind):
    noise = noise_of(kind, 7)
    first = noise.draw(50, stream=STREAM.at(4)).topologies.parent
    noise.draw(13, stream=STREAM.at(3))
    np.testing.assert_array_equal(noise.draw(50, stream=STREAM.at(4)).topologies.parent, first)
    np.testing.assert_array_equal(noise.draw(20, stream=STREAM.at(4)).topologies.parent, first[:20])
    for other in (STREAM.at(5), STREAM.at(4, 50), RandomStream(4, "noise", 4), RandomStream(3, "data", 4)):
        assert not np.array_equal(noise.draw(50, stream=other).topologies.parent, first)


@pytest.mark.parametrize("kind", KINDS)
def test_single_draws_of_many_steps_are_as_frequent_too(kind):
    noise, topologies = noise_of(kind, 5, share=0.5), all_topologies(5)
    rows = [noise.draw(1, stream=STREAM.at(step)).topologies.parent for step in range(2000)]
    drawn = TopologyBatch.from_canonical(np.concatenate(rows))
    assert fit_of(drawn, topologies, np.exp(noise.log_prob(topologies))) > 1e-4


def test_no_draws_are_none():
    for kind in KINDS:
        assert len(noise_of(kind, 5).draw(0, stream=STREAM).topologies) == 0


@pytest.mark.parametrize("share", [0, 1, -0.1, math.nan])
def test_a_network_needs_some_uniform_noise_beside_it(share):
    with pytest.raises(BadArgument, match=r"uniform share of .* between 0 and 1"):
        SubsplitNoise(noise_of("sbn", 5).network, share)
