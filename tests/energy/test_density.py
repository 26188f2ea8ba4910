"""Densities: they sum to one, however they are gone through."""

import math

import numpy as np
import pytest

from phloem.energy import density as density_module
from phloem.energy.density import enumerate_density, is_enumerable, normalize
from phloem.energy.noise import ListedNoise, UniformNoise
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, topology_count
from support.small_densities import density_of, target, trained, training_of

STREAM = RandomStream(1, "normalizer")


@pytest.mark.parametrize("taxa", [4, 5, 6, 7])
@pytest.mark.parametrize(
    ("noise", "base"), [("uniform", "noise"), ("listed", "noise"), ("sbn", "noise"), ("sbn", "uniform")]
)
def test_probabilities_sum_to_one_over_all_topologies(taxa, noise, base):
    sample = target(taxa)
    sample = sample[: len(sample) * 2 // 3]
    training = training_of(sample, noise=noise, base=base, rate=0.05)
    for _ in range(5):
        training.step()
    density = density_of(training, sample)
    log_prob = density.log_prob(all_topologies(taxa))
    assert np.exp(log_prob).sum() == pytest.approx(1, abs=1e-6)  # energies are in single precision
    assert density.normalizer.is_exact
    assert density.normalizer.error == 0
    assert density.normalizer.topologies == (len(sample) if noise == "listed" else topology_count(taxa))
    assert density.taxa == sample.taxa


def test_listed_densities_know_nothing_else():
    density = trained(5, "listed")
    log_prob = density.log_prob(all_topologies(5))
    assert np.isfinite(log_prob[:10]).all()
    assert (log_prob[10:] == -np.inf).all()


@pytest.mark.parametrize("chunk", [1, 4, 35, 105, 1000])
def test_all_topologies_in_chunks_are_those_all_at_once(chunk, monkeypatch):
    density = trained(6, "sbn")
    expected = density.unnormalized.log_density(all_topologies(6))
    monkeypatch.setattr(density_module, "CHUNK", chunk)
    told: list[float] = []
    found = enumerate_density(density.unnormalized, density.noise, told.append)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert len(told) == math.ceil(105 / chunk)
    assert told[-1] == 1
    assert told[0] == pytest.approx(min(1, chunk / 105))


def test_a_list_is_gone_through_in_its_own_order():
    density = trained(5, "listed")
    found = enumerate_density(density.unnormalized, density.noise)
    np.testing.assert_allclose(found, density.unnormalized.log_density(density.noise.listed))


def test_up_to_ten_taxa_can_be_gone_through_and_lists_always():
    assert is_enumerable(UniformNoise(10))
    assert not is_enumerable(UniformNoise(11))
    assert is_enumerable(ListedNoise(all_topologies(5)))


def test_the_normaliser_is_the_sum_where_there_is_one():
    density = trained(5)
    found = normalize(density.unnormalized, density.noise, 10, stream=STREAM)
    plain = sum(math.exp(value) for value in density.unnormalized.log_density(all_topologies(5)))
    assert found.log_value == pytest.approx(math.log(plain))
    assert (found.topologies, found.draws, found.error) == (15, 0, 0)
