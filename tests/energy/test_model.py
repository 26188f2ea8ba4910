"""The energy of a tree against its formula, tree by tree."""

import numpy as np
import pytest
import torch

from phloem.config.infer import NETWORKS
from phloem.energy import model as model_module
from phloem.energy.model import EnergyModel, Unnormalized
from phloem.energy.noise import ListedNoise, UniformNoise
from phloem.features.convolutions import CONVOLUTIONS as BUILT
from phloem.random_streams import RandomStream
from phloem.trees.generation import all_topologies, random_topologies
from reference.plain_nce import energy
from support.small_densities import trained


def build(taxa: int, name: str = "ggnn") -> EnergyModel:
    torch.manual_seed(5)
    return EnergyModel(taxa, name, width=7).double()


def test_the_config_names_every_convolution():
    assert set(NETWORKS) == {*BUILT, "mlp"}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_energy_is_an_mlp_on_the_sum_of_a_trees_node_features(name):
    topologies, model = random_topologies(7, 4, stream=RandomStream(1, "model")), build(7, name)
    expected = [energy(model, topologies, tree).item() for tree in range(4)]
    np.testing.assert_allclose(model.energies(topologies), expected, rtol=1e-9)
    with torch.no_grad():
        found = model.energy(*model.features.raw_states(topologies))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("nodes", [1, 12, 25, 1000])
def test_trees_scored_some_at_a_time_have_the_same_energies(nodes, monkeypatch):
    topologies, model = random_topologies(7, 9, stream=RandomStream(2, "model")), build(7)
    at_once = model.energies(topologies)
    monkeypatch.setattr(model_module, "CHUNK_NODES", nodes)
    np.testing.assert_allclose(model.energies(topologies), at_once, rtol=1e-12)
    assert not any(parameter.grad is not None for parameter in model.parameters())


def test_an_energy_is_relative_to_its_base():
    topologies, model = all_topologies(5), build(5)
    base = ListedNoise(topologies[3:])
    found = Unnormalized(model, base).log_density(topologies)
    assert (found[:3] == -np.inf).all()
    np.testing.assert_allclose(found[3:], -np.log(12) - model.energies(topologies)[3:])
    uniform = Unnormalized(model, UniformNoise(5)).log_density(topologies)
    np.testing.assert_allclose(uniform, -np.log(15) - model.energies(topologies))


def test_a_lower_energy_is_a_higher_probability():
    density = trained(5)
    energies = density.unnormalized.model.energies(density.observed.topologies)
    assert energies[density.observed.weights.argmax()] == energies.min()


def test_a_model_knows_its_precision():
    assert EnergyModel(5).dtype == torch.float32
    assert build(5).dtype == torch.float64
